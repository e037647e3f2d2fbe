package webhook

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/ocr-proxy/ocr-proxy/internal/memnet"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childFolder); dir != "" {
		emitUntilKilled(dir)
	}
	goleak.VerifyTestMain(m)
}

// delivery is one POST as the receiver saw it.
type delivery struct {
	after  time.Duration // since the receiver was opened
	header http.Header
	path   string
	body   []byte
}

func (d delivery) id() string { return d.header.Get("Webhook-Id") }

// event is what the body says.
func (d delivery) event(t testing.TB) (e struct {
	Type      string
	Timestamp time.Time
	Sequence  uint64
	Data      json.RawMessage
},
) {
	t.Helper()
	require.NoError(t, json.Unmarshal(d.body, &e))
	return e
}

// hook is a receiver in memory, for synctest bubbles.
type hook struct {
	network memnet.Network
	answer  func(n int, w http.ResponseWriter, r *http.Request) // the n-th POST from 1

	mu  sync.Mutex
	got []delivery
}

// receive opens a receiver; without an answer it takes everything.
func receive(t testing.TB, answer func(n int, w http.ResponseWriter, r *http.Request)) *hook {
	t.Helper()
	h := &hook{answer: answer}
	l, err := h.network.Listen("hooks.example:80")
	require.NoError(t, err)
	start := time.Now()
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		h.mu.Lock()
		h.got = append(h.got, delivery{after: time.Since(start), header: r.Header, path: r.URL.RequestURI(), body: body})
		n := len(h.got)
		h.mu.Unlock()
		if h.answer != nil {
			h.answer(n, w, r)
		}
	})}
	served := make(chan error)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() {
		require.NoError(t, server.Close())
		require.ErrorIs(t, <-served, http.ErrServerClosed)
	})
	return h
}

func (h *hook) deliveries() []delivery {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]delivery(nil), h.got...)
}

// statuses answers with one after the other; the last one stays.
func statuses(all ...int) func(int, http.ResponseWriter, *http.Request) {
	return func(n int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(all[min(n, len(all))-1]) }
}

// top is a jitter that takes the whole ceiling.
func top(ceiling time.Duration) time.Duration { return ceiling }

const secretAddress = "http://user:hunter2@hooks.example/hunter2/in?token=hunter2"

// box is an outbox under test.
type box struct {
	*Outbox
	dir     string
	options Options
	logs    *observer.ObservedLogs
}

// options are those of an outbox that sends to the hook.
func optionsTo(t testing.TB, h *hook) (Options, *observer.ObservedLogs) {
	t.Helper()
	address, err := url.Parse(secretAddress)
	require.NoError(t, err)
	core, logs := observer.New(zapcore.DebugLevel)
	return Options{
		URL: address, Timeout: 10 * time.Second, MaxBytes: 64 << 20, UserAgent: "ocr-proxy/test", Jitter: top,
		Transport: &http.Transport{DialContext: h.network.DialContext}, Logger: zap.New(core), Metrics: NewMetrics(nil),
	}, logs
}

func openBox(t testing.TB, dir string, h *hook, change func(*Options)) *box {
	t.Helper()
	o, logs := optionsTo(t, h)
	if change != nil {
		change(&o)
	}
	b, err := Open(dir, o)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, b.Close())
		for _, entry := range logs.All() {
			require.NotContains(t, fmt.Sprint(entry.Message, entry.ContextMap()), "hunter2")
		}
	})
	return &box{Outbox: b, dir: dir, options: o, logs: logs}
}

func (b *box) counted(result string) int {
	return int(testutil.ToFloat64(b.metrics.deliveries.WithLabelValues(result)))
}

func (b *box) emit(t testing.TB, kind string, data any) {
	t.Helper()
	require.NoError(t, b.Emit(kind, time.Now(), data))
}

// settle lets everything happen that needs no more than d.
func settle(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// files lists what lies in a folder.
func files(t testing.TB, elem ...string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(elem...))
	require.NoError(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}
