package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/ocr-proxy/ocr-proxy/config"
	"github.com/ocr-proxy/ocr-proxy/internal/admin/client"
	"github.com/ocr-proxy/ocr-proxy/internal/dlq"
)

const (
	// busyTime is how long a command waits for another one that holds the store, and busyPoll how often it looks.
	busyTime = 5 * time.Second
	busyPoll = 100 * time.Millisecond
)

// change is for commands that change letters. Only one process writes to a store: while a proxy holds it, the proxy is asked; else the store is
// opened and the command works alone.
func (f *dlqFlags) change(cmd *cobra.Command, ask func(c *client.Client) error, alone func(s *dlq.Store) error) error {
	dir, err := f.folder(cmd)
	if err != nil {
		return err
	}
	proxy, err := f.proxyOf(dir)
	if err != nil {
		return err
	}
	if proxy != nil {
		defer proxy.Close()
	}
	for end := time.Now().Add(busyTime); ; {
		opened, err := f.alone(cmd, dir, alone)
		switch {
		case opened:
			return err
		case !errors.Is(err, dlq.ErrInUse) && !errors.Is(err, fs.ErrPermission):
			return err
		case proxy == nil && errors.Is(err, dlq.ErrInUse):
			return fmt.Errorf("a running proxy owns %s: say which with --config FILE, so that it can be asked", dir)
		case proxy == nil:
			return err
		}
		asked := ask(proxy)
		if !errors.Is(asked, client.ErrUnreachable) {
			return asked
		}
		if !errors.Is(err, dlq.ErrInUse) || time.Now().After(end) {
			return errors.Join(err, asked)
		}
		if err := sleep(cmd.Context(), busyPoll); err != nil { // Another command has it for a moment.
			return err
		}
	}
}

// proxyOf is the way to the proxy whose store lies in dir; nil when the configuration does not say.
func (f *dlqFlags) proxyOf(dir string) (*client.Client, error) {
	if f.config == "" {
		return nil, nil //nolint:nilnil // There is none to be asked.
	}
	c, err := config.LoadWithoutSecrets(f.config, f.environ)
	if err != nil {
		return nil, err
	}
	if f.dir != "" && !sameFolder(dir, c.DeadLetters.Dir) {
		return nil, nil //nolint:nilnil // It is about another store.
	}
	return client.New(adminOptions(c.Admin))
}

// adminOptions are the way to the admin listener of the proxy with that configuration.
func adminOptions(c config.Admin) client.Options {
	return client.Options{
		Listen: c.Listen, TokenFile: c.TokenFile, CertFile: c.TLS.CertFile, KeyFile: c.TLS.KeyFile, ClientCertificate: c.TLS.ClientCAFile != "",
	}
}

func sameFolder(a, b string) bool {
	infoA, errA := os.Stat(a)
	infoB, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(infoA, infoB)
}

// alone opens the store and does the work. When the store cannot be opened, opened is false and err says why.
func (f *dlqFlags) alone(cmd *cobra.Command, dir string, work func(s *dlq.Store) error) (opened bool, err error) {
	if _, err := dlq.View(dir); err != nil {
		return false, err
	}
	letters := filepath.Join(dir, dlq.StatusOpen)
	if _, err := os.Stat(letters); errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("%s holds no dead letters: check the path", dir)
	} else if err != nil {
		return false, err
	}
	if err := checkOwner(letters); err != nil {
		return false, err
	}
	log, _, flush, err := newLogger(config.Log{Level: "warn", Format: "console"}, cmd.ErrOrStderr())
	if err != nil {
		return false, err
	}
	defer flush()
	s, err := dlq.Open(dir, dlq.Options{Logger: log})
	if err != nil {
		return false, err
	}
	return true, errors.Join(work(s), s.Close())
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
