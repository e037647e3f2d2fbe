// Package admin is the listener for operators and their tools: health, metrics, the state of accounts and dead letters as JSON, and what is to
// be done about letters. It never serves a document's bytes.
package admin

import (
	_ "embed" // for the description of the API
	"encoding/json"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"

	"github.com/ocr-proxy/ocr-proxy/internal/dlq"
	"github.com/ocr-proxy/ocr-proxy/internal/watch"
)

// description is the API in the words of OpenAPI.
//
//go:embed openapi.yaml
var description []byte

// Account is the state of one provider account.
type Account struct {
	Name     string             `json:"name"`
	Kind     string             `json:"kind"`
	Upstream string             `json:"upstream"`
	Observes bool               `json:"observes"` // it changes nothing, and what is said of it is what would be
	InFlight int64              `json:"in_flight"`
	Breaker  Breaker            `json:"breaker"`
	Paused   map[string]float64 `json:"paused_seconds"` // by operation; empty when nothing is paused
	Queue    map[string]Queue   `json:"queue"`          // by operation; without those of which there is nothing to say
	Jobs     Jobs               `json:"jobs"`
	LastHour Hour               `json:"last_hour"`
	Minutes  []watch.Minute     `json:"-"` // of the last hour, for the page
}

// Hour is what an account did in the last hour.
type Hour struct {
	Requests     int            `json:"requests"`
	DeadLettered int            `json:"dead_lettered"`
	Attempts     map[string]int `json:"attempts"` // by class; without those that did not occur
}

// Breaker is the state of an account's circuit, the worst where there are several.
type Breaker struct {
	State       string  `json:"state"`
	Reason      string  `json:"reason"`
	OpenSeconds float64 `json:"open_seconds"`
}

// Options are what the listener shows and who may see it.
type Options struct {
	Gatherer   prometheus.Gatherer
	Ready      func() bool
	Quit       func() // begins the end of the process
	Accounts   func() []Account
	LettersDir string
	Letters    *dlq.Store    // the store in LettersDir
	Retention  time.Duration // the age from which resolved and discarded letters are pruned; 0: they are kept
	Replay     http.Handler  // replays the dead letter whose id is the path value "id"
	Listen     string        // the address it is bound to: off loopback it is guarded
	Hosts      []string      // names under which it is reached, beside IP literals and localhost
	TokenFile  string        // holds the bearer token that is asked for off loopback; "": nothing but metrics and health there
	Log        *zap.Logger
}

// New builds the handler. It fails when the token file cannot be read.
func New(o Options) (http.Handler, error) {
	g, err := newGuard(o)
	if err != nil {
		return nil, err
	}
	letters := letters{dir: o.LettersDir, store: o.Letters, retention: o.Retention, log: o.Log}
	pages, err := newPages(o, letters)
	if err != nil {
		return nil, err
	}
	r := chi.NewRouter()
	r.NotFound(func(w http.ResponseWriter, _ *http.Request) {
		say(w, http.StatusNotFound, "there is nothing at this path; /api/v1/openapi.yaml lists what there is")
	})
	r.Method(http.MethodGet, "/metrics", promhttp.HandlerFor(o.Gatherer, promhttp.HandlerOpts{
		ErrorLog: zap.NewStdLog(o.Log), EnableOpenMetrics: true, // for whoever asks for it: only that form has exemplars
	}))
	r.Get("/healthz", func(w http.ResponseWriter, _ *http.Request) { say(w, http.StatusOK, "ok") })
	r.Get("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !o.Ready() {
			say(w, http.StatusServiceUnavailable, "draining, or not up yet")
			return
		}
		say(w, http.StatusOK, "ready")
	})
	r.Group(func(r chi.Router) {
		r.Use(g.protect)
		r.Get("/api/v1/providers", func(w http.ResponseWriter, _ *http.Request) {
			writeJSON(w, map[string]any{"providers": o.Accounts()})
		})
		letters.routes(r)
		r.Get("/api/v1/openapi.yaml", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/yaml")
			_, _ = w.Write(description) // whoever asked may have gone
		})
		r.Method(http.MethodPost, "/api/v1/dead-letters/{id}/replay", o.Replay)
		r.Post("/quitquitquit", func(w http.ResponseWriter, _ *http.Request) {
			say(w, http.StatusAccepted, "draining")
			o.Quit()
		})
		// Profiles show where time and memory go, never what is in it.
		r.Get("/debug/pprof/profile", pprof.Profile)
		r.Get("/debug/pprof/{profile}", func(w http.ResponseWriter, r *http.Request) {
			pprof.Handler(chi.URLParam(r, "profile")).ServeHTTP(w, r)
		})
		pages.routes(r)
	})
	return r, nil
}

func say(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff") // a sentence may repeat what was asked
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text + "\n")) //nolint:gosec // plain text, and whoever asked may have gone
}

func writeJSON(w http.ResponseWriter, v any) {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		say(w, http.StatusInternalServerError, "the answer cannot be written as JSON")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(append(data, '\n'))
}
