package main

import "errors"

// volume is the disk of the proxy: dead letters and bodies lie on it.
type volume struct {
	dir string
	// small makes it full and roomy again; nil where no disk of its own can be had, and max_bytes is what becomes small.
	small func(full bool) error
}

func (v volume) kind() string {
	if v.small == nil {
		return "dead_letters.max_bytes below what is kept (no file system of its own could be mounted)"
	}
	return "a tmpfs without room, for letters and bodies"
}

// errGrows says that the disk was filled further while its size was read; try again.
var errGrows = errors.New("the disk cannot become smaller than what is on it")

// fill makes the disk full.
func (v volume) fill() (err error) {
	for range 50 {
		if err = v.small(true); !errors.Is(err, errGrows) {
			return err
		}
	}
	return err
}
