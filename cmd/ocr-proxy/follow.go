package main

import (
	"context"
	"crypto/sha256"
	"os"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/ocr-proxy/ocr-proxy/config"
)

// lookEvery is how often the configuration is looked at.
const lookEvery = 2 * time.Second

// follower looks after the file of the configuration while the proxy runs. It goes by what is in the file, wherever symlinks lead: times of files
// say nothing about a ConfigMap that is mounted.
type follower struct {
	path    string
	environ []string
	level   zap.AtomicLevel // of the log
	log     *zap.Logger
	loads   loads
	apply   func(context.Context, *config.Config) (pending []string, err error)

	running [sha256.Size]byte // what the file held when it was last taken
	seen    [sha256.Size]byte // what it held at the last look
	told    string            // the problems that were logged last, with what the file held; "": it was taken
}

// run looks every few seconds, and at once at each signal, until the context ends.
func (f *follower) run(ctx context.Context, hup <-chan os.Signal) {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-hup:
			f.look(ctx, true)
		case <-ticker.C:
			f.look(ctx, false)
		}
	}
}

// look takes what the file holds if that is new, or if somebody asks for it. What nobody asked for must have been there at the look before, too: it
// may be half written. What was refused is tried again at each look, since a key that is missing may come after the file that names it, and is
// complained of once.
func (f *follower) look(ctx context.Context, asked bool) {
	text, err := config.Read(f.path)
	sum := sha256.Sum256(text)
	if err != nil {
		sum = sha256.Sum256([]byte(err.Error()))
	}
	again := sum == f.seen
	f.seen = sum
	if err == nil && sum == f.running && !asked {
		if f.told != "" {
			f.told = ""
			f.loads.successful.Set(1)
			f.log.Info("the configuration is again the one that is in effect")
		}
		return
	}
	if !again && !asked {
		return
	}
	var (
		cfg     *config.Config
		pending []string
	)
	if err == nil {
		cfg, err = config.Parse(text, f.environ)
	}
	if err == nil {
		pending, err = f.apply(ctx, cfg)
	}
	if err != nil {
		f.loads.successful.Set(0)
		if problem := string(sum[:]) + err.Error(); problem != f.told || asked {
			f.told = problem
			f.log.Error("the configuration was not taken; the one before stays in effect", zap.String("file", f.path), zap.Strings("problems", strings.Split(err.Error(), "\n")))
		}
		return
	}
	f.running, f.told = sum, ""
	f.loads.taken(len(pending))
	f.log.Info("the configuration was taken", zap.String("file", f.path))
	if len(pending) > 0 {
		f.log.Warn("these settings were changed and need a restart; until then they stay as they are", zap.Strings("keys", pending))
	}
	warn(f.log, cfg)
}
