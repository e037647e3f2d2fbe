package config

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
)

// checker looks at a complete configuration and reports everything that is wrong with it.
type checker struct {
	cfg        *Config
	environ    environment
	found      *problems
	secretless bool // nothing is read but the configuration: no key, no certificate, no variable of an account
}

func (c *checker) run() {
	top := scope{checker: c}
	c.general(top)
	top.retry(c.cfg.Retry)
	top.breaker(c.cfg.Breaker)
	top.pacing(c.cfg.Pacing)
	top.review(c.cfg.Review)
	top.precheck(c.cfg.Precheck)
	c.providers()
}

// scope is where a check looks: the top level, or one provider entry.
type scope struct {
	*checker
	prefix string // "" or "providers[1]."
}

// report adds a problem unless it follows from one that is known: at the same key, in a section around it, or at the
// top-level key that an entry inherits.
func (s scope) report(key, format string, args ...any) {
	if s.found.has(s.prefix+key) || s.prefix != "" && s.found.has(key) {
		return
	}
	s.found.add(s.prefix+key, format, args...)
}

func (s scope) need(ok bool, key, message string) {
	if !ok {
		s.report(key, "%s", message)
	}
}

func (s scope) oneOf(key, value string, allowed ...string) {
	must := "must be one of "
	if len(allowed) == 1 {
		must = "must be "
	}
	s.need(slices.Contains(allowed, value), key, must+strings.Join(allowed, ", "))
}

func (s scope) positive(key string, d time.Duration) {
	if d <= 0 {
		s.report(key, "must be more than 0s; it is %s", formatDuration(d))
	}
}

func (s scope) notNegative(key string, d time.Duration) {
	if d < 0 {
		s.report(key, "must be 0s or more; it is %s", formatDuration(d))
	}
}

func (s scope) atLeast(key string, value, least int) {
	s.need(value >= least, key, fmt.Sprintf("must be %d or more", least))
}

func (s scope) ratio(key string, value float64) {
	s.need(value >= 0 && value <= 1, key, "must be between 0 and 1")
}

var printableASCII = regexp.MustCompile(`^[ -~]{0,256}$`)

// general checks the sections that exist once.
func (c *checker) general(s scope) {
	cfg := c.cfg
	s.oneOf("log.level", cfg.Log.Level, "debug", "info", "warn", "error")
	s.oneOf("log.format", cfg.Log.Format, "json", "console")

	s.listen("admin.listen", cfg.Admin.Listen)
	s.secretFile("admin.token_file", cfg.Admin.TokenFile)
	s.hosts("admin.hosts", cfg.Admin.Hosts)
	s.serverTLS("admin.tls", cfg.Admin.TLS)

	s.notNegative("shutdown.drain_timeout", cfg.Shutdown.DrainTimeout)

	s.need(cfg.Body.MaxBytes > 0, "body.max_bytes", "must be 1 or more")
	s.need(cfg.Body.MemoryPerRequest >= 0, "body.memory_per_request", "must be 0 or more")
	s.need(cfg.Body.MemoryTotal >= 0, "body.memory_total", "must be 0 or more")

	d := cfg.DeadLetters
	s.need(d.Dir != "", "dead_letters.dir", "must name a folder")
	s.need(d.MaxBytes > 0, "dead_letters.max_bytes", "must be 1 or more")
	s.notNegative("dead_letters.retention", d.Retention)
	s.oneOf("dead_letters.payloads", d.Payloads, "keep", "none")
	s.need(printableASCII.MatchString(d.ProcessingVersion), "dead_letters.processing_version", "must be at most 256 printable ASCII characters")
	s.address("dead_letters.webhook.url", d.Webhook.URL, "http", "https")
	s.signingKey(d.Webhook)
	s.positive("dead_letters.webhook.timeout", d.Webhook.Timeout)
	s.positive("dead_letters.auto_replay.max_age", d.AutoReplay.MaxAge)
	s.need(d.AutoReplay.Rate > 0, "dead_letters.auto_replay.rate", "must be more than 0")

	s.notNegative("rescue.ttl", cfg.Rescue.TTL)
	s.need(cfg.Rescue.MaxBytes > 0, "rescue.max_bytes", "must be 1 or more")
	s.stateAddress("state.url", cfg.State.URL)
	s.collector("tracing.otlp_endpoint", cfg.Tracing.OTLPEndpoint)
	s.ratio("tracing.sample_ratio", cfg.Tracing.SampleRatio)
}

func (s scope) retry(r Retry) {
	s.retryLimits("retry", r.For(""))
	s.ratio("retry.budget.ratio", r.Budget.Ratio)
	s.atLeast("retry.budget.floor", r.Budget.Floor, 0)
	// Over the good defaults only what an override itself says can be wrong.
	base := Default().Retry
	base.Operations = r.Operations
	for _, name := range slices.Sorted(maps.Keys(r.Operations)) {
		s.retryLimits("retry.operations."+name, base.For(name))
	}
}

// PrecheckNames lists the checks of documents that can be left out.
func PrecheckNames() []string {
	return []string{"empty", "type", "size", "truncated", "encrypted", "pages", "dimensions", "blank"}
}

func (s scope) precheck(p Precheck) {
	for i, name := range p.Skip {
		s.oneOf(fmt.Sprintf("precheck.skip[%d]", i), name, PrecheckNames()...)
	}
}

func (s scope) retryLimits(path string, r Retry) {
	s.atLeast(path+".max_attempts", r.MaxAttempts, 1)
	s.positive(path+".total_budget", r.TotalBudget)
	s.positive(path+".base_delay", r.BaseDelay)
	s.positive(path+".cap_delay", r.CapDelay)
	s.positive(path+".attempt_timeout", r.AttemptTimeout)
	if r.AttemptTimeoutPerMB < 0 || r.AttemptTimeoutPerMB > time.Hour {
		s.report(path+".attempt_timeout_per_mb", "must be between 0s and 1h; it is %s", formatDuration(r.AttemptTimeoutPerMB))
	}
	s.atLeast(path+".unknown_retries", r.UnknownRetries, 0)
	s.oneOf(path+".ambiguous", r.Ambiguous, "safe", "never", "always")
}

func (s scope) breaker(b Breaker) {
	s.atLeast("breaker.failure_threshold", b.FailureThreshold, 1)
	s.ratio("breaker.failure_ratio", b.FailureRatio)
	s.atLeast("breaker.min_requests", b.MinRequests, 1)
	s.positive("breaker.window", b.Window)
	s.positive("breaker.reset_timeout", b.ResetTimeout)
	s.atLeast("breaker.half_open_probes", b.HalfOpenProbes, 1)
	s.oneOf("breaker.on_open", b.OnOpen, "reject", "wait")
	s.oneOf("breaker.on_throttle", b.OnThrottle, "pause", "trip")
	s.oneOf("breaker.on_sustained", b.OnSustained, "alert", "review", "fallback")
	s.ratio("breaker.fatal_ratio", b.FatalRatio)
	s.atLeast("breaker.auth_threshold", b.AuthThreshold, 0)
}

func (s scope) pacing(p Pacing) {
	s.need(p.Rate >= 0, "pacing.rate", "must be 0 or more")
	s.atLeast("pacing.burst", p.Burst, 0)
	s.need(p.Burst <= 0 || p.Rate != 0, "pacing.burst", "needs a pacing.rate, above which it lets calls go; give one or leave burst out")
	s.atLeast("pacing.max_in_flight", p.MaxInFlight, 0)
	s.need(p.StartRate > 0, "pacing.start_rate", "must be more than 0")
	s.positive("pacing.recovery", p.Recovery)
	s.atLeast("pacing.max_waiting", p.MaxWaiting, 1)
	s.oneOf("pacing.fair_by", p.FairBy, "tenant")
	s.atLeast("pacing.open_jobs", p.OpenJobs, 0)
}

func (s scope) review(r Review) {
	s.ratio("review.threshold", r.Threshold)
	s.oneOf("review.aggregate", r.Aggregate, "mean", "min", "p10")
	for _, document := range slices.Sorted(maps.Keys(r.Fields)) {
		thresholds := r.Fields[document]
		for _, name := range slices.Sorted(maps.Keys(thresholds)) {
			s.ratio("review.fields."+document+"."+name, thresholds[name])
		}
	}
	failures := r.SilentFailures()
	for _, key := range slices.Sorted(maps.Keys(failures)) {
		s.oneOf("review."+key, failures[key], "accept", "review", "retry")
	}
}

// SilentFailures are the keys for silent failures, each with what it says is done.
func (r Review) SilentFailures() map[string]string {
	return map[string]string{
		"empty_text":       r.EmptyText,
		"missing_pages":    r.MissingPages,
		"partial":          r.Partial,
		"truncated":        r.Truncated,
		"malformed_output": r.MalformedOutput,
		"url_only":         r.URLOnly,
	}
}
