// Package share lets several processes that use the same accounts know the same about them, through a Redis server: a few small values that
// all of them read and change. It is the only package that knows Redis.
//
// Nothing here is needed for work. A value is a help to do together what each process could do alone; while the server is away every user of
// a value goes on by itself, and takes the shared value again when the server is back. No request ever waits for the server: values are read
// from a copy in this process, and changed by goroutines that nobody waits for.
package share

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"
)

// prefix begins every key. Its number is that of the form of what is stored: processes of another form share nothing with these.
const prefix = "ocrproxy:1:"

// ErrAway says that the server is not there at the moment: the caller goes on alone.
var ErrAway = errors.New("the shared state is away")

// Options are what a Store needs.
type Options struct {
	Address    string         // redis:// or rediss://, with user name and password where the server wants them
	Roots      *x509.CertPool // authorities for rediss; nil: the system's
	Log        *zap.Logger
	Registerer prometheus.Registerer
}

// Store is a connection to the server, and this process among those that use it. All its methods may be called concurrently.
type Store struct {
	client *redis.Client
	log    *zap.Logger
	me     string          // names this process, until it ends
	ending context.Context //nolint:containedctx // the life of the store
	end    context.CancelFunc
	done   sync.WaitGroup
	clock  clock
	health *health
	peers  *prometheus.GaugeVec

	mu       sync.Mutex
	accounts []*Account
	cells    []watched
}

// Open makes a store and begins to look for its server, which need not be there. The error is about the address and repeats nothing of it.
func Open(o Options) (*Store, error) {
	settings, err := connection(o.Address, o.Roots)
	if err != nil {
		return nil, err
	}
	quiet()
	s := &Store{client: redis.NewClient(settings), log: o.Log, me: rand.Text()}
	s.ending, s.end = context.WithCancel(context.Background())
	s.health = newHealth(o.Registerer, o.Log.With(zap.String("server", settings.Addr)))
	s.peers = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "ocrproxy_state_peers", Help: "Processes that share what is known of an account, this one included, when the shared state was last seen.",
	}, []string{"provider"})
	o.Registerer.MustRegister(s.peers)
	s.done.Go(s.watch)
	return s, nil
}

// quiet silences the client library, once: it keeps its logger in a variable of its own.
//
//nolint:gochecknoglobals // a function in all but name
var quiet = sync.OnceFunc(func() { redis.SetLogger(silence{}) })

// silence takes what the client library would write to the standard error by itself; the store tells what matters.
type silence struct{}

// Printf writes nothing.
func (silence) Printf(context.Context, string, ...any) {}

// Close tells the others that this process has gone, and ends all goroutines of the store. Nothing is shared any more afterwards.
func (s *Store) Close() {
	s.end()
	s.done.Wait()
	if s.health.usable.Load() {
		s.leave()
	}
	s.health.usable.Store(false)
	_ = s.client.Close()
}

// Account is one provider account, as all processes that use it know it.
type Account struct {
	store *Store
	name  string
	key   string // begins the account's keys
	peers atomic.Int64
}

// Account joins those that share an account. It is the same account where its name in the configuration, its kind and the host of its upstream
// are the same: neither a credential nor where it is read from is part of it, since processes may hold it differently.
func (s *Store) Account(name, kind, host string) *Account {
	sum := sha256.Sum256([]byte(strings.Join([]string{name, kind, strings.ToLower(host)}, "\x00")))
	a := &Account{store: s, name: name, key: prefix + name + "-" + hex.EncodeToString(sum[:6]) + ":"}
	a.peers.Store(1)
	s.peers.WithLabelValues(name).Set(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.accounts = append(s.accounts, a)
	return a
}

// Peers is how many processes share the account, this one included, when the server was last seen: at least 1.
func (a *Account) Peers() int { return int(a.peers.Load()) }

// Connected reports whether what is shared can be relied on. It stays true over a hiccup of less than a second, and false until the server has
// answered twice.
func (s *Store) Connected() bool { return s.health.connected.Load() }

// Now is the server's time, which is the same in all processes; ok is false before the server has been seen for the first time.
func (s *Store) Now() (now time.Time, ok bool) { return s.clock.now() }
