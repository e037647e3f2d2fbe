package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/ocr-proxy/ocr-proxy/config"
	"github.com/ocr-proxy/ocr-proxy/internal/admin"
	"github.com/ocr-proxy/ocr-proxy/internal/calls"
	"github.com/ocr-proxy/ocr-proxy/internal/provider"
	"github.com/ocr-proxy/ocr-proxy/internal/proxy"
	"github.com/ocr-proxy/ocr-proxy/internal/replay"
)

// current are the accounts of the configuration in effect.
func (s *server) current() []*proxy.Account { return *s.accounts.Load() }

// settle ends all changes of the configuration and gives what is in effect.
func (s *server) settle() (*config.Config, []*bound) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draining = true
	return s.cfg, slices.Clone(s.servers)
}

// apply makes a configuration the one in effect, but for the settings that need a restart, whose keys it gives. First everything is made that can
// fail; an error leaves all as it was. What follows cannot fail, and each request sees either all of an account's settings as they were or all as
// they are. Requests under way end under the settings that they began with, except for what is the account's and not theirs: circuits, queues and
// permits go by the new ones at once, for those who wait too.
func (s *server) apply(ctx context.Context, wanted *config.Config) (pending []string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining {
		return nil, errors.New("the proxy is shutting down")
	}
	cfg, pending := config.Settle(s.cfg, wanted)
	if len(pending) > 0 {
		if err := cfg.Validate(s.environ); err != nil {
			return nil, fmt.Errorf("%w\nthese follow from what would need a restart and stays as it runs until then: %s", err, strings.Join(pending, ", "))
		}
	}
	next, err := s.prepare(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if err = s.openConsole(cfg); err == nil {
		if err = s.tell.change(cfg.DeadLetters); err != nil {
			err = errors.Join(fmt.Errorf("dead_letters.webhook: %w", err), s.openConsole(s.cfg))
		}
	}
	if err != nil {
		next.giveUp()
		return nil, err
	}
	s.commit(cfg, next)
	lookAtCertificates(append(slices.Clone(s.servers), s.admin), true)
	return pending, nil
}

// plan is what a configuration needs and the proxy has not.
type plan struct {
	accounts []*proxy.Account
	servers  []*bound // one for each account, in their order
	opened   []*bound // those among them that are new
}

// giveUp closes what was opened for a plan.
func (p *plan) giveUp() {
	for _, b := range p.opened {
		_ = b.listener.Close()
	}
}

// prepare makes everything for a configuration that can fail, and changes nothing that is in effect.
func (s *server) prepare(ctx context.Context, cfg *config.Config) (_ *plan, err error) {
	p := &plan{servers: make([]*bound, len(cfg.Providers))}
	version, maxBody := s.parts.version, s.parts.maxBody
	defer func() {
		if err != nil {
			p.giveUp()
			s.parts.version, s.parts.maxBody = version, maxBody
		}
	}()
	s.parts.version, s.parts.maxBody = cfg.DeadLetters.ProcessingVersion, int64(cfg.Body.MaxBytes)
	s.keepListeners(cfg.Providers, p.servers)
	for i, c := range cfg.Providers {
		if p.servers[i] == nil {
			if p.servers[i], err = s.bindAccount(ctx, c); err != nil {
				return p, err
			}
			p.opened = append(p.opened, p.servers[i])
		}
	}
	for _, c := range cfg.Providers {
		account, err := s.parts.account(ctx, c)
		if err != nil {
			return p, err
		}
		p.accounts = append(p.accounts, account)
	}
	if err = group(cfg.Providers, p.accounts); err != nil {
		return p, err
	}
	for _, a := range p.accounts {
		if a.Group != nil {
			a.Group.Follow(s.groupOf(a.Name))
		}
	}
	return p, nil
}

// keepListeners finds the listeners that go on: those of the same account and address and, since an account may have got another name, those of an
// address that its account gives up. Port 0 is another address each time.
func (s *server) keepListeners(entries []config.Provider, servers []*bound) {
	take := func(fits func(b *bound, c config.Provider) bool) {
		for i, c := range entries {
			if servers[i] != nil {
				continue
			}
			for _, b := range s.servers {
				if !b.leaves && b.address == c.Listen && b.conf == c.TLS && b.grpc == speaksGRPC(c) && !slices.Contains(servers, b) && fits(b, c) {
					servers[i] = b
					break
				}
			}
		}
	}
	take(func(b *bound, c config.Provider) bool { return b.name == c.Name })
	take(func(_ *bound, c config.Provider) bool { return !strings.HasSuffix(c.Listen, ":0") })
}

// groupOf is the group of an account as it is in effect; nil: it has none.
func (s *server) groupOf(name string) *proxy.Group {
	for _, a := range s.current() {
		if a.Name == name {
			return a.Group
		}
	}
	return nil
}

// bindAccount opens the listener of an account, behind which there is none yet.
func (s *server) bindAccount(ctx context.Context, c config.Provider) (*bound, error) {
	live := new(proxy.Live)
	b, err := s.bind(ctx, "providers."+c.Name+".listen", c.Listen, c.TLS, c.MaxConnections, live)
	if err != nil {
		return nil, err
	}
	b.account, b.name, b.address, b.conf, b.grpc = live, c.Name, c.Listen, c.TLS, speaksGRPC(c)
	if b.grpc {
		b.Protocols = proxy.Protocols()
	}
	return b, nil
}

// openConsole puts the handler for a configuration behind the admin listener.
func (s *server) openConsole(cfg *config.Config) error {
	handler, err := admin.New(admin.Options{
		Gatherer: s.reg, Ready: s.ready.Load, Quit: s.askToQuit, Accounts: s.states, LettersDir: cfg.DeadLetters.Dir, Letters: s.store, Retention: cfg.DeadLetters.Retention, Replay: s.replays,
		Listen: cfg.Admin.Listen, Hosts: cfg.Admin.Hosts, TokenFile: cfg.Admin.TokenFile, Log: s.log,
	})
	if err == nil {
		s.console.Store(&handler)
	}
	return err
}

// commit puts a plan into effect; mu is held.
func (s *server) commit(cfg *config.Config, next *plan) {
	for i, c := range cfg.Providers {
		s.parts.tune(c)
		b := next.servers[i]
		b.name = c.Name
		b.listener.Limit(c.MaxConnections)
		b.account.Store(next.accounts[i])
	}
	s.accounts.Store(&next.accounts)
	s.replays.Use(next.accounts)
	s.bodies.SetMaxBytes(int64(cfg.Body.MaxBytes))
	s.store.Set(int64(cfg.DeadLetters.MaxBytes), cfg.DeadLetters.Payloads == "keep")
	s.parts.calls.Update(calls.Limits{TTL: cfg.Rescue.TTL, MaxBytes: int64(cfg.Rescue.MaxBytes)})
	if level, err := zapcore.ParseLevel(cfg.Log.Level); err == nil && s.follow != nil {
		s.follow.level.SetLevel(level)
	}
	s.cfg = cfg
	for _, b := range s.servers {
		if !b.leaves && !slices.Contains(next.servers, b) {
			s.retire(b)
		}
	}
	for _, b := range next.opened {
		s.begin(b)
		s.sayListening(b)
	}
	s.servers = append(s.servers, next.opened...)
	s.showListeners()
	s.tendAutos()
}

// retire has a listener take nothing new. What came before ends in its own time, however long that is; then everything of the account goes that
// shows what it does now. mu is held.
func (s *server) retire(b *bound) {
	b.leaves = true
	s.log.Info("a listener closes when its last request is over", zap.String("provider", b.name), zap.Stringer("listen", b.listener.Addr()))
	s.leaving.Go(func() {
		if b.Shutdown(s.ending) != nil {
			_ = b.Close()
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.servers = slices.DeleteFunc(s.servers, func(other *bound) bool { return other == b })
		if !slices.ContainsFunc(s.servers, func(other *bound) bool { return other.name == b.name }) {
			s.parts.hide(b.name)
		}
	})
}

// auto replays the letters of an account without being asked for.
type auto struct {
	maxAge time.Duration
	rate   float64
	stop   context.CancelFunc
	done   chan struct{}
}

// tendAutos has letters replayed as the configuration says. Who replays under other settings begins when the one before him has ended; mu is held,
// or nothing runs yet.
func (s *server) tendAutos() {
	wanted := map[string]config.Provider{}
	settings := s.cfg.DeadLetters.AutoReplay
	if settings.Enabled {
		for _, c := range s.cfg.Providers {
			if !c.Observes() {
				wanted[c.Name] = c
			}
		}
	}
	before := map[string]<-chan struct{}{}
	for name, a := range s.autos {
		if _, ok := wanted[name]; !ok || a.maxAge != settings.MaxAge || a.rate != settings.Rate {
			a.stop()
			before[name] = a.done
			delete(s.autos, name)
		}
	}
	for name, c := range wanted {
		if s.autos[name] != nil {
			continue
		}
		ctx, stop := context.WithCancel(s.ending)
		a := &auto{maxAge: settings.MaxAge, rate: settings.Rate, stop: stop, done: make(chan struct{})}
		s.autos[name] = a
		how := replay.Auto{Account: name, MaxAge: a.maxAge, Rate: a.rate, Recovered: s.parts.of(c).recovered}
		s.leaving.Go(func() {
			defer close(a.done)
			if earlier := before[name]; earlier != nil {
				<-earlier
			}
			s.replays.Auto(ctx, how)
		})
	}
}

// endAutos stops them all.
func (s *server) endAutos() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.autos {
		a.stop()
	}
}

// speaksGRPC reports whether workers may call an account over gRPC.
func speaksGRPC(c config.Provider) bool {
	kind, err := provider.Find(c.Kind)
	return err == nil && kind.GRPC != nil
}
