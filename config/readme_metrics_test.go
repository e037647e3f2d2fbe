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
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/ocr-proxy/ocr-proxy/internal/breaker"
	"github.com/ocr-proxy/ocr-proxy/internal/dlq"
	"github.com/ocr-proxy/ocr-proxy/internal/listen"
	"github.com/ocr-proxy/ocr-proxy/internal/pace"
	"github.com/ocr-proxy/ocr-proxy/internal/proxy"
	"github.com/ocr-proxy/ocr-proxy/internal/replay"
	"github.com/ocr-proxy/ocr-proxy/internal/share"
	"github.com/ocr-proxy/ocr-proxy/internal/spool"
	"github.com/ocr-proxy/ocr-proxy/internal/trace"
	"github.com/ocr-proxy/ocr-proxy/internal/watch"
	"github.com/ocr-proxy/ocr-proxy/internal/webhook"
)

// described is a prometheus.Registerer that notes which metrics it is given.
type described map[string]metric

// metric is what is known of one.
type metric struct {
	labels    []string
	kind      string // counter, gauge or histogram; "" where only a scrape would tell
	collector prometheus.Collector
}

func (d described) Register(c prometheus.Collector) error {
	descs := make(chan *prometheus.Desc)
	go func() {
		c.Describe(descs)
		close(descs)
	}()
	form := regexp.MustCompile(`fqName: "([^"]+)".*variableLabels: \{([^}]*)\}`)
	for desc := range descs {
		if found := form.FindStringSubmatch(desc.String()); found != nil {
			d[found[1]] = metric{strings.FieldsFunc(found[2], func(r rune) bool { return r == ',' || r == ' ' }), kindOf(c), c}
		}
	}
	return nil
}

func kindOf(c prometheus.Collector) string {
	switch c.(type) {
	case *prometheus.CounterVec:
		return "counter"
	case *prometheus.GaugeVec:
		return "gauge"
	case *prometheus.HistogramVec:
		return "histogram"
	}
	return ""
}

func (d described) MustRegister(all ...prometheus.Collector) {
	for _, c := range all {
		_ = d.Register(c) // It always returns nil.
	}
}

func (d described) Unregister(prometheus.Collector) bool { return true }

// exported are all metrics of the program.
func exported(t *testing.T) described {
	t.Helper()
	registered := described{}
	proxy.NewMetrics(registered)
	watch.NewMetrics(registered)
	breaker.NewMetrics(registered)
	pace.NewMetrics(registered)
	webhook.NewMetrics(registered)
	trace.NewMetrics(registered)
	listen.NewMetrics(registered)
	_, err := spool.New(spool.Limits{MaxBytes: 1, MemoryPerBody: 1, MemoryTotal: 1, Dir: t.TempDir()}, registered)
	require.NoError(t, err)
	store, err := dlq.Open(filepath.Join(t.TempDir(), "dead-letters"), dlq.Options{Registerer: registered})
	require.NoError(t, err)
	require.NoError(t, store.Close())

	_, err = replay.New(replay.Options{Registerer: registered})
	require.NoError(t, err)

	shared, err := share.Open(share.Options{Address: "redis://127.0.0.1:1", Log: zap.NewNop(), Registerer: registered})
	require.NoError(t, err)
	shared.Close()

	// What the command itself registers has no variable labels.
	sources, err := filepath.Glob("../cmd/ocr-proxy/*.go")
	require.NoError(t, err)
	name := regexp.MustCompile(`Name: +"(ocrproxy_[a-z_]+)"`)
	for _, source := range sources {
		text, err := os.ReadFile(source)
		require.NoError(t, err)
		for _, found := range name.FindAllStringSubmatch(string(text), -1) {
			registered[found[1]] = metric{kind: "gauge"}
		}
	}
	return registered
}

func TestREADMEHasEveryMetricWithItsLabels(t *testing.T) {
	registered, documented := exported(t), described{}
	for _, row := range cells(t, readPage(t, readme), "Metric") {
		documented[code(row[0])] = metric{labels: strings.FieldsFunc(row[2], func(r rune) bool { return strings.ContainsRune("`, ", r) }), kind: row[1]}
	}
	require.Equal(t, slices.Sorted(maps.Keys(registered)), slices.Sorted(maps.Keys(documented)))
	for name, m := range registered {
		if m.kind != "" {
			require.Equal(t, m.kind, documented[name].kind, name)
		}
		require.Equal(t, documented[name].kind == "counter", strings.HasSuffix(name, "_total"), name)
		if name == "ocrproxy_build_info" {
			continue // Its labels are constant.
		}
		require.ElementsMatch(t, m.labels, documented[name].labels, name)
	}
}

// What a proxy shows as soon as it runs is linted where one runs; this adds what it shows only once something has happened.
func TestMetricsKeepTheConventionsOfPrometheus(t *testing.T) {
	registry := prometheus.NewRegistry()
	for _, m := range exported(t) {
		values := slices.Repeat([]string{"x"}, len(m.labels))
		switch c := m.collector.(type) {
		case *prometheus.CounterVec:
			c.WithLabelValues(values...)
		case *prometheus.GaugeVec:
			c.WithLabelValues(values...)
		case *prometheus.HistogramVec:
			c.WithLabelValues(values...)
		case prometheus.Counter, prometheus.GaugeFunc:
		default:
			continue
		}
		require.NoError(t, registry.Register(m.collector))
	}
	families, err := registry.Gather()
	require.NoError(t, err)
	require.Greater(t, len(families), 15)
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	require.NoError(t, err)
	require.Empty(t, problems)
}
