package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
)

// journal is what the provider writes down of its own work. Each line is on disk, as far as a killed process is concerned, before the provider
// does the next thing, so that killing it forgets nothing.
//
//	worked    CALL ACCOUNT DOCUMENT        a page of the document was read, and would be billed
//	answered  CALL                         the answer was handed to the kernel whole, and nobody had hung up
//	started   CALL DOCUMENT TOKEN JOB RUN  a job start; no JOB: its answer was lost. RUN is the number of the provider's process
//	fault     ACCOUNT WHAT                 something went wrong on purpose
type journal struct {
	mu sync.Mutex
	to io.Writer
}

func openJournal(path string) (*journal, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	return &journal{to: f}, err
}

func (j *journal) note(fields ...string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, err := io.WriteString(j.to, strings.Join(fields, "\t")+"\n"); err != nil {
		panic(fmt.Errorf("the provider's journal: %w", err)) // Figures without it would be worth nothing.
	}
}

// work is one time that the provider read a document.
type work struct {
	answered bool
}

// start is one start of a job that the provider accepted.
type start struct{ token, job, run string }

// record is a journal that was read.
type record struct {
	works  map[string][]work  // By document.
	starts map[string][]start // By document.
	faults map[string]int     // By what went wrong.
}

// readJournal reads a journal. A last line that was not written whole is passed over.
func readJournal(r io.Reader) (record, error) {
	out := record{works: map[string][]work{}, starts: map[string][]start{}, faults: map[string]int{}}
	callOf := map[string][]string{} // Documents that were worked on, by call.
	var order []string
	answered := map[string]bool{}
	in := bufio.NewReader(r)
	for {
		line, err := in.ReadString('\n')
		if err == io.EOF {
			break
		}
		if err != nil {
			return out, err
		}
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		switch {
		case f[0] == "worked" && len(f) == 4:
			if callOf[f[1]] == nil {
				order = append(order, f[1])
			}
			callOf[f[1]] = append(callOf[f[1]], f[3])
		case f[0] == "answered" && len(f) == 2:
			answered[f[1]] = true
		case f[0] == "started" && len(f) == 6:
			out.starts[f[2]] = append(out.starts[f[2]], start{token: f[3], job: f[4], run: f[5]})
		case f[0] == "fault" && len(f) == 3:
			out.faults[f[2]]++
		default:
			return out, fmt.Errorf("the provider's journal has the line %q", line)
		}
	}
	for _, call := range order {
		for _, doc := range callOf[call] {
			out.works[doc] = append(out.works[doc], work{answered: answered[call]})
		}
	}
	return out, nil
}
