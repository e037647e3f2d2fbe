package main

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/ocr-proxy/ocr-proxy/config"
	"github.com/ocr-proxy/ocr-proxy/internal/dlq"
	"github.com/ocr-proxy/ocr-proxy/internal/precheck"
	"github.com/ocr-proxy/ocr-proxy/internal/provider"
	"github.com/ocr-proxy/ocr-proxy/internal/proxy"
	"github.com/ocr-proxy/ocr-proxy/internal/spool"
)

func TestTheKindsOfTheConfigurationAreThoseThatExist(t *testing.T) {
	t.Parallel()
	var kinds []string
	for _, p := range provider.All() {
		kinds = append(kinds, p.Name)
	}
	require.Equal(t, kinds, config.Kinds())
}

func TestTheChecksOfTheConfigurationAreThoseThatExist(t *testing.T) {
	t.Parallel()
	var names []string
	for _, check := range precheck.Checks() {
		names = append(names, string(check))
	}
	require.Equal(t, names, config.PrecheckNames())
	require.Nil(t, prechecked(config.Precheck{RejectBlank: true, Skip: []string{"size"}}))
	require.Equal(t, []precheck.Check{precheck.Size}, prechecked(config.Precheck{Enabled: true, RejectBlank: true, Skip: []string{"size"}}).Skip)
	require.Equal(t, []precheck.Check{precheck.Blank}, prechecked(config.Precheck{Enabled: true}).Skip)
}

// wired builds the accounts of a configuration.
func wired(t *testing.T, cfg *config.Config, environ []string) []*proxy.Account {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	bodies, err := spool.New(spool.Limits{MaxBytes: 1 << 20, MemoryPerBody: 1 << 10, MemoryTotal: 1 << 20, Dir: t.TempDir()}, registry)
	require.NoError(t, err)
	store, err := dlq.Open(t.TempDir(), dlq.Options{KeepPayloads: true})
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	parts := newShared(t.Context(), cfg, environ, zap.NewNop(), registry, bodies, store, new(announcer))
	var accounts []*proxy.Account
	for _, p := range cfg.Providers {
		account, err := parts.account(t.Context(), p)
		require.NoError(t, err)
		accounts = append(accounts, account)
	}
	_, err = registry.Gather()
	require.NoError(t, err, "no two series clash")
	return accounts
}

func TestEveryExampleWires(t *testing.T) {
	t.Parallel()
	examples, err := filepath.Glob("../../config/*.yaml")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(examples), 9)
	environ := []string{
		"AZURE_DOCUMENT_KEY=example-key", "MISTRAL_API_KEY=example-key", "OCRSPACE_API_KEY=example-key", "OPENAI_API_KEY=example-key",
	}
	for _, path := range examples {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			cfg, err := config.Load(path, environ)
			require.NoError(t, err)
			for i, account := range wired(t, cfg, environ) {
				want := cfg.Providers[i]
				require.Equal(t, want.Name, account.Name)
				require.Equal(t, want.Kind, account.Provider.Name)
				require.Equal(t, want.Auth.AddsCredential(), account.Credential.Own())
				require.Equal(t, want.Auth.Type == config.AuthPassthrough, account.Credential.PassesThrough())
			}
		})
	}
}

func TestSettingsArriveWhereTheyBelong(t *testing.T) {
	t.Parallel()
	path := file(t, "c.yaml", `
retry: {max_attempts: 5, ambiguous: never, unknown_retries: 2, attempt_timeout_per_mb: 3s}
dead_letters: {processing_version: v7}
body: {max_bytes: 1MiB}
providers:
  - name: one
    kind: textract
    listen: 127.0.0.1:0
    upstream: https://textract.eu-west-1.amazonaws.com/base
    auth: {type: none}
    inject_token: content
    rules: [{status: 418, class: throttle}]
    retry: {max_attempts: 4, ambiguous: always, total_budget: 50s, operations: {StartDocumentAnalysis: {max_attempts: 2}}}
    breaker: {failure_threshold: 2, on_open: wait, on_throttle: trip}
    review: {partial: review, truncated: review, threshold: 0.7, aggregate: p10, fields: {Expense: {TOTAL: 0.9}}, required: {"*": [TOTAL], Identity: [FIRST_NAME]}}
  - {name: two, kind: generic, listen: "127.0.0.1:0", upstream: "http://127.0.0.1:1", inject_token: false}
`)
	cfg, err := config.Load(path, nil)
	require.NoError(t, err)
	all := wired(t, cfg, nil)
	one, two := all[0], all[1]

	require.Equal(t, "/base", one.Upstream.Path)
	require.Equal(t, 2, one.Policy("StartDocumentAnalysis").MaxAttempts)
	other := one.Policy("AnalyzeDocument")
	require.Equal(t, 4, other.MaxAttempts)
	require.Equal(t, 50*time.Second, other.Total)
	require.Equal(t, 3*time.Second, other.AttemptTimeoutPerMB)
	require.Equal(t, 2, other.UnknownRetries)
	require.Equal(t, proxy.RepeatAlways, other.Ambiguous)
	require.Equal(t, proxy.InjectContent, one.Injection)
	require.True(t, one.HoldOpen)
	require.True(t, one.TripOnThrottle)
	require.Len(t, one.Rules, 1)
	require.Equal(t, "v7", one.Version)
	require.EqualValues(t, 1<<20, one.MaxBody)
	require.Equal(t, proxy.Scrutiny{
		Threshold: 0.7, Aggregate: proxy.ByP10, Fields: map[string]map[string]float64{"expense": {"total": 0.9}},
		Required: map[string][]string{proxy.AnyType: {"total"}, "identity": {"first_name"}},
		Actions:  map[string]proxy.Action{provider.Partial: proxy.LookAt, provider.Truncated: proxy.LookAt},
	}, one.Scrutiny)

	require.Equal(t, 5, two.Policy(provider.Other).MaxAttempts)
	require.Equal(t, proxy.RepeatNever, two.Policy(provider.Other).Ambiguous)
	require.Equal(t, proxy.InjectNever, two.Injection)
	require.False(t, two.HoldOpen)
	require.False(t, two.TripOnThrottle)
	require.Equal(t, 90*time.Second, two.Policy(provider.Other).Total, "the default")
	require.InDelta(t, 0.8, two.Scrutiny.Threshold, 0, "on by default")
}

func TestAccountsThatCannotBeWired(t *testing.T) {
	t.Parallel()
	certificate := file(t, "ca.pem", "no certificate")
	for _, c := range []struct {
		change func(p *config.Provider)
		want   string
	}{
		{func(p *config.Provider) { p.Kind = "tesseract" }, "tesseract"},
		{func(p *config.Provider) { p.Auth = config.Auth{Type: "magic"} }, "magic"},
		{func(p *config.Provider) {
			p.Auth = config.Auth{Type: config.AuthHeader, Header: "X-Api-Key", ValueFile: "/does/not/exist"}
		}, "auth.value_file"},
		{func(p *config.Provider) { p.UpstreamTLS.CAFile = certificate }, "holds no certificate"},
		{func(p *config.Provider) { p.UpstreamTLS.CAFile = "/does/not/exist" }, "upstream_tls.ca_file"},
		{func(p *config.Provider) { p.Rules = []config.Rule{{Status: 418, Class: "strange"}} }, "rules"},
	} {
		cfg := config.Default()
		p := config.Provider{Name: "acct", Kind: "generic", Listen: "127.0.0.1:0", Upstream: "http://127.0.0.1:1", Auth: config.Auth{Type: config.AuthPassthrough}, Retry: cfg.Retry, Breaker: cfg.Breaker}
		c.change(&p)
		parts := newShared(t.Context(), cfg, nil, zap.NewNop(), prometheus.NewRegistry(), nil, nil, new(announcer))
		_, err := parts.account(t.Context(), p)
		require.ErrorContains(t, err, c.want)
	}
}

// Jobs that were open when the last process ended hold their permits in this one, unless they are too old to be running still.
func TestOpenJobsAreCountedFromTheStart(t *testing.T) {
	t.Parallel()
	store, err := dlq.Open(t.TempDir(), dlq.Options{KeepPayloads: true})
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	for id, age := range map[string]time.Duration{"young": time.Minute, "old": 2 * time.Hour} {
		at := time.Now().Add(-age)
		require.NoError(t, store.PutJob(t.Context(), &dlq.JobRecord{
			Account: "acct", Kind: "textract", Operation: "StartDocumentAnalysis", JobID: id, RequestFingerprint: id, CallID: id,
			Start: dlq.Request{Method: "POST", Path: "/"}, AcceptedAt: at, ExpiresAt: at.Add(24 * time.Hour),
		}, nil))
	}
	kind, err := provider.Find("textract")
	require.NoError(t, err)
	c := config.Provider{Name: "acct", Pacing: config.Pacing{OpenJobs: 5, Recovery: time.Second}}
	open, limit := (&shared{jobs: store}).permits(c, kind).Open()
	require.Equal(t, []int{1, 5}, []int{open, limit})
	open, _ = (&shared{}).permits(c, kind).Open()
	require.Zero(t, open)
}

func TestWhatQueuesAreToldOfTheConfiguration(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(p *config.Provider)
		learns bool
	}{
		"by default":          {func(*config.Provider) {}, true},
		"off":                 {func(p *config.Provider) { p.Pacing.Adaptive = false }, false},
		"a fixed rate":        {func(p *config.Provider) { p.Pacing.Rate = 5 }, false},
		"throttles that trip": {func(p *config.Provider) { p.Breaker.OnThrottle = "trip" }, false},
	} {
		d := config.Default()
		p := config.Provider{Pacing: d.Pacing, Breaker: d.Breaker, Retry: d.Retry}
		c.change(&p)
		s := queueSettings(p)
		require.Equal(t, c.learns, s.Adaptive, name)
		require.InDelta(t, p.Pacing.Rate, s.Rate, 0, name)
		require.Equal(t, 10000, s.MaxWaiting)
		require.Equal(t, 90*time.Second, s.MaxPause)
	}
}
