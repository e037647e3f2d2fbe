package replay

import (
	"context"
	"hash/maphash"
	"io"
	"log"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/ocr-proxy/ocr-proxy/internal/breaker"
	"github.com/ocr-proxy/ocr-proxy/internal/credential"
	"github.com/ocr-proxy/ocr-proxy/internal/dlq"
	"github.com/ocr-proxy/ocr-proxy/internal/pace"
	"github.com/ocr-proxy/ocr-proxy/internal/provider"
	"github.com/ocr-proxy/ocr-proxy/internal/proxy"
	"github.com/ocr-proxy/ocr-proxy/internal/retry"
	"github.com/ocr-proxy/ocr-proxy/internal/spool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// vendor is a provider that answers every call by one function.
type vendor struct {
	mu     sync.Mutex
	calls  []string // bodies
	answer func(n int, body string) (status int, text string)
}

func (v *vendor) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	v.mu.Lock()
	v.calls = append(v.calls, string(body))
	n, answer := len(v.calls), v.answer
	v.mu.Unlock()
	status, text := answer(n, string(body))
	return &http.Response{
		StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(text)), ContentLength: int64(len(text)), Request: r,
	}, nil
}

func (v *vendor) called() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.calls)
}

// lab is a Replayer over a real store, with one account whose provider answers by a function.
type lab struct {
	t         *testing.T
	dir       string
	store     *dlq.Store
	letters   *dlq.Reader
	account   *proxy.Account
	vendor    *vendor
	replayer  *Replayer
	registry  *prometheus.Registry
	recovered chan struct{}
}

func newLab(t *testing.T, answer func(n int, body string) (int, string)) *lab {
	t.Helper()
	l := &lab{t: t, dir: t.TempDir(), vendor: &vendor{answer: answer}, registry: prometheus.NewRegistry(), recovered: make(chan struct{}, 1)}
	var err error
	l.store, err = dlq.Open(l.dir, dlq.Options{KeepPayloads: true})
	require.NoError(t, err)
	l.letters, err = dlq.View(l.dir)
	require.NoError(t, err)
	bodies, err := spool.New(spool.Limits{MaxBytes: 1 << 20, MemoryPerBody: 1 << 10, MemoryTotal: 1 << 20, Dir: t.TempDir()}, prometheus.NewRegistry())
	require.NoError(t, err)
	kind, err := provider.Find("generic")
	require.NoError(t, err)
	upstream, err := url.Parse("http://vendor")
	require.NoError(t, err)
	purse := new(retry.Purse)
	policy := proxy.Policy{Policy: retry.Policy{MaxAttempts: 1, Base: time.Second, Cap: time.Second, Total: 90 * time.Second}, AttemptTimeout: time.Minute}
	group := breaker.NewGroup("acct", breaker.Settings{FailureThreshold: 3, Window: time.Minute, ResetTimeout: time.Minute, HalfOpenProbes: 1}, 16, breaker.Observer{
		Transition: func(_, to breaker.State, _ breaker.Reason, _ time.Time) {
			if to == breaker.Closed {
				select {
				case l.recovered <- struct{}{}:
				default:
				}
			}
		},
	})
	l.account = &proxy.Account{
		Name: "acct", Provider: kind, Upstream: upstream, Policy: func(string) proxy.Policy { return policy }, Credential: credential.Passthrough(),
		Breakers: group, Purse: purse, Permits: pace.NewPermits(0, time.Hour, time.Minute),
		Queues:    pace.NewQueues("acct", []string{provider.Other}, pace.Settings{MaxWaiting: 100, MaxPause: time.Minute}, proxy.CircuitOf(group, false), pace.NewPermits(0, time.Hour, time.Minute)),
		Transport: l.vendor, Bodies: bodies, MaxBody: 1 << 20, CopyBuffers: proxy.NewBuffers(32<<10, 8), Sink: l.store, Letters: l.store.OpenLetters("acct"),
		Metrics: proxy.NewMetrics(prometheus.NewRegistry()).Account("acct", "generic", purse), Log: zap.NewNop(), ErrorLog: log.New(io.Discard, "", 0),
		Ending: context.Background(), Seed: maphash.MakeSeed(),
	}
	l.replayer, err = New(Options{Store: l.store, Letters: l.letters, Accounts: []*proxy.Account{l.account}, Registerer: l.registry})
	require.NoError(t, err)
	t.Cleanup(func() {
		l.replayer.Stop()
		l.replayer.Wait()
		require.NoError(t, l.store.Close())
	})
	return l
}

// letter puts a letter about a document into the store.
func (l *lab) letter(document string, change func(e *dlq.Envelope)) string {
	l.t.Helper()
	e := &dlq.Envelope{
		Outcome: "exhausted", Provider: "acct", Kind: "generic", Operation: "other", DocumentID: document, IdempotencyKey: "key " + document,
		RequestFingerprint: "print " + document, ErrorClass: "transient", Request: dlq.Request{Method: http.MethodPost, Path: "/ocr"},
		Attempts: []dlq.Attempt{{N: 1}},
	}
	if change != nil {
		change(e)
	}
	id, err := l.store.Put(l.t.Context(), e, strings.NewReader(document))
	require.NoError(l.t, err)
	return id
}

func (l *lab) get(id string) dlq.Letter {
	l.t.Helper()
	letter, err := l.letters.Get(id)
	require.NoError(l.t, err)
	return letter
}

// counted is the number of replays with that result.
func (l *lab) counted(result string) int {
	l.t.Helper()
	families, err := l.registry.Gather()
	require.NoError(l.t, err)
	for _, family := range families {
		for _, series := range family.GetMetric() {
			if series.GetLabel()[1].GetValue() == result {
				return int(series.GetCounter().GetValue())
			}
		}
	}
	return -1
}
