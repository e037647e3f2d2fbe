// Package provider holds what is true of one OCR vendor only, one file a vendor: its operations, where its requests carry documents and
// credentials, what its errors mean and what they look like. It is data and pure functions: no state, no I/O.
package provider

import (
	"io"
	"net/http"

	"github.com/ocr-proxy/ocr-proxy/internal/classify"
	"github.com/ocr-proxy/ocr-proxy/internal/fingerprint"
	"github.com/ocr-proxy/ocr-proxy/internal/jsonstream"
	"github.com/ocr-proxy/ocr-proxy/internal/precheck"
)

// Repeat says when a call may be made a second time after its request has left.
type Repeat uint8

// The kinds of repetition. The zero value is the careful one.
const (
	// IfUnsent is a call that starts billed work which nothing tells apart from a second start: it is repeated only when the request did not
	// leave, or when the provider answered that it took nothing.
	IfUnsent Repeat = iota
	// WithToken is a call that may be repeated when its body carries the provider's idempotency token.
	WithToken
	// Always is a call without lasting effect: reading, or a synchronous analysis, which a second call merely bills again.
	Always
)

// Operation is one call of a provider's API.
type Operation struct {
	// Name is the provider's own name for it, from the adapter's declared list: it becomes a metric label and the scope of throttles.
	Name   string
	Repeat Repeat
	// Judged marks operations whose good answers are JSON and are read to their end before they are passed on: their content can tell of a
	// failure.
	Judged bool
	// Tokened marks job starts that take the provider's idempotency token.
	Tokened bool
}

// Other names every call that an adapter does not know.
const Other = "other"

// other is the operation of an unknown call. Reading methods may be repeated; anything else only if it did not leave.
func other(method string) Operation {
	op := Operation{Name: Other}
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		op.Repeat = Always
	}
	return op
}

// Problem is a failure that the proxy itself has to tell the worker about.
type Problem struct {
	Status  int    // HTTP status of the answer
	Message string // one sentence for the person who reads the worker's log; never a secret
	Reason  string // a fixed word, such as "circuit_open"
}

// Checks is what one operation takes, as far as the vendor says so: what is not known is not enforced.
type Checks struct {
	precheck.Limits

	// Itself says that a body which is no form and no JSON is the document.
	Itself bool
	// Selects reports whether a call asks for some pages of its document only, so that the number of all pages is no reason to refuse it. It is
	// asked only about documents that have too many; nil: calls that select pages are limited by all of them, or none can.
	Selects func(rawQuery string, body io.Reader) bool
	// Unsure are the checks whose finding would not be certain.
	Unsure []precheck.Check
}

// Provider is the description of one kind. Every kind has a Name and the functions Operation, Fault and Problem; what nil or empty means for
// the others is said at each.
type Provider struct {
	// Name is the kind, as the configuration spells it.
	Name string
	// Operations are the names that Operation returns, without Other.
	Operations []string
	// Operation recognises a call from its method, path, query and headers.
	Operation func(r *http.Request) Operation
	// Layout says where requests carry documents.
	Layout fingerprint.Layout
	// Checks are the operations whose documents can be looked at before they are sent, with what is known of what they take.
	Checks map[string]Checks
	// TokenField is the JSON field that holds the idempotency token of a job start; "": the provider has none.
	TokenField string
	// Fault reads an error answer (status 400 and above).
	Fault func(a classify.Attempt) classify.Fault
	// Watch are the paths of a good answer that Judge looks at.
	Watch []string
	// Judge finds the failure told inside a good answer; false: there is none. nil: good answers tell of none.
	Judge func(operation string, v jsonstream.Found) (classify.Fault, bool)
	// Words says where good answers hold words and how sure the provider is of each; nil: none of the kind do.
	Words *Words
	// Documents says where good answers hold documents and their fields; nil: none of the kind do.
	Documents *Documents
	// Signs are how good answers say that they are not all that was asked for.
	Signs []Sign
	// Result says where good answers hold what was read of the whole document; nil: nothing is known.
	Result *Result
	// Structured says how calls ask for output that is JSON; nil: none does.
	Structured *Structured
	// Batch says how a call about several items is made again for some of them; nil: no call is.
	Batch *Batch
	// Pages says how a call is made again for some pages of its document; nil: no call is.
	Pages *Pages
	// Charged reads from a request how many pages it is charged for; 0: the request does not tell. nil: none of the kind does.
	Charged func(operation string, body io.Reader) int
	// QuotaPages are the most pages that one call takes of a quota that counts pages: there, a call of many pages takes the place of many in a queue, and
	// one that asks for more has fewer or is refused. 0: the quotas of the kind count calls.
	QuotaPages int
	// Jobs says how calls start jobs and follow them; nil: no call does.
	Jobs *Jobs
	// Portable are the operations that any account of the kind can answer, because what they need comes with the call: Other among them stands
	// for its POSTs. Calls about what one account has, such as files, models and jobs, are not among them. nil: there is none.
	Portable []string
	// GRPC is the kind's gRPC form, for which its listeners take HTTP/2 in the clear, too; nil: it has none.
	GRPC *GRPC
	// Table are the provider's own decisions, first match wins; HTTP's own follow.
	Table classify.Table
	// Problem writes a failure of the proxy's own in the provider's error shape, so that its SDK raises its usual exception.
	Problem func(p Problem) (http.Header, []byte)
	// CallID is the request header in which the provider's SDKs name a call, equal over their own retries; "": they do not.
	CallID string
	// Again reports whether an SDK says that it makes the call once more; nil: none says so.
	Again func(h http.Header) bool
	// Shapes are the request headers that choose what an answer holds, beside those that do everywhere.
	Shapes []string
	// RequestID are the answer headers that hold the provider's id of a call, best first.
	RequestID []string
	// Credentials are the request headers that carry a worker's credential for this provider, beside those that do everywhere.
	Credentials []string
	// ReadsShouldRetry marks kinds whose SDKs obey the header X-Should-Retry.
	ReadsShouldRetry bool
	// RepeatsAnyRetryAfter marks kinds with an SDK that repeats any error which carries Retry-After, permanent ones included.
	RepeatsAnyRetryAfter bool
}
