package child

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Resident is the memory that a process has now, in bytes.
func (x *Process) Resident() (int64, error) { return x.status("VmRSS:") }

// Peak is the most memory that a process has had, in bytes.
func (x *Process) Peak() (int64, error) { return x.status("VmHWM:") }

func (x *Process) status(name string) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", x.PID()))
	if err != nil {
		return 0, fmt.Errorf("the memory of a process is read from /proc: %w", err)
	}
	return memoryIn(string(text), name)
}

// memoryIn reads one line of /proc/PID/status, which is in kB.
func memoryIn(status, name string) (int64, error) {
	for line := range strings.Lines(status) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			kb, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			return kb << 10, err
		}
	}
	return 0, errors.New("the process does not say " + name)
}

// Processor is the time that a process has had on the cores.
func (x *Process) Processor() (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", x.PID()))
	if err != nil {
		return 0, fmt.Errorf("the processor time of a process is read from /proc: %w", err)
	}
	return processorIn(string(text))
}

// processorIn adds the user and the system time, which stand behind the command's name in hundredths of a second.
func processorIn(stat string) (time.Duration, error) {
	_, rest, _ := strings.Cut(stat[strings.LastIndexByte(stat, ')')+1:], " ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, errors.New("the process has no times")
	}
	var ticks int64
	for _, field := range fields[11:13] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond, nil
}

// OpenFiles is what the process has open at this moment: where each descriptor leads to.
func (x *Process) OpenFiles() ([]string, error) {
	dir := fmt.Sprintf("/proc/%d/fd", x.PID())
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("open files of a process are read from /proc: %w", err)
	}
	files := make([]string, 0, len(entries))
	for _, e := range entries {
		to, err := os.Readlink(dir + "/" + e.Name())
		if err == nil { // else it was closed meanwhile
			files = append(files, to)
		}
	}
	return files, nil
}
