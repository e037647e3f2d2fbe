package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// bareWriters is how many write at a time in the bare loop.
const bareWriters = 64

// letterBytes is about what a letter has beside its payload.
const letterBytes = 1800

// bare is the yardstick: one file for each document with all the bytes that the store keeps of it (its payload and a letter's worth), written,
// synced, renamed, and its folder synced. It gives the documents per second.
func bare(ctx context.Context, dir string, size int, d time.Duration) (float64, error) {
	for _, name := range []string{"tmp", "open"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
			return 0, err
		}
	}
	return hammer(ctx, bareWriters, d, func(_ int) func(n int64) error {
		body := filler(size + letterBytes)
		return func(n int64) error {
			stamp(body, n)
			name := strconv.FormatInt(n, 10) + "-" + strconv.FormatInt(time.Now().UnixNano(), 10)
			return durably(filepath.Join(dir, "tmp", name), filepath.Join(dir, "open", name), body)
		}
	})
}

func durably(tmp, to string, body []byte) error {
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if _, err = f.Write(body); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(tmp, to); err != nil {
		return err
	}
	folder, err := os.Open(filepath.Dir(to))
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// hammer lets that many writers work for d, each with a function of its own, and gives what they get done per second.
func hammer(ctx context.Context, writers int, d time.Duration, newWriter func(writer int) func(n int64) error) (float64, error) {
	var (
		wg    sync.WaitGroup
		next  atomic.Int64
		done  atomic.Int64
		fault atomic.Pointer[error]
	)
	began := time.Now()
	for w := range writers {
		write := newWriter(w)
		wg.Go(func() {
			for time.Since(began) < d && ctx.Err() == nil && fault.Load() == nil {
				if err := write(next.Add(1)); err != nil {
					fault.Store(&err)
					return
				}
				done.Add(1)
			}
		})
	}
	wg.Wait()
	if err := fault.Load(); err != nil {
		return 0, *err
	}
	return float64(done.Load()) / time.Since(began).Seconds(), ctx.Err()
}
