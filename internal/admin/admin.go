// Package admin is the listener for operators and their tools: health, metrics, and the state of accounts and dead letters as JSON. It never
// serves a document's bytes.
package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"slices"
	"strings"

	"github.com/go-chi/chi/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"
)

// Account is the state of one provider account.
type Account struct {
	Name     string             `json:"name"`
	Kind     string             `json:"kind"`
	Upstream string             `json:"upstream"`
	InFlight int64              `json:"in_flight"`
	Breaker  Breaker            `json:"breaker"`
	Paused   map[string]float64 `json:"paused_seconds"` // by operation; empty when nothing is held
	LastHour Hour               `json:"last_hour"`
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
	Replay     http.Handler // replays the dead letter whose id is the path value "id"
	Listen     string       // the address it is bound to: off loopback it is guarded
	Hosts      []string     // names under which it is reached, beside IP literals and localhost
	TokenFile  string       // holds the bearer token that is asked for off loopback; "": nothing but metrics and health there
	Log        *zap.Logger
}

// New builds the handler. It fails when the token file cannot be read.
func New(o Options) (http.Handler, error) {
	g := guard{hosts: o.Hosts, loopback: isLoopback(o.Listen)}
	if o.TokenFile != "" {
		data, err := os.ReadFile(o.TokenFile)
		if err != nil {
			return nil, fmt.Errorf("admin.token_file: %w", err)
		}
		token := strings.TrimSpace(string(data))
		if token == "" {
			return nil, fmt.Errorf("admin.token_file: %s is empty", o.TokenFile)
		}
		sum := sha256.Sum256([]byte(token))
		g.token = &sum
	}
	r := chi.NewRouter()
	r.Method(http.MethodGet, "/metrics", promhttp.HandlerFor(o.Gatherer, promhttp.HandlerOpts{ErrorLog: zap.NewStdLog(o.Log)}))
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
			writeJSON(w, http.StatusOK, map[string]any{"providers": o.Accounts()})
		})
		letters{dir: o.LettersDir, log: o.Log}.routes(r)
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
		r.Get("/", func(w http.ResponseWriter, _ *http.Request) {
			say(w, http.StatusOK, "ocr-proxy\n\n/metrics\n/healthz\n/readyz\n/api/v1/providers\n/api/v1/dead-letters\nPOST /api/v1/dead-letters/{id}/replay\nPOST /quitquitquit")
		})
	})
	return r, nil
}

func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// guard decides who may see more than metrics and health.
type guard struct {
	hosts    []string
	loopback bool
	token    *[sha256.Size]byte
}

func (g guard) protect(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !g.knows(r.Host):
			// A page on the web can make a browser ask a name of its own that leads here.
			say(w, http.StatusMisdirectedRequest, "this host name is not one of admin.hosts")
		case r.Header.Get("Origin") != "" || r.Header.Get("Sec-Fetch-Site") == "cross-site":
			say(w, http.StatusForbidden, "requests from other sites are refused")
		case !g.loopback && g.token == nil:
			say(w, http.StatusForbidden, "off loopback this needs admin.token_file")
		case g.token != nil && !g.loopback && !g.bears(r):
			w.Header().Set("WWW-Authenticate", "Bearer")
			say(w, http.StatusUnauthorized, "a bearer token is needed")
		default:
			next.ServeHTTP(w, r)
		}
	})
}

func (g guard) knows(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = hostport
	}
	host = strings.Trim(host, "[]")
	return net.ParseIP(host) != nil || strings.EqualFold(host, "localhost") ||
		slices.ContainsFunc(g.hosts, func(s string) bool { return strings.EqualFold(s, host) })
}

func (g guard) bears(r *http.Request) bool {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	sum := sha256.Sum256([]byte(token))
	return ok && subtle.ConstantTimeCompare(sum[:], g.token[:]) == 1
}

func say(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text + "\n")) // whoever asked may have gone
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		say(w, http.StatusInternalServerError, "the answer cannot be written as JSON")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(append(data, '\n'))
}
