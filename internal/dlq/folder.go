package dlq

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
)

// folderStep is how many names of a folder are in memory at a time.
const folderStep = 1024

// eachName calls do with every name in a folder, in no order, until it fails.
func eachName(folder string, do func(name string) error) error {
	return eachBatch(folder, func(f *os.File) error {
		names, err := f.Readdirnames(folderStep)
		for _, name := range names {
			if err := do(name); err != nil {
				return err
			}
		}
		return err
	})
}

// eachFile gives the entries of a folder, in no order, until do fails or the context ends. A folder that is missing has none.
func eachFile(ctx context.Context, folder string, do func(fs.DirEntry) error) error {
	there := false
	err := eachBatch(folder, func(f *os.File) error {
		there = true
		entries, err := f.ReadDir(folderStep)
		for _, entry := range entries {
			if err := context.Cause(ctx); err != nil {
				return err
			}
			if err := do(entry); err != nil {
				return err
			}
		}
		return err
	})
	if !there && folderMissing(err) {
		return nil
	}
	return err
}

// eachBatch calls read until it says [io.EOF].
func eachBatch(folder string, read func(f *os.File) error) error {
	f, err := os.Open(folder) //nolint:gosec // A folder of the store.
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // Nothing was written.
	for err == nil {
		err = read(f)
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// bytesBelow adds up the files below path; what vanishes meanwhile, or cannot
// be read, counts nothing. It fails only when the context ends.
func bytesBelow(ctx context.Context, path string) (sum int64, err error) {
	_ = eachFile(ctx, path, func(d fs.DirEntry) error { // What goes wrong beside the end of the context is no reason to count nothing.
		if d.IsDir() {
			below, err := bytesBelow(ctx, filepath.Join(path, d.Name()))
			sum += below
			return err
		}
		if info, err := d.Info(); err == nil && info.Mode().IsRegular() {
			sum += info.Size()
		}
		return nil
	})
	return sum, context.Cause(ctx)
}

// namesIn guesses from the size of a folder how many letters are in it, and no more than that.
func namesIn(folder string, most int) int {
	info, err := os.Stat(folder)
	if err != nil {
		return 0
	}
	const bytes = 64 // Of a name and its surroundings, or more.
	return int(min(info.Size()/bytes, int64(most)))
}

// page is a part of a folder's letters, the newest first.
type page struct {
	ids  []uid
	more bool     // There are older ones.
	odd  []string // Some files that are named like letters and have no id for a name.
}

// maxOdd bounds the files in a page that cannot be letters.
const maxOdd = 1000

// newest finds the newest letters of a folder, at most so many; those before a
// given one where older is not nil. A folder that is missing is empty. With
// [math.MaxInt] it takes 16 bytes for each of all letters.
func newest(folder string, older *uid, most int) (page, error) {
	p := page{ids: make([]uid, 0, namesIn(folder, 2*min(most, lastPage)))}
	floor := uid{}
	down := func(a, b uid) int { return b.compare(a) }
	err := eachName(folder, func(name string) error {
		id, letter := letterID(name)
		u, ok := parseUID(id)
		switch {
		case !letter:
		case !ok:
			if len(p.odd) < maxOdd {
				p.odd = append(p.odd, name)
			}
		case older != nil && u.compare(*older) >= 0:
		case p.more && u.compare(floor) < 0:
		default:
			if p.ids = append(p.ids, u); most < math.MaxInt/2 && len(p.ids) == 2*most {
				slices.SortFunc(p.ids, down)
				p.ids, p.more = p.ids[:most], true
				floor = p.ids[most-1]
			}
		}
		return nil
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return page{}, err
	}
	slices.SortFunc(p.ids, down)
	p.ids = slices.CompactFunc(p.ids, func(a, b uid) bool { return a == b }) // A folder that changes may name a file twice.
	if len(p.ids) > most {
		p.ids, p.more = p.ids[:most], true
	}
	slices.Sort(p.odd)
	return p, nil
}
