package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/ocr-proxy/ocr-proxy/config"
	"github.com/ocr-proxy/ocr-proxy/internal/dlq"
	"github.com/ocr-proxy/ocr-proxy/internal/listen"
	"github.com/ocr-proxy/ocr-proxy/internal/proxy"
	"github.com/ocr-proxy/ocr-proxy/internal/quality"
	"github.com/ocr-proxy/ocr-proxy/internal/replay"
	"github.com/ocr-proxy/ocr-proxy/internal/share"
	"github.com/ocr-proxy/ocr-proxy/internal/spool"
	"github.com/ocr-proxy/ocr-proxy/internal/trace"
	"github.com/ocr-proxy/ocr-proxy/internal/webhook"
)

func serveCommand(environ []string) *cobra.Command {
	var path string
	cmd := &cobra.Command{
		Use:   "serve --config FILE",
		Short: "Run the proxy until it is told to end",
		Long: "Opens one listener for each provider account and the admin listener, and runs until SIGINT or SIGTERM; then it finishes what is\n" +
			"in progress. A second signal ends it at once. Exit 0 after a clean end, 1 after a failure, 2 for a bad configuration.",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			text, err := config.Read(path)
			if err != nil {
				return err
			}
			cfg, err := config.Parse(text, environ)
			if err != nil {
				return err
			}
			log, level, flush, err := newLogger(cfg.Log, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			defer flush()
			warn(log, cfg)
			return serve(cmd.Context(), cfg, environ, log, &follower{path: path, environ: environ, level: level, log: log, running: sha256.Sum256(text)})
		},
	}
	configFlag(cmd, &path)
	return cmd
}

// warn tells of what is allowed and hardly meant.
func warn(log *zap.Logger, cfg *config.Config) {
	for _, warning := range cfg.Warnings() {
		log.Warn("the configuration is allowed and hardly meant", zap.String("key", warning.Key), zap.String("problem", warning.Message))
	}
}

// serve runs the proxy until the context ends and everything in progress has been finished. The follower looks after the configuration; nil: it
// does not change.
func serve(ctx context.Context, cfg *config.Config, environ []string, log *zap.Logger, follow *follower) error {
	// A proxy's heap is small, so that by default it would be collected many times a second under load. Memory that is allocated and never
	// touched takes no room, but lets the heap grow by half as much between collections. A big heap, of an index of very many dead letters, is
	// not let to grow by more than half of itself.
	// It is taken first, while none of the memory has been touched yet.
	floor := make([]byte, heapFloor)
	defer runtime.KeepAlive(floor)
	defer debug.SetGCPercent(debug.SetGCPercent(heapGrowth))
	s, err := open(ctx, cfg, environ, log)
	if err != nil {
		return err
	}
	restore := zap.RedirectStdLog(log) // the standard library's transport has a remark now and then
	defer restore()
	s.follow = follow
	return s.run(ctx)
}

const (
	// heapGrowth is how much the heap may grow, in percent of what was in use, before it is collected.
	heapGrowth = 50
	// heapFloor is a size, in bytes, that counts as in use beside what is.
	heapFloor = 64 << 20
)

// server is a running proxy.
type server struct {
	log      *zap.Logger
	environ  []string
	parts    *shared
	bodies   *spool.Pool
	reg      *prometheus.Registry
	loads    loads
	follow   *follower                        // nil: the configuration does not change
	accounts atomic.Pointer[[]*proxy.Account] // those of the configuration
	store    *dlq.Store
	quality  *quality.Summary
	state    *share.Store  // nil: nothing is shared with other processes
	tracer   *trace.Tracer // nil: nothing is traced
	drained  time.Time     // when the time to drain is over; zero: it has not begun
	tell     *announcer
	replays  *replay.Replayer
	failed   chan error                   // of a listener
	console  atomic.Pointer[http.Handler] // the admin listener's
	admin    *bound
	doors    *listen.Metrics
	ready    atomic.Bool
	quit     chan struct{} // closed when the admin listener is told to end the process
	quitOnce sync.Once
	ending   context.Context //nolint:containedctx // the life of the process: ends with proxy.ErrShutdown when the time to drain is over
	end      context.CancelCauseFunc

	mu       sync.Mutex       // held while the configuration changes
	cfg      *config.Config   // in effect
	servers  []*bound         // of accounts; those that leave are among them until their last request is over
	autos    map[string]*auto // of accounts whose letters are replayed without being asked for
	draining bool             // nothing changes any more
	leaving  sync.WaitGroup   // of listeners and replays
}

// bound is an HTTP server and the listener it serves.
type bound struct {
	*http.Server
	listener     *listen.Door
	certificates *listen.Certificates // nil: it serves in the clear

	account *proxy.Live // behind it; nil: none
	name    string      // of the account
	address string      // as the configuration has it
	conf    config.ServerTLS
	grpc    bool
	leaves  bool // it takes nothing new
}

// open builds everything in the order in which it depends on each other. What is opened is closed again when a later step fails.
func open(ctx context.Context, cfg *config.Config, environ []string, log *zap.Logger) (_ *server, err error) {
	s := &server{cfg: cfg, log: log, environ: environ, tell: new(announcer), quit: make(chan struct{}), failed: make(chan error, 1), autos: map[string]*auto{}}
	s.accounts.Store(new([]*proxy.Account))
	s.ending, s.end = context.WithCancelCause(context.WithoutCancel(ctx))
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	reg := prometheus.NewRegistry()
	reg.MustRegister(newGoRuntime(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	s.reg, s.loads, s.doors = reg, registerProcessMetrics(reg), listen.NewMetrics(reg)

	s.bodies, err = spool.New(spool.Limits{
		MaxBytes: int64(cfg.Body.MaxBytes), Dir: cfg.Body.Dir,
		MemoryPerBody: max(1, int64(cfg.Body.MemoryPerRequest)), MemoryTotal: max(1, bodyBudget(int64(cfg.Body.MemoryTotal), boundMemory(log), log)), // 0 is the configuration's word for none
	}, reg)
	if err != nil {
		return nil, fmt.Errorf("body.dir: %w", err)
	}
	s.store, err = dlq.Open(cfg.DeadLetters.Dir, dlq.Options{
		MaxBytes: int64(cfg.DeadLetters.MaxBytes), KeepPayloads: cfg.DeadLetters.Payloads == "keep", Logger: log, Registerer: reg, Observer: s.tell,
	})
	if err != nil {
		return nil, fmt.Errorf("dead_letters.dir: %w", err)
	}
	if err = s.tell.open(cfg.DeadLetters, log, webhook.NewMetrics(reg)); err != nil {
		return nil, fmt.Errorf("dead_letters.webhook: %w", err)
	}
	s.store.Announce()
	parts := newShared(s.ending, cfg, environ, log, reg, s.bodies, s.store, s.tell)
	s.parts, parts.jobs = parts, s.store
	s.quality = openQuality(cfg.DeadLetters.Dir, log)
	parts.requests.Figures = keepFigures(s.quality)
	if s.state, err = openState(cfg.State, log, reg); err != nil {
		return nil, err
	}
	parts.state = s.state
	if s.tracer, err = openTracer(ctx, cfg.Tracing, log, reg); err != nil {
		return nil, err
	}
	parts.tracer = s.tracer
	next, err := s.prepare(ctx, cfg)
	if err != nil {
		return nil, err
	}
	for i, b := range next.servers {
		b.account.Store(next.accounts[i])
		parts.show(cfg.Providers[i])
	}
	s.servers = next.servers
	letters, err := dlq.View(cfg.DeadLetters.Dir)
	if err != nil {
		return nil, err
	}
	if s.replays, err = replay.New(replay.Options{Store: s.store, Letters: letters, Accounts: next.accounts, Registerer: reg, Log: log}); err != nil {
		return nil, err
	}
	s.accounts.Store(&next.accounts)
	if err = s.openConsole(cfg); err != nil {
		return nil, err
	}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*s.console.Load()).ServeHTTP(w, r) })
	s.admin, err = s.bind(ctx, "admin.listen", cfg.Admin.Listen, cfg.Admin.TLS, adminConnections, handler)
	if err == nil {
		s.showListeners()
	}
	return s, err
}

const (
	// grace is how long what was woken at the end of the drain has to write its dead letter and its answer.
	grace = 3 * time.Second
	// idleGrace is how long connections without a request are kept at the end, in case one is just coming in.
	idleGrace = 500 * time.Millisecond
	// idlePoll is how often the drain looks whether everything is done.
	idlePoll = 20 * time.Millisecond
)

// run serves until the context ends, then drains.
func (s *server) run(ctx context.Context) error {
	defer s.close()
	defer s.leaving.Wait()
	defer s.endAutos()
	for _, b := range append(s.servers, s.admin) {
		s.begin(b)
	}
	dir := s.cfg.DeadLetters.Dir
	keeping, stopKeeping := context.WithCancel(s.ending)
	var kept sync.WaitGroup
	defer kept.Wait()
	defer stopKeeping()
	kept.Go(func() { s.quality.Keep(keeping, dir, s.qualityNotKept) })
	s.tendAutos()
	for _, b := range s.servers {
		s.sayListening(b)
	}
	looking, stopLooking := context.WithCancel(ctx)
	defer stopLooking()
	go s.tendCertificates(looking) // not waited for, as below
	s.notify(daemon.SdNotifyReady)
	s.ready.Store(true) // from here on the configuration may change
	s.log.Info("ready", zap.Stringer("admin", s.admin.listener.Addr()), zap.String("dead_letters", dir), zap.String("version", thisBuild().version))
	following, stopFollowing := context.WithCancel(ctx)
	defer stopFollowing()
	if s.follow != nil {
		hup := make(chan os.Signal, 1)
		signal.Notify(hup, syscall.SIGHUP)
		defer signal.Stop(hup)
		s.follow.loads, s.follow.apply = s.loads, s.apply
		go s.follow.run(following, hup) // not waited for: a file on a disk that has gone may not let go of whoever reads it
	}
	select {
	case err := <-s.failed:
		return errors.Join(err, s.drain())
	case <-ctx.Done():
	case <-s.quit:
	}
	return s.drain()
}

// begin serves on a listener.
func (s *server) begin(b *bound) {
	go func() {
		if err := b.serve(); err != nil {
			select {
			case s.failed <- err:
			default: // one is enough to end
			}
		}
	}()
}

func (s *server) sayListening(b *bound) {
	a := b.account.Load()
	s.log.Info("listening", zap.String("provider", a.Name), zap.String("kind", a.Provider.Name),
		zap.Stringer("listen", b.listener.Addr()), zap.String("upstream", a.Upstream.Redacted()), zap.Bool("observes", a.Observe != nil))
}

func (b *bound) serve() error {
	var err error
	if b.certificates != nil {
		err = b.ServeTLS(b.listener, "", "")
	} else {
		err = b.Serve(b.listener)
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve on %s: %w", b.listener.Addr(), err)
}

func (s *server) askToQuit() { s.quitOnce.Do(func() { close(s.quit) }) }

// close gives back what open took. It may be called at any point of open's work.
func (s *server) close() {
	for _, b := range s.servers {
		_ = b.listener.Close()
	}
	if s.admin != nil {
		_ = s.admin.listener.Close()
	}
	s.end(nil)
	if s.replays != nil {
		s.replays.Stop()
		s.replays.Wait() // each has its attempt cut short, and its letter to put back
	}
	if s.state != nil {
		s.state.Close()
	}
	s.endTraces()
	if err := s.tell.close(); err != nil {
		s.log.Error("close the webhook's outbox", zap.Error(err))
	}
	if s.store != nil {
		if err := s.store.Close(); err != nil {
			s.log.Error("close the dead letters", zap.Error(err))
		}
	}
}
