// Package proxy carries workers' calls to their provider and is the only package that does I/O with one. It reads one request, tries it
// until it has a final answer or a reason to stop, and makes sure that a document that could not be read lies in a dead letter before the
// worker is told.
package proxy

import (
	"context"
	"errors"
	"hash/maphash"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"time"

	"go.uber.org/zap"

	"github.com/ocr-proxy/ocr-proxy/internal/breaker"
	"github.com/ocr-proxy/ocr-proxy/internal/calls"
	"github.com/ocr-proxy/ocr-proxy/internal/classify"
	"github.com/ocr-proxy/ocr-proxy/internal/clients"
	"github.com/ocr-proxy/ocr-proxy/internal/credential"
	"github.com/ocr-proxy/ocr-proxy/internal/dlq"
	"github.com/ocr-proxy/ocr-proxy/internal/pace"
	"github.com/ocr-proxy/ocr-proxy/internal/provider"
	"github.com/ocr-proxy/ocr-proxy/internal/retry"
	"github.com/ocr-proxy/ocr-proxy/internal/spool"
	"github.com/ocr-proxy/ocr-proxy/internal/trace"
	"github.com/ocr-proxy/ocr-proxy/internal/watch"
)

// Ambiguity says what to do when the provider may have done the work of an attempt although no answer says so.
type Ambiguity uint8

// The policies, as the key retry.ambiguous names them.
const (
	RepeatSafe   Ambiguity = iota // repeat what costs nothing lasting: reads, synchronous analyses, job starts under a token
	RepeatNever                   // repeat nothing
	RepeatAlways                  // repeat everything
)

// Injection says whether job starts without an idempotency token get one.
type Injection uint8

// The choices, as the key inject_token names them.
const (
	InjectPerCall Injection = iota // derived from the content and the identity of the call
	InjectContent                  // derived from the content alone
	InjectNever
)

// Policy is how one operation is tried.
type Policy struct {
	retry.Policy
	AttemptTimeout      time.Duration // of one attempt, without the body's share
	AttemptTimeoutPerMB time.Duration // added for each MiB of body
	UnknownRetries      int           // tries after the first for answers of class unknown
	Ambiguous           Ambiguity
	PurseRatio          float64 // see retry.Purse
	PurseFloor          int
}

// attemptTimeout is the time of one attempt with a body of that many bytes.
func (p Policy) attemptTimeout(size int64) time.Duration {
	const mib = 1 << 20
	return p.AttemptTimeout + time.Duration(float64(p.AttemptTimeoutPerMB)*float64(size)/mib)
}

// leastAttempt is the least time that an attempt must have to be worth its call. One that is cut off before the provider could answer is
// paid for all the same.
func (p Policy) leastAttempt() time.Duration { return min(time.Second, p.Total/20) }

// ErrShutdown is why the context of a request ends when the proxy does.
var ErrShutdown = errors.New("the proxy is shutting down")

// Sink takes dead letters. Put is durable when it returns and gives the letter's id, which is an older one when the letter repeats it.
type Sink interface {
	Put(ctx context.Context, e *dlq.Envelope, body io.Reader) (id string, err error)
}

// Account is everything that the requests of one listener share. Its fields are set before it serves and not changed afterwards: other settings
// are another Account over the same state, see [Live].
type Account struct {
	Name     string
	Provider *provider.Provider
	Upstream *url.URL // scheme and host of the provider, and a path that is put before every request's own

	Policy    func(operation string) Policy
	Rules     classify.Table // the operator's, before the provider's
	Injection Injection
	// OnSustained says what follows from an outage that lasts, beside that people are told.
	OnSustained OnSustained
	// Scrutiny says which good answers a person should look at.
	Scrutiny Scrutiny
	// RepairPages asks once more for pages that an answer lacks, where the kind can say which.
	RepairPages bool
	// Precheck looks at documents before they are sent; nil: nothing does.
	Precheck *Precheck
	// Idempotency is for kinds that know no token of their own; the zero value puts none in.
	Idempotency Idempotency
	Credential  *credential.Credential
	// ReplayCredential is what replays are made with, since a worker's own credential is in no dead letter; nil: Credential.
	ReplayCredential *credential.Credential
	// Self is scheme, host and port of the listener, under which the result of a replay says where a job is polled; "": as the provider says.
	Self string

	// Names are the host names by which the listener may be called; nil: any.
	Names *Names
	// Clients are the tokens of those who may use the listener; nil: whoever reaches it may.
	Clients *clients.Tokens
	// Observe makes the account change nothing and tell what it would do; nil: it acts.
	Observe *Observer

	Breakers       *breaker.Group
	HoldOpen       bool // wait for an open circuit to close, within the budget, instead of refusing
	Queues         *pace.Queues
	Permits        *pace.Permits // of open jobs
	Adaptive       bool          // the queues learn their rate from throttles
	TripOnThrottle bool          // throttles count as failures of the account instead of holding others
	Purse          *retry.Purse

	// Group is the accounts that calls to this listener may go to; nil: this one alone.
	Group *Group

	Calls *calls.Table // of calls that may be made again; nil: none is remembered
	Jobs  *dlq.Store   // keeps the journal of jobs; nil: there is none

	Transport http.RoundTripper
	// GRPCTransport is the way of gRPC calls; nil where the kind has no gRPC form.
	GRPCTransport http.RoundTripper

	Bodies      *spool.Pool
	MaxBody     int64 // bytes; a larger request body is refused
	CopyBuffers httputil.BufferPool
	Sink        Sink
	Letters     *dlq.OpenLetters // that a good answer resolves; nil: none does
	Version     string           // the default processing version of dead letters
	Metrics     *AccountMetrics
	Tracer      *trace.Tracer  // makes spans of requests; nil: nothing is traced
	Watch       *watch.Account // notices trouble that people must hear of; nil: nothing does
	Log         *zap.Logger
	ErrorLog    *log.Logger // for the standard library, whose remarks the request's own line makes with everything around it
	// Ending ends when the proxy's time to drain is over, with ErrShutdown as its cause: whatever waits or runs then is told so and buried. It is
	// the parent of every worker's context, too.
	Ending context.Context //nolint:containedctx // it is the life of the process, and no call's
	// Seed keys the hashes by which credentials are told apart.
	Seed maphash.Seed

	fields fieldPool
}

// OnSustained is what follows when a circuit has been open for more than two reset timeouts.
type OnSustained uint8

// The consequences, as the key breaker.on_sustained names them.
const (
	Alert    OnSustained = iota // people are told; accounts to fall back to are asked as soon as a circuit is open
	ToPeople                    // documents that the circuit refuses are for people: nobody sends them again by himself
	FallBack                    // accounts to fall back to are asked for an open circuit only from then on
)
