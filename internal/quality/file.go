package quality

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

const (
	// FileName is the summary's name in the folder of the dead letters, which belongs to one process.
	FileName = "quality.json"
	// every is how often it is written, if something has changed.
	every = time.Minute
	// maxFile bounds what is read of it, in bytes: the largest that is written is less than half of it.
	maxFile = 16 << 20
	// version is that of the file's form.
	version = 1
)

// ErrVersion says that the file was written by a newer program.
var ErrVersion = errors.New("it was written by a newer version")

// ErrDamaged says that the file has figures that cannot be.
var ErrDamaged = errors.New("it holds figures that cannot be")

// file is the summary on disk.
type file struct {
	Version int                     `json:"version"`
	Days    map[string][]fileSeries `json:"days"`
}

type fileSeries struct {
	Series
	N       int     `json:"n"`
	Sum     float64 `json:"sum"`
	Squares float64 `json:"squares"`
	// Bins are pairs of a bin and its count, without the empty ones.
	Bins [][2]int `json:"bins"`
}

// figures are what was written; false: nobody wrote them, since no figures from 0 to 1 sum up to that. Who computes with them may rely on it.
func (one *fileSeries) figures() (f *Figures, ok bool) {
	const rounding = 1e-6 // of sums, as a share of them
	f = &Figures{N: one.N, Sum: one.Sum, Squares: one.Squares}
	counted := 0
	for _, bin := range one.Bins {
		if bin[0] < 0 || bin[0] >= bins || bin[1] < 0 || bin[1] > one.N {
			return nil, false
		}
		f.Bins[bin[0]] += bin[1]
		counted += bin[1]
	}
	most := 1 + rounding
	return f, f.N > 0 && counted == f.N && f.Squares >= 0 && f.Squares <= f.Sum*most && f.Sum <= float64(f.N)*most
}

// Open is Load for the process that is going to save the summary: a file that cannot be read is put aside, lest it be written over.
func Open(dir string) (*Summary, error) {
	s, err := Load(dir)
	if err != nil {
		path := filepath.Join(dir, FileName)
		err = errors.Join(err, os.Rename(path, path+".unread"))
	}
	return s, err
}

// Load reads the summary of a folder. Where there is none yet, it is empty. An error says that the file cannot be read or is none of ours; the
// summary is empty then, too.
func Load(dir string) (*Summary, error) {
	s := &Summary{days: map[string]map[Series]*Figures{}}
	f, err := os.Open(filepath.Join(dir, FileName)) //nolint:gosec // the operator names the folder
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return s, err
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return s, err
	}
	var read file
	if err := json.Unmarshal(text, &read); err != nil {
		return s, fmt.Errorf("%s: %w", f.Name(), err)
	}
	if read.Version != version {
		return s, fmt.Errorf("%s: %w", f.Name(), ErrVersion)
	}
	for d, all := range read.Days {
		if _, err := time.Parse(time.DateOnly, d); err != nil {
			continue
		}
		s.days[d] = map[Series]*Figures{}
		for _, one := range all {
			figures, ok := one.figures()
			if !ok {
				s.days = map[string]map[Series]*Figures{}
				return s, fmt.Errorf("%s: %w", f.Name(), ErrDamaged)
			}
			s.days[d][one.Series] = figures
		}
	}
	return s, nil
}

// Save writes the summary, whole or not at all, if something has changed since.
func (s *Summary) Save(dir string) error {
	text, changed, err := s.text()
	if err != nil || !changed {
		return err
	}
	if err = write(dir, text); err != nil {
		s.mu.Lock()
		s.changed = true
		s.mu.Unlock()
	}
	return err
}

func (s *Summary) text() (text []byte, changed bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.changed {
		return nil, false, nil
	}
	s.forget(time.Now())
	out := file{Version: version, Days: map[string][]fileSeries{}}
	for d, all := range s.days {
		for of, f := range all {
			one := fileSeries{Series: of, N: f.N, Sum: f.Sum, Squares: f.Squares}
			for i, n := range f.Bins {
				if n > 0 {
					one.Bins = append(one.Bins, [2]int{i, n})
				}
			}
			out.Days[d] = append(out.Days[d], one)
		}
	}
	s.changed = false
	text, err = json.Marshal(out)
	return text, true, err
}

// write puts the file in its place at once. Figures are worth a sync a minute, not more.
func write(dir string, text []byte) (err error) {
	f, err := os.OpenFile(filepath.Join(dir, FileName+".tmp"), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600) //nolint:gosec // the operator names the folder
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = f.Close()
			_ = os.Remove(f.Name())
		}
	}()
	if _, err = f.Write(text); err != nil {
		return err
	}
	if err = f.Sync(); err != nil {
		return err
	}
	if err = f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), filepath.Join(dir, FileName))
}

// Keep saves the summary every minute and when the context ends. It tells failed once for each series of failures.
func (s *Summary) Keep(ctx context.Context, dir string, failed func(error)) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for well := true; ; {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			if err := s.Save(dir); err != nil && well {
				failed(err)
			}
			return
		}
		err := s.Save(dir)
		if err != nil && well {
			failed(err)
		}
		well = err == nil
	}
}
