// Package config holds the settings of ocr-proxy: their types, defaults, loading, checking and printing.
//
// Every setting is a struct field with two tags: mapstructure, its key in the YAML file, and doc, the one place that
// says what it means, its unit, its range and what zero does. A third, reload, says of a setting or of a whole section
// whether a running proxy takes a change (live) or only one that starts (restart). Reference lists them all. Values come from, weakest first,
// Default, the file, the environment (OCR_PROXY_ and the path in capitals), and for the five sections that a provider
// entry inherits, the entry itself.
package config

import "time"

// Config is the whole configuration. Load returns it complete and checked: nothing in it needs a second default.
type Config struct {
	Log         Log         `mapstructure:"log"`
	Admin       Admin       `mapstructure:"admin"`
	Shutdown    Shutdown    `mapstructure:"shutdown" reload:"live"`
	Body        Body        `mapstructure:"body"`
	DeadLetters DeadLetters `mapstructure:"dead_letters"`
	Retry       Retry       `mapstructure:"retry" reload:"live"`
	Breaker     Breaker     `mapstructure:"breaker" reload:"live"`
	Pacing      Pacing      `mapstructure:"pacing" reload:"live"`
	Review      Review      `mapstructure:"review" reload:"live"`
	Precheck    Precheck    `mapstructure:"precheck" reload:"live"`
	Rescue      Rescue      `mapstructure:"rescue" reload:"live"`
	State       State       `mapstructure:"state" reload:"restart"`
	Tracing     Tracing     `mapstructure:"tracing" reload:"restart"`
	Providers   []Provider  `mapstructure:"providers" reload:"live"`
}

// Log says what is logged and how.
type Log struct {
	Level  string `mapstructure:"level" reload:"live" doc:"Least severe level that is logged: debug, info, warn or error."`
	Format string `mapstructure:"format" reload:"restart" doc:"json for machines, console for people."`
}

// Admin is the listener for metrics, health, the API and the web page.
type Admin struct {
	Listen    string    `mapstructure:"listen" reload:"restart" doc:"host:port of the admin listener."`
	TokenFile string    `mapstructure:"token_file" reload:"live" doc:"File with the bearer token that everything but metrics and health needs off loopback. Empty: off loopback only metrics and health are served."`
	Hosts     []string  `mapstructure:"hosts" reload:"live" doc:"Host names under which the admin listener is reached, beside IP literals and localhost."`
	TLS       ServerTLS `mapstructure:"tls" reload:"restart"`
}

// Shutdown bounds the drain after SIGTERM.
type Shutdown struct {
	DrainTimeout time.Duration `mapstructure:"drain_timeout" doc:"Time that requests in progress get to finish after the first signal. 0s: none."`
}

// Body bounds what request and answer bodies may take.
type Body struct {
	MaxBytes         Size   `mapstructure:"max_bytes" reload:"live" doc:"Largest request body; a larger one is answered 413. At least 1."`
	MemoryPerRequest Size   `mapstructure:"memory_per_request" reload:"restart" doc:"Memory one body may take; what is beyond goes to a file in dir. 0: everything goes to a file."`
	MemoryTotal      Size   `mapstructure:"memory_total" reload:"restart" doc:"Memory all bodies together may take; beyond it they go to files in dir. 0: everything goes to a file."`
	Dir              string `mapstructure:"dir" reload:"restart" doc:"Folder for those files. Empty: the system's temp folder."`
}

// DeadLetters is the store of documents that could not be processed.
type DeadLetters struct {
	Dir               string        `mapstructure:"dir" reload:"restart" doc:"Folder of the store. Needed."`
	MaxBytes          Size          `mapstructure:"max_bytes" reload:"live" doc:"Size of the store beyond which new letters are dropped, counted and logged. At least 1."`
	Retention         time.Duration `mapstructure:"retention" reload:"live" doc:"Age from which resolved and discarded letters may be pruned. 0s: they are kept."`
	Payloads          string        `mapstructure:"payloads" reload:"live" doc:"keep stores the request body for replay; none stores its hash only, so nothing can be replayed."`
	ProcessingVersion string        `mapstructure:"processing_version" reload:"live" doc:"Version of the pipeline, part of the idempotency key. At most 256 printable ASCII characters."`
	Webhook           Webhook       `mapstructure:"webhook" reload:"live"`
	AutoReplay        AutoReplay    `mapstructure:"auto_replay" reload:"live"`
}

// AutoReplay replays letters by itself once their provider is well again.
type AutoReplay struct {
	Enabled bool          `mapstructure:"enabled" doc:"Replay open letters by itself when the provider has recovered."`
	MaxAge  time.Duration `mapstructure:"max_age" doc:"Letters older than this are left to people. More than 0s."`
	Rate    float64       `mapstructure:"rate" doc:"Replays per second. More than 0."`
}

// Pacing limits how fast and how parallel an account is used.
type Pacing struct {
	Rate        float64       `mapstructure:"rate" doc:"Attempts per second and operation. 0: no fixed limit. Above 0 nothing is learned."`
	Burst       int           `mapstructure:"burst" doc:"Attempts that may go at once after a rest, where rate is above 0. 0: one."`
	MaxInFlight int           `mapstructure:"max_in_flight" doc:"Attempts of one operation that may run at one time. 0: no fixed limit."`
	Adaptive    bool          `mapstructure:"adaptive" doc:"Find the rate that the provider bears from its throttles. Before an operation's first throttle nothing is held."`
	StartRate   float64       `mapstructure:"start_rate" doc:"Attempts per second that adaptive pacing starts from after a first throttle, when it has not seen a higher rate go well. More than 0."`
	Recovery    time.Duration `mapstructure:"recovery" doc:"Time in which adaptive pacing wins back what a throttle took. More than 0s."`
	MaxWaiting  int           `mapstructure:"max_waiting" doc:"Requests that may wait for one operation; a further one is answered 503. At least 1."`
	FairBy      string        `mapstructure:"fair_by" doc:"What shares the queue fairly: tenant."`
	OpenJobs    int           `mapstructure:"open_jobs" doc:"Asynchronous jobs of the account that may be open at the provider; further starts wait. 0: no limit until the provider says that there are too many."`
}

// Review finds answers that are good HTTP and bad OCR.
type Review struct {
	Threshold       float64                       `mapstructure:"threshold" doc:"Confidence of an answer's words, 0 to 1, below which it goes to review. 0: off."`
	Aggregate       string                        `mapstructure:"aggregate" doc:"How the confidences of words become one figure: mean, min or p10, the 10th percentile."`
	Fields          map[string]map[string]float64 `mapstructure:"fields" doc:"Thresholds, 0 to 1, by document type (* for all) and field. Names are compared without case."`
	Required        map[string][]string           `mapstructure:"required" doc:"Fields that must have a value, by document type (* for all). Names are compared without case."`
	EmptyText       string                        `mapstructure:"empty_text" doc:"No text, of a document that is not blank: accept, review or retry, which asks another account first."`
	MissingPages    string                        `mapstructure:"missing_pages" doc:"Fewer pages than the document has, or than were asked for: accept, review or retry."`
	Partial         string                        `mapstructure:"partial" doc:"An answer that says it is partial: accept, review or retry."`
	Truncated       string                        `mapstructure:"truncated" doc:"An answer cut off at the provider's output limit: accept, review or retry."`
	MalformedOutput string                        `mapstructure:"malformed_output" doc:"Output that was asked for as JSON and is none: accept, review or retry."`
	URLOnly         string                        `mapstructure:"url_only" doc:"A result that is only an address to fetch it from: accept, review or retry."`
}

// Precheck refuses documents that no provider would accept before they cost anything.
type Precheck struct {
	Enabled     bool     `mapstructure:"enabled" doc:"Look at documents before they are sent, and refuse those that are hopeless (docs/precheck.md)."`
	RejectBlank bool     `mapstructure:"reject_blank" doc:"Refuse documents with nothing on them."`
	Skip        []string `mapstructure:"skip" doc:"Checks to leave out: empty, type, size, truncated, encrypted, pages, dimensions, blank."`
}

// Rescue keeps answers that were paid for but could not be delivered.
type Rescue struct {
	TTL      time.Duration `mapstructure:"ttl" doc:"How long such an answer waits for the worker to ask again. 0s: off."`
	MaxBytes Size          `mapstructure:"max_bytes" doc:"Memory and disk all of them together may take. At least 1."`
}

// State shares what is known about providers between replicas.
type State struct {
	URL MaskedURL `mapstructure:"url" doc:"redis:// or rediss:// address of the shared state; only its scheme and host are ever shown. Empty: kept in this process."`
}

// Tracing sends spans to a collector.
type Tracing struct {
	OTLPEndpoint MaskedURL `mapstructure:"otlp_endpoint" doc:"http:// or https:// address of an OpenTelemetry collector that speaks OTLP over HTTP, such as http://localhost:4318; without a path /v1/traces is asked. Only its scheme and host are ever shown. Empty: off."`
	SampleRatio  float64   `mapstructure:"sample_ratio" doc:"Share of the requests without a traceparent that are traced, 0 to 1; with one, its sampled flag decides."`
}
