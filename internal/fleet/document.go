package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
)

// mark is the line of a result document below which everything is written anew.
const mark = "<!-- fleet: written by go run ./internal/fleet -write -->"

// aboutMachine says where and when it is measured, and what else the machine is doing.
func aboutMachine() string {
	text := fmt.Sprintf("%s, %s/%s, %d cores", time.Now().UTC().Format("2006-01-02 15:04 UTC"), runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
	if cpu := processorName(); cpu != "" {
		text += " (" + cpu + ")"
	}
	text += ", " + runtime.Version()
	if load, err := os.ReadFile("/proc/loadavg"); err == nil {
		if fields := strings.Fields(string(load)); len(fields) > 0 {
			text += ", load average before the run " + fields[0]
		}
	}
	return text
}

func processorName() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// write puts what was measured below the document's mark.
func (f *fleet) write(path, machine, bars, end string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	above, _, ok := strings.Cut(string(text), mark)
	if !ok {
		return fmt.Errorf("%s has no line %q", path, mark)
	}
	command := "go run ./internal/fleet " + strings.Join(os.Args[1:], " ")
	below := fmt.Sprintf("%s\n\nMeasured %s; `%s`, clock %g times faster than the provider's.\n\n%s\n### Bars\n\n```text\n%s```\n\n%s.\n",
		mark, machine, command, float64(f.scale), strings.Join(f.text, "\n"), bars, end)
	return os.WriteFile(path, []byte(above+below), 0o644)
}
