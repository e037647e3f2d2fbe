package config

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/ocr-proxy/ocr-proxy/internal/breaker"
	"github.com/ocr-proxy/ocr-proxy/internal/dlq"
	"github.com/ocr-proxy/ocr-proxy/internal/pace"
	"github.com/ocr-proxy/ocr-proxy/internal/proxy"
	"github.com/ocr-proxy/ocr-proxy/internal/replay"
	"github.com/ocr-proxy/ocr-proxy/internal/share"
	"github.com/ocr-proxy/ocr-proxy/internal/spool"
	"github.com/ocr-proxy/ocr-proxy/internal/watch"
	"github.com/ocr-proxy/ocr-proxy/internal/webhook"
)

// described is a prometheus.Registerer that notes which metrics it is given, with their labels.
type described map[string][]string

func (d described) Register(c prometheus.Collector) error {
	descs := make(chan *prometheus.Desc)
	go func() {
		c.Describe(descs)
		close(descs)
	}()
	form := regexp.MustCompile(`fqName: "([^"]+)".*variableLabels: \{([^}]*)\}`)
	for desc := range descs {
		if found := form.FindStringSubmatch(desc.String()); found != nil {
			d[found[1]] = strings.FieldsFunc(found[2], func(r rune) bool { return r == ',' || r == ' ' })
		}
	}
	return nil
}

func (d described) MustRegister(all ...prometheus.Collector) {
	for _, c := range all {
		_ = d.Register(c) // It always returns nil.
	}
}

func (d described) Unregister(prometheus.Collector) bool { return true }

func TestREADMEHasEveryMetricWithItsLabels(t *testing.T) {
	registered := described{}
	proxy.NewMetrics(registered)
	watch.NewMetrics(registered)
	breaker.NewMetrics(registered)
	pace.NewMetrics(registered)
	webhook.NewMetrics(registered)
	_, err := spool.New(spool.Limits{MaxBytes: 1, MemoryPerBody: 1, MemoryTotal: 1, Dir: t.TempDir()}, registered)
	require.NoError(t, err)
	store, err := dlq.Open(filepath.Join(t.TempDir(), "dead-letters"), dlq.Options{Registerer: registered})
	require.NoError(t, err)
	require.NoError(t, store.Close())

	_, err = replay.New(replay.Options{Registerer: registered})
	require.NoError(t, err)

	state, err := share.Open(share.Options{Address: "redis://127.0.0.1:1", Log: zap.NewNop(), Registerer: registered})
	require.NoError(t, err)
	state.Close()

	// What the command itself registers has no variable labels.
	sources, err := filepath.Glob("../cmd/ocr-proxy/*.go")
	require.NoError(t, err)
	name := regexp.MustCompile(`Name: +"(ocrproxy_[a-z_]+)"`)
	for _, source := range sources {
		text, err := os.ReadFile(source)
		require.NoError(t, err)
		for _, found := range name.FindAllStringSubmatch(string(text), -1) {
			registered[found[1]] = nil
		}
	}

	documented := described{}
	for _, row := range cells(t, readPage(t, readme), "Metric") {
		documented[code(row[0])] = strings.FieldsFunc(row[2], func(r rune) bool { return strings.ContainsRune("`, ", r) })
	}
	require.Equal(t, slices.Sorted(maps.Keys(registered)), slices.Sorted(maps.Keys(documented)))
	for name, labels := range registered {
		if name == "ocrproxy_build_info" {
			continue // Its labels are constant.
		}
		require.ElementsMatch(t, labels, documented[name], name)
	}
}
