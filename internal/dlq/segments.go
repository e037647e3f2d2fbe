package dlq

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const (
	segmentSuffix = ".log"
	segmentDigits = 16
)

// segmentName is the file of a segment. They are read in the order of their numbers.
func segmentName(number uint64) string {
	return fmt.Sprintf("%0*d%s", segmentDigits, number, segmentSuffix)
}

// segmentNumber is the number of the segment that a file's name stands for.
func segmentNumber(name string) (number uint64, ok bool) {
	digits, ok := strings.CutSuffix(name, segmentSuffix)
	if !ok || len(digits) != segmentDigits {
		return 0, false
	}
	number, err := strconv.ParseUint(digits, 10, 64)
	return number, err == nil
}

// segmentNumbers lists the segments in a folder, the oldest first. A folder that is missing has none.
func segmentNumbers(folder string) ([]uint64, error) {
	var all []uint64
	err := eachName(folder, func(name string) error {
		if number, ok := segmentNumber(name); ok {
			all = append(all, number)
		}
		return nil
	})
	if err != nil && !folderMissing(err) {
		return nil, err
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// segments are the files of a log, open for reading from the beginning any number of times.
type segments struct {
	files []*os.File
	torn  bool // Set by each: one of them could not be read to its end.
}

// openAttempts is how often the segments are looked for when one is
// replaced between the listing and the opening.
const openAttempts = 3

// openSegments opens the segments that there are in a folder. One that cannot
// be opened is passed over: letters that the log does not know are read from
// their own files.
func openSegments(folder string) (*segments, error) {
	for attempt := 1; ; attempt++ {
		numbers, err := segmentNumbers(folder)
		if err != nil {
			return nil, fmt.Errorf("list the index of dead letters: %w", err)
		}
		s := &segments{}
		missed := false
		for _, number := range numbers {
			f, err := os.Open(filepath.Join(folder, segmentName(number))) //nolint:gosec // A listed name.
			if err != nil {
				missed = missed || errors.Is(err, fs.ErrNotExist)
				s.torn = true
				continue
			}
			s.files = append(s.files, f)
		}
		if !missed || attempt == openAttempts {
			return s, nil
		}
		s.close()
	}
}

func (s *segments) close() {
	for _, f := range s.files {
		_ = f.Close() // Nothing was written.
	}
}

// each calls do with every record, counted from 1, until it fails. A segment
// that is torn ends there: the next one goes on. The record is good until do returns.
func (s *segments) each(do func(n uint32, r *record) error) error {
	n := uint32(0)
	var r record
	for _, f := range s.files {
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return fmt.Errorf("read the index of dead letters: %w", err)
		}
		d, err := newDecoder(f)
		if err != nil {
			s.torn = true
			continue
		}
		for {
			if err = d.next(&r); err != nil {
				break
			}
			n++
			if err := do(n, &r); err != nil {
				return err
			}
		}
		s.torn = s.torn || !errors.Is(err, io.EOF)
	}
	return nil
}

// latest finds, for each place, the number of the last record of the letter
// that has it; 0 where the log knows nothing of it. The function tells which
// place of so many a letter has.
func (s *segments) latest(places int, placeOf func(id uid) (uint32, bool)) ([]uint32, error) {
	last := make([]uint32, places)
	err := s.each(func(n uint32, r *record) error {
		if r.sized {
			return nil
		}
		if place, ok := placeOf(r.id); ok && int(place) < len(last) {
			last[place] = n
			if r.gone {
				last[place] = 0
			}
		}
		return nil
	})
	return last, err
}
