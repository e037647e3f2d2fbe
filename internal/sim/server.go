// Package sim plays OCR providers on this machine: it speaks their wire protocols to the real client libraries and fails on
// demand, so that a worker and a proxy can be tried without an account, without cost and without a network.
//
// Each provider's protocol is one type in a file of its own. What goes wrong is decided by one seeded source in the order in
// which requests arrive, so the same requests under the same seed meet the same fate.
package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"go.uber.org/zap"
)

// StatsPath is where a running simulator shows its counters as JSON. Requests for it are not counted and never fail.
const StatsPath = "/__sim/stats"

// maxBody bounds what one request may send, in bytes. The simulator keeps whole bodies in memory.
const maxBody = 64 << 20

// Kind names the provider whose protocol a simulator speaks.
type Kind string

// The providers that can be simulated.
const (
	KindTextract   Kind = "textract"
	KindAzure      Kind = "azure"
	KindDocumentAI Kind = "documentai"
	KindVision     Kind = "vision"
	KindMistral    Kind = "mistral"
)

// Kinds returns every kind that New accepts.
func Kinds() []Kind {
	return []Kind{KindTextract, KindAzure, KindDocumentAI, KindVision, KindMistral}
}

// Options says what New builds.
type Options struct {
	// Kind is the provider to play. There is no default.
	Kind Kind
	// Faults is what goes wrong. The zero value is a provider in perfect health that answers at once.
	Faults Faults
	// Engine reads the documents. Nil means Canned.
	Engine Engine
	// Signatures checks requests' signatures before anything else; for the kind textract only. Nil: they are not looked at.
	Signatures *Signatures
	// Seed starts the one source of randomness. Zero is a seed like any other.
	Seed uint64
	// Logger gets one line per request at info level, without headers and bodies. Nil means no log.
	Logger *zap.Logger
}

// Server is a simulated provider and an http.Handler. It is safe for concurrent use.
type Server struct {
	protocol   protocol
	methods    map[string]method // of the provider's gRPC form; nil: it has none
	signatures *Signatures
	chaos      *chaos
	counters   *counters
	log        *zap.Logger
}

// New returns a simulator whose outage windows count from now, or from the last call of Start. The error names the option
// that is wrong.
func New(o Options) (*Server, error) {
	if err := o.Faults.Validate(); err != nil {
		return nil, err
	}
	if o.Signatures != nil && o.Kind != KindTextract {
		return nil, fmt.Errorf("signatures are checked for the kind %s only", KindTextract)
	}
	engine := o.Engine
	if engine == nil {
		engine = Canned{}
	}
	proto, err := newProtocol(o.Kind, newScanner(engine))
	if err != nil {
		return nil, err
	}
	log := o.Logger
	if log == nil {
		log = zap.NewNop()
	}
	return &Server{
		protocol: proto, methods: grpcMethods(o.Kind), signatures: o.Signatures, chaos: newChaos(o.Seed, o.Faults), counters: newCounters(o.Kind), log: log,
	}, nil
}

// Start sets the moment from which the outage windows count to now.
func (s *Server) Start() { s.chaos.restart() }

// Faults returns what goes wrong at present, with the script as it was given.
func (s *Server) Faults() Faults { return s.chaos.current() }

// SetFaults changes what goes wrong from the next request on. Throttling starts with a full burst, a script at its first
// step; outage windows still count from Start. Faults that do not validate change nothing.
func (s *Server) SetFaults(f Faults) error {
	if err := f.Validate(); err != nil {
		return err
	}
	s.chaos.set(f)
	return nil
}

// Stats returns the counters since New.
func (s *Server) Stats() Stats { return s.counters.snapshot() }

// Serve answers on ln until ctx ends; it then cuts short what is still waiting or hanging and returns nil. It closes ln.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	srv := &http.Server{
		Handler:           s,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
	}
	if s.methods != nil {
		srv.Protocols = new(http.Protocols)
		srv.Protocols.SetHTTP1(true)
		srv.Protocols.SetUnencryptedHTTP2(true) // gRPC's clients speak it without asking first
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()
	select {
	case err := <-served:
		return fmt.Errorf("serving the simulator: %w", err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if err := srv.Shutdown(grace); err != nil {
		_ = srv.Close() // Whoever still uploads a body has had its grace.
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving the simulator: %w", err)
	}
	return nil
}

// ServeHTTP plays one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.methods != nil && isGRPC(r) {
		s.serveGRPC(w, r)
		return
	}
	s.serveREST(w, r)
}

// serveREST plays one request over plain HTTP: the plan is made on arrival, then carried out.
func (s *Server) serveREST(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == StatsPath {
		s.serveStats(w, r)
		return
	}
	started := time.Now()
	op := s.protocol.operation(r)
	p := s.chaos.next(op)
	ids := newIdentifiers(p.seed)
	requestID := ids.uuid()
	rep, outcome := s.perform(r, op, p, ids)
	s.counters.add(op, outcome, rep)
	s.log.Info("request", zap.String("operation", op), zap.String("outcome", string(outcome)),
		zap.Int("status", rep.status), zap.Duration("took", time.Since(started)))
	if outcome == outcomeLost {
		hangUp(w, p.action == actRefuse)
		return
	}
	s.protocol.dress(w.Header(), requestID)
	rep.write(w)
}

// perform carries out the plan. The reply of a lost answer still tells what work was done for it.
func (s *Server) perform(r *http.Request, op string, p plan, ids *identifiers) (reply, outcome) {
	if p.action == actRefuse {
		return reply{}, outcomeLost
	}
	arrived := time.Now() // before the body, which a slow client may take its time over
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, maxBody))
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return s.protocol.failure(http.StatusRequestEntityTooLarge, "",
			fmt.Sprintf("The request is larger than %d bytes.", tooLarge.Limit)), outcomeRejected
	}
	if err != nil {
		return reply{}, outcomeLost
	}
	if s.signatures != nil {
		if refusal := s.signatures.check(r, body, arrived); refusal != nil {
			return s.protocol.failure(http.StatusBadRequest, refusal.code, refusal.message), outcomeRejected
		}
	}
	if p.action == actHang {
		<-r.Context().Done()
		return reply{}, outcomeLost
	}
	if !wait(r.Context(), p.delay) {
		return reply{}, outcomeLost
	}
	switch p.action {
	case actThrottle:
		rep := s.protocol.throttled(p.retryAfter)
		if p.retryAfter > 0 {
			rep.setHeader("Retry-After", strconv.Itoa(p.retryAfter))
		}
		return rep, outcomeThrottled
	case actFail:
		return s.protocol.failure(p.status, "", "The simulator was told to fail this request."), outcomeFailed
	case actScript:
		return p.step.reply(s.protocol), p.step.outcome()
	case actAnswer, actLose, actHang, actRefuse: // The last two ended above.
	}
	rep := s.protocol.answer(r.Context(), &call{request: r, operation: op, body: body, plan: p, ids: ids})
	for name, value := range p.step.Headers {
		rep.setHeader(name, value)
	}
	if p.action == actLose || r.Context().Err() != nil {
		return rep, outcomeLost
	}
	return rep, outcomeOf(rep.status)
}

// wait sleeps for d and reports whether ctx outlived it.
func wait(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// hangUp ends the connection without an answer: with a reset when asked to, else with an orderly close.
func hangUp(w http.ResponseWriter, reset bool) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // HTTP/2 has no connection to take over; the server resets the stream.
	}
	if tcp, ok := conn.(*net.TCPConn); ok && reset {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

func (s *Server) serveStats(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", http.MethodGet)
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	_ = enc.Encode(s.Stats()) // Only a reader that has gone can make this fail.
}
