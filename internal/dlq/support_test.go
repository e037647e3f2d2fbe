package dlq

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv(toBeKilled) != "" {
		writeUntilKilled()
	}
	goleak.VerifyTestMain(m)
}

// letter is a fresh envelope about one document.
func letter(document string) *Envelope {
	status := 503
	return &Envelope{
		Outcome: "exhausted", Provider: "acct", Kind: "generic", Operation: "ocr", DocumentID: document,
		IdempotencyKey: hexSum("doc " + document), RequestFingerprint: hexSum("request " + document),
		FailureClass: "transient", ErrorClass: "transient", ErrorCode: "Busy", HTTPStatus: &status, Diagnostic: "It was busy.",
		Attempts:       []Attempt{{N: 1, StartedAt: time.Now(), DurationMS: 1.23456, ErrorClass: "transient", WaitSource: "none"}},
		FirstAttemptAt: time.Now().Add(-time.Minute), FailedAt: time.Now(),
		Request: Request{Method: "POST", Path: "/ocr", ContentType: "application/pdf", Token: "token-1"},
	}
}

func hexSum(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

func newStore(t testing.TB, dir string, o Options) *Store {
	t.Helper()
	s, err := Open(dir, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	settle(t, s)
	return s
}

// settle waits for what a store does in the background, on a machine that has more to do than this.
func settle(t testing.TB, s *Store) {
	t.Helper()
	require.True(t, s.background.run(time.Minute, func(context.Context) {}))
}

func keeping() Options { return Options{KeepPayloads: true, Registerer: prometheus.NewRegistry()} }

func put(t testing.TB, s *Store, e *Envelope, body string) string {
	t.Helper()
	id, err := s.Put(t.Context(), e, strings.NewReader(body))
	require.NoError(t, err)
	return id
}

// files lists the regular files below a folder of the store, relative to it.
func files(t testing.TB, dir, folder string) (all []string) {
	t.Helper()
	v := verification{dir: dir}
	all, err := v.listFiles(folder)
	require.NoError(t, err)
	return all
}

// folderBytes is the size of a store as it is to be counted.
func folderBytes(dir string) int64 {
	sum, err := (&usage{dir: dir}).walk(context.Background())
	if err != nil {
		return -1
	}
	return sum
}

func listed(t testing.TB, dir string, f Filter) (all []Letter) {
	t.Helper()
	r, err := View(dir)
	require.NoError(t, err)
	for l, err := range r.List(f) {
		require.NoError(t, err)
		all = append(all, l)
	}
	return all
}

func read(t testing.TB, elem ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(elem...))
	require.NoError(t, err)
	return string(data)
}

func write(t testing.TB, text string, elem ...string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(elem...), []byte(text), 0o600))
}

// openIDs are the letters that the index holds.
func openIDs(s *Store) (ids []string) {
	s.index.mu.Lock()
	defer s.index.mu.Unlock()
	s.index.table.each(func(e *entry) { ids = append(ids, e.id.String()) })
	return ids
}

// gather reads all metrics of a store.
func gather(o Options) ([]*dto.MetricFamily, error) {
	registry, ok := o.Registerer.(*prometheus.Registry)
	if !ok {
		return nil, errors.New("there is no registry")
	}
	return registry.Gather()
}

// metric is the sum of a metric's series whose labels include all of the given "name=value"; -1 when it is absent.
func metric(t testing.TB, o Options, name string, labels ...string) float64 {
	t.Helper()
	families, err := gather(o)
	require.NoError(t, err)
	sum, found := 0.0, false
	for _, f := range families {
		if f.GetName() != "ocrproxy_dead_letters_"+name {
			continue
		}
		for _, m := range f.GetMetric() {
			have := map[string]bool{}
			for _, l := range m.GetLabel() {
				have[l.GetName()+"="+l.GetValue()] = true
			}
			all := true
			for _, l := range labels {
				all = all && have[l]
			}
			if all {
				found = true
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	if !found {
		return -1
	}
	return sum
}
