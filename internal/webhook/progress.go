package webhook

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// progress is a file with the number of the last event that is done with. The number is written over the old one in a single call; what a
// broken disk makes of it only means that events are sent again.
type progress struct {
	number uint64
	file   *os.File
}

// progressDigits are enough for any number, so that each overwrites the whole of the one before.
const progressDigits = 20

func openProgress(path string) (*progress, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, fileMode) //nolint:gosec // the operator names the folder
	if err != nil {
		return nil, err
	}
	text := make([]byte, progressDigits+1)
	n, err := io.ReadFull(f, text)
	if err != nil && n == 0 {
		p := &progress{file: f}
		_ = p.save() // Takes the room while there is some, so that a disk that fills up later takes every number.
		return p, nil
	}
	number, err := strconv.ParseUint(strings.TrimSpace(string(text[:n])), 10, 64)
	if err != nil || number > maxNumber/2 {
		number = 0 // Damaged.
	}
	return &progress{number: number, file: f}, nil
}

func (p *progress) save() error {
	_, err := p.file.WriteAt(fmt.Appendf(nil, "%0*d\n", progressDigits, p.number), 0)
	return err
}

func (p *progress) close() error { return p.file.Close() }
