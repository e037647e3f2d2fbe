package watch

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/ocr-proxy/ocr-proxy/internal/classify"
)

// The kinds of events that are emitted.
const (
	CredentialsRefused = "credentials.refused"
	ErrorsSpike        = "errors.spike"
)

// What is out of the ordinary. An account is judged by its last window against the rest of the hour before.
const (
	// window is the time that is judged, in minutes.
	window = 5
	// leastAnswers is how many answers, or requests, the window must have before a share of them means anything.
	leastAnswers = 20
	// spikeShare is the share of refusals from which an account has a spike of them, and cleanShare the one up to which it was clean before.
	spikeShare, cleanShare = 0.2, 0.02
	// leastBad is how many of them must be bad.
	leastBad = 5
	// leastBefore is how many answers must have come before the window for an account to be known as clean.
	leastBefore = 50
	// letterShare is the share of requests that end with a dead letter from which people are told.
	letterShare = 0.1
	// calm is how long the same event about the same account is not repeated.
	calm = 10 * time.Minute
)

// Emitter takes events. It must not wait for a network, and says itself what it loses.
type Emitter interface {
	Emit(kind string, at time.Time, data any) error
}

// Event is what is said of an account.
type Event struct {
	Account string `json:"account"`
	Kind    string `json:"kind"`
	// Cause is the likely one: credentials, requests_or_format, dead_letters.
	Cause string `json:"cause"`
	// Diagnostic is a sentence for the person who looks into it.
	Diagnostic string `json:"diagnostic"`
	// Code is the provider's code of the answer that tipped the scale.
	Code string `json:"code,omitempty"`
	// Bad of Total in the last Minutes.
	Bad     int `json:"bad"`
	Total   int `json:"total"`
	Minutes int `json:"minutes"`
}

// The causes.
const (
	causeCredentials = "credentials"
	causeRequests    = "requests_or_format"
	causeLetters     = "dead_letters"
)

// Metrics count the events of all accounts.
type Metrics struct{ events *prometheus.CounterVec }

// NewMetrics registers them, once per registry.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{events: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "ocrproxy_escalations_total", Help: "Times that people were told of an account in trouble, by event.",
	}, []string{"provider", "event"})}
	reg.MustRegister(m.events)
	return m
}

// Options make an account's watch.
type Options struct {
	Name, Kind string
	Emitter    Emitter // nil: events are logged and counted alone
	Log        *zap.Logger
	Metrics    *Metrics
}

// Account watches one account. Its methods may be called by any number of goroutines, and of a nil one none does anything.
type Account struct {
	o Options

	mu      sync.Mutex
	history history
	refused bool                // the latest answer that says so refused the credential
	told    map[string]*episode // by cause
}

// episode is a time of trouble that people were told of.
type episode struct {
	at time.Time // when they were told
	on bool      // it goes on
}

// New makes the watch of an account about which nothing is known yet.
func New(o Options) *Account {
	w := &Account{o: o, told: map[string]*episode{causeCredentials: {}, causeRequests: {}, causeLetters: {}, CredentialsRefused: {}}}
	for _, kind := range [...]string{CredentialsRefused, ErrorsSpike} {
		o.Metrics.events.WithLabelValues(o.Name, kind)
	}
	return w
}

// Attempt notes an upstream attempt, by the class and the code of its verdict.
func (w *Account) Attempt(class classify.Class, code string) {
	if w == nil {
		return
	}
	now := time.Now()
	w.mu.Lock()
	w.history.at(now).Attempts[class]++
	var events []told
	switch class {
	case classify.Success, classify.Soft:
		w.refused = false
	case classify.Auth:
		events = append(w.refusal(now, code), w.spike(now, code)...)
	case classify.Permanent:
		events = w.spike(now, code)
	case classify.Unknown, classify.Throttle, classify.Transient, classify.Quota:
	}
	w.mu.Unlock()
	w.tell(now, events)
}

// Request notes that a worker's request came to its end, and whether with a dead letter.
func (w *Account) Request(buried bool) {
	if w == nil {
		return
	}
	now := time.Now()
	w.mu.Lock()
	s := w.history.at(now)
	s.Requests++
	var events []told
	if buried {
		s.DeadLettered++
		events = w.letters(now)
	}
	w.mu.Unlock()
	w.tell(now, events)
}

// Turn notes that the account's circuit changed its state.
func (w *Account) Turn(to Circuit) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.history.turn(time.Now(), to)
}

// Minutes are the last hour's, the oldest first, each minute once.
func (w *Account) Minutes() []Minute {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.history.minutes(time.Now())
}

// Hour adds up the last hour.
func (w *Account) Hour() Minute {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.history.sum(time.Now(), 0, Kept-1)
}

// told is an event that is due.
type told struct {
	kind string
	data Event
}

// refusal is the event that a credential is refused that was good before, or that nobody has seen at work yet.
func (w *Account) refusal(now time.Time, code string) []told {
	if w.refused {
		return nil
	}
	w.refused = true
	if e := w.told[CredentialsRefused]; !e.at.IsZero() && now.Sub(e.at) < calm {
		return nil // good and bad credentials take turns: once says it
	}
	w.told[CredentialsRefused].at = now
	return []told{{CredentialsRefused, Event{
		Cause: causeCredentials, Code: code, Bad: 1, Total: 1, Minutes: 1,
		Diagnostic: "The provider refuses a credential. Renew or correct it; the documents refused meanwhile lie in dead letters of class auth and can be replayed.",
	}}}
}

// spike is the event that an account which is normally clean has many refusals.
func (w *Account) spike(now time.Time, code string) []told {
	recent := w.history.sum(now, 0, window-1)
	auth, bad, total := recent.Of(classify.Auth), recent.Of(classify.Auth, classify.Permanent), recent.Answers()
	cause, diagnostic := causeRequests, "Many documents are refused on an account that is normally clean. Look for a change in what workers send or in what the provider accepts; the dead letters of class permanent name the codes."
	if auth*2 >= bad {
		cause, diagnostic = causeCredentials, "Many calls are refused for their credentials on an account that is normally clean. Renew or correct the credential, then replay the dead letters of class auth."
	}
	if !w.begins(cause, now, bad, total, spikeShare) {
		return nil
	}
	return []told{{ErrorsSpike, Event{Cause: cause, Code: code, Bad: bad, Total: total, Minutes: window, Diagnostic: diagnostic}}}
}

// letters is the event that too many requests end with a dead letter.
func (w *Account) letters(now time.Time) []told {
	recent := w.history.sum(now, 0, window-1)
	bad, total := recent.DeadLettered, recent.Requests
	if !w.begins(causeLetters, now, bad, total, letterShare) {
		return nil
	}
	return []told{{ErrorsSpike, Event{
		Cause: causeLetters, Bad: bad, Total: total, Minutes: window,
		Diagnostic: "Many requests end as dead letters. `ocr-proxy dlq top` groups them and says what to do.",
	}}}
}

// clean reports whether the account is known to have had hardly a refusal in the hour before the window.
func (w *Account) clean(now time.Time) bool {
	before := w.history.sum(now, window, Kept-1)
	return before.Answers() >= leastBefore && share(before.Of(classify.Auth, classify.Permanent), before.Answers()) <= cleanShare
}

// begins reports whether a time of trouble begins that people have not been told of: the share of bad ones has reached its limit, for the
// first time since it was last below half of it.
func (w *Account) begins(cause string, now time.Time, bad, total int, limit float64) bool {
	e := w.told[cause]
	of := share(bad, total)
	switch {
	case of < limit/2:
		e.on = false
	case !e.on && of >= limit && bad >= leastBad && total >= leastAnswers && (cause == causeLetters || w.clean(now)):
		e.on = true
		if e.at.IsZero() || now.Sub(e.at) >= calm {
			e.at = now
			return true
		}
	}
	return false
}

func share(part, whole int) float64 { return float64(part) / float64(max(1, whole)) }

// tell is called without the lock: an emitter writes to a disk.
func (w *Account) tell(now time.Time, events []told) {
	for _, t := range events {
		t.data.Account, t.data.Kind = w.o.Name, w.o.Kind
		w.o.Metrics.events.WithLabelValues(w.o.Name, t.kind).Inc()
		w.o.Log.Error(t.data.Diagnostic, zap.String("event", t.kind), zap.String("provider", t.data.Account), zap.String("cause", t.data.Cause),
			zap.String("code", t.data.Code), zap.Int("bad", t.data.Bad), zap.Int("total", t.data.Total), zap.Int("minutes", t.data.Minutes))
		if w.o.Emitter != nil {
			_ = w.o.Emitter.Emit(t.kind, now, t.data) // a loss has been logged
		}
	}
}
