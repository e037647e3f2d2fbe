package proxy

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ocr-proxy/ocr-proxy/internal/classify"
	"github.com/ocr-proxy/ocr-proxy/internal/retry"
	"github.com/ocr-proxy/ocr-proxy/internal/trace"
)

// Metrics are the counters and histograms of all accounts.
type Metrics struct {
	requests, attempts, outcomes, throttles   *prometheus.CounterVec
	items, soft, silent                       *prometheus.CounterVec
	requestTime, attemptTime, overhead, delay *prometheus.HistogramVec
	retries, confidence, field                *prometheus.HistogramVec
	inFlight                                  *prometheus.Desc
	observations                              observations

	// Figures is told of each figure of a good answer, as exchange.figures gives it; nil: nobody keeps them. It is set before the first request.
	Figures func(account, operation, kind, field string, figure float64)

	mu       sync.Mutex
	accounts map[string]*AccountMetrics
}

// NewMetrics registers the metrics of requests, once per registry.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	seconds := []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 20, 40, 60, 90, 120}
	confidences := []float64{.1, .2, .3, .4, .5, .6, .7, .75, .8, .85, .9, .925, .95, .975, .99, 1}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "ocrproxy_" + name, Help: help}, labels)
	}
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		// Beside the buckets, which everybody reads, a native histogram for scrapers that ask for it: each bucket is a tenth wider than the one before.
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "ocrproxy_" + name, Help: help, Buckets: buckets,
			NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 100, NativeHistogramMinResetDuration: time.Hour,
		}, labels)
	}
	m := &Metrics{
		accounts:  map[string]*AccountMetrics{},
		requests:  counter("requests_total", "Workers' requests by how they ended.", "provider", "kind", "operation", "outcome"),
		attempts:  counter("attempts_total", "Upstream attempts by class.", "provider", "operation", "class"),
		outcomes:  counter("retry_outcomes_total", "What became of requests that were retried or would have been.", "provider", "outcome"),
		throttles: counter("throttles_total", "Throttled attempts.", "provider", "operation"),
		items:     counter("item_errors_total", "Failed items inside good answers, by class.", "provider", "class"),
		soft:      counter("soft_failures_total", "Good answers with a reason to look at them.", "provider", "operation"),
		silent: counter("silent_failures_total", "Good answers with a reason to look at them, by the reason.",
			"provider", "operation", "reason"),
		confidence: histogram("confidence", "Confidence of a good answer's words, as review.aggregate makes it one figure, from 0 to 1.",
			confidences, "provider", "operation"),
		field: histogram("field_confidence", "Confidence of fields that the configuration names, the lowest of each document, from 0 to 1.",
			confidences, "provider", "type", "field"),
		requestTime: histogram("request_duration_seconds", "Time of a whole request.", seconds, "provider", "operation"),
		attemptTime: histogram("attempt_duration_seconds", "Time of one upstream attempt.", seconds, "provider", "operation"),
		overhead: histogram("overhead_seconds", "Time that the proxy itself added: without the worker's upload, the upstream and deliberate waits.",
			[]float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .1, .5, 2}, "provider"),
		delay: histogram("retry_delay_seconds", "Deliberate waits before an attempt, by what asked for them.",
			[]float64{.05, .1, .25, .5, 1, 2, 4, 8, 16, 32, 64}, "provider", "source"),
		retries: histogram("request_retries", "Attempts beyond the first of one request.", []float64{0, 1, 2, 3, 5, 8}, "provider", "operation"),
		inFlight: prometheus.NewDesc("ocrproxy_in_flight", "Requests in progress.",
			[]string{"provider"}, nil),
		observations: newObservations(reg),
	}
	reg.MustRegister(m.requests, m.attempts, m.outcomes, m.throttles, m.items, m.requestTime, m.attemptTime, m.overhead, m.delay, m.retries, m.soft, m.silent, m.confidence, m.field, m)
	return m
}

// Describe implements prometheus.Collector for the requests in progress, which are read when scraped.
func (m *Metrics) Describe(descs chan<- *prometheus.Desc) { descs <- m.inFlight }

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(metrics chan<- prometheus.Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, a := range m.accounts {
		metrics <- prometheus.MustNewConstMetric(m.inFlight, prometheus.GaugeValue, float64(a.purse.InProgress()), a.name)
	}
}

// AccountMetrics are the metrics of one account, with its handles resolved so that a request does not look them up by label.
type AccountMetrics struct {
	metrics    *Metrics
	name, kind string
	purse      *retry.Purse
	overhead   prometheus.Observer
	operations sync.Map // of *operationMetrics, by the names that an adapter declares
}

// Account opens the metrics of one account; what does not depend on an operation is present from now on,
// but for what Show shows.
func (m *Metrics) Account(name, kind string, purse *retry.Purse) *AccountMetrics {
	a := &AccountMetrics{metrics: m, name: name, kind: kind, purse: purse, overhead: m.overhead.WithLabelValues(name)}
	for _, stop := range retry.Stops() {
		m.outcomes.WithLabelValues(name, stop.String())
	}
	m.outcomes.WithLabelValues(name, succeeded)
	for _, source := range [...]string{fromBackoff, fromHint, fromGate, fromQueue} {
		m.delay.WithLabelValues(name, source)
	}
	return a
}

// Show shows from now on an account's requests in progress and whether it observes, in place of another's of that name.
func (m *Metrics) Show(a *AccountMetrics, observes bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.accounts[a.name] = a
	if observes {
		m.observations.observing.WithLabelValues(a.name).Set(1)
	} else {
		m.observations.observing.DeleteLabelValues(a.name)
	}
}

// Remove stops showing them. What was counted stays: a counter that went away and came back smaller would look like a restart.
func (m *Metrics) Remove(account string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.accounts, account)
	m.observations.observing.DeleteLabelValues(account)
}

// operationMetrics are the handles of one operation, all present as soon as it is first called.
type operationMetrics struct {
	requests                          map[Outcome]prometheus.Counter
	attempts                          map[classify.Class]prometheus.Counter
	throttles, soft                   prometheus.Counter
	requestTime, attemptTime, retries prometheus.Observer
}

func (a *AccountMetrics) operation(name string) *operationMetrics {
	if o, ok := a.operations.Load(name); ok {
		return o.(*operationMetrics) //nolint:forcetypeassert // nothing else is stored
	}
	m := a.metrics
	o := &operationMetrics{
		requests:    map[Outcome]prometheus.Counter{},
		attempts:    map[classify.Class]prometheus.Counter{},
		throttles:   m.throttles.WithLabelValues(a.name, name),
		soft:        m.soft.WithLabelValues(a.name, name),
		requestTime: m.requestTime.WithLabelValues(a.name, name),
		attemptTime: m.attemptTime.WithLabelValues(a.name, name),
		retries:     m.retries.WithLabelValues(a.name, name),
	}
	for _, outcome := range Outcomes() {
		o.requests[outcome] = m.requests.WithLabelValues(a.name, a.kind, name, string(outcome))
	}
	for _, class := range classify.Classes() {
		o.attempts[class] = m.attempts.WithLabelValues(a.name, name, class.String())
	}
	stored, _ := a.operations.LoadOrStore(name, o)
	return stored.(*operationMetrics) //nolint:forcetypeassert // nothing else is stored
}

const succeeded = "succeeded"

func (a *AccountMetrics) attempt(operation string, class classify.Class, took time.Duration, span *trace.Span) {
	o := a.operation(operation)
	o.attempts[class].Inc()
	observe(o.attemptTime, took, span)
	if class == classify.Throttle {
		o.throttles.Inc()
	}
}

func (a *AccountMetrics) item(class classify.Class) {
	a.metrics.items.WithLabelValues(a.name, class.String()).Inc()
}

func (a *AccountMetrics) delay(source string, length time.Duration) {
	a.metrics.delay.WithLabelValues(a.name, source).Observe(length.Seconds())
}

func (a *AccountMetrics) request(x *exchange, total time.Duration) {
	operation := x.op.Name
	if operation == "" {
		operation = "other" // refused before anybody looked what it was
	}
	o := a.operation(operation)
	o.requests[x.outcome].Inc()
	observe(o.requestTime, total, x.traced.span)
	in := x.looked()
	if x.outcome == Review || in != nil && in.sign != "" {
		o.soft.Inc()
		if x.reason != "" { // one of the fixed words
			a.metrics.silent.WithLabelValues(a.name, operation, x.reason).Inc()
		}
	}
	x.figures(func(kind, field string, figure float64) {
		if keep := a.metrics.Figures; keep != nil {
			keep(a.name, operation, kind, field, figure)
		}
		if field == "" {
			a.metrics.confidence.WithLabelValues(a.name, operation).Observe(figure)
			return
		}
		a.metrics.field.WithLabelValues(a.name, kind, field).Observe(figure)
	})
	n := len(x.history)
	if n > 0 {
		o.retries.Observe(float64(n - 1))
		busy := x.upload + x.waited
		for _, attempt := range x.history {
			busy += attempt.duration
		}
		a.overhead.Observe(max(0, total-busy).Seconds())
	}
	switch word := x.stop.String(); {
	case x.outcome.good() && n > 1:
		a.metrics.outcomes.WithLabelValues(a.name, succeeded).Inc()
	case word != "" && n > 0:
		a.metrics.outcomes.WithLabelValues(a.name, word).Inc()
	}
}
