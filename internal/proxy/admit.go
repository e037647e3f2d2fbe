package proxy

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/ocr-proxy/ocr-proxy/internal/pace"
	"github.com/ocr-proxy/ocr-proxy/internal/provider"
)

// refusal is why the proxy does not take a request.
type refusal struct {
	status  int
	reason  string // fixed word
	message string
	outcome Outcome       // "": rejected
	kept    bool          // a dead letter is due
	retry   time.Duration // when it makes sense to come back; 0: never as it is
}

// instructions are what the worker tells the proxy in Ocr-Proxy headers.
type instructions struct {
	documentID string
	tenant     string
	priority   pace.Priority
	version    string        // of the processing; "": the configured one
	timeout    time.Duration // 0: none
	join       bool          // the same call under way will do
	unknown    []string      // names that this version does not know
}

const (
	badTarget = "this listener stands for one provider: send a path such as /v1/ocr, neither a whole URL nor CONNECT"

	instructionPrefix = "Ocr-Proxy-"
	maxInstruction    = 256 // bytes
	// lingerTime bounds the reading of a body that was refused before it came.
	lingerTime = 5 * time.Second
)

// admit looks at the head of a request, before a byte of its body is asked for.
func (x *exchange) admit() *refusal {
	r, a := x.in, x.account
	if r.Method == http.MethodConnect || !strings.HasPrefix(r.RequestURI, "/") {
		return &refusal{
			status: http.StatusBadRequest, reason: "bad_target",
			message: badTarget,
		}
	}
	if r.Header.Get("Upgrade") != "" && hasToken(r.Header["Connection"], "upgrade") {
		return &refusal{status: http.StatusBadRequest, reason: "upgrade", message: "protocol upgrades are not carried"}
	}
	if refused := x.admitRPC(); refused != nil {
		return refused
	}
	if refused := x.visitor(); refused != nil {
		return refused
	}
	ask, problem := readInstructions(r.Header)
	if problem != "" {
		return &refusal{status: http.StatusBadRequest, reason: "bad_header", message: problem}
	}
	x.ask = ask
	if x.resent != nil {
		x.ask.priority = pace.Low // nobody waits for it
	}
	if len(ask.unknown) > 0 {
		a.Log.Debug("headers that this version does not know were taken out of a request", zap.String("provider", a.Name), zap.Strings("headers", ask.unknown))
	}
	x.op = x.operation()
	x.op.Judged = x.op.Judged || a.Scrutiny.Actions[provider.URLOnly] != Accept && len(a.Provider.Signs) > 0
	x.policy = a.Policy(x.op.Name)
	x.policy.Total = x.limit(x.policy.Total)
	x.total = x.policy.Total
	x.circuit = a.circuitFor(r)
	if problem := x.credential.Refuses(r.Header); problem != "" {
		return &refusal{status: http.StatusBadRequest, reason: "streaming_signature", message: problem}
	}
	if r.ContentLength > a.MaxBody {
		return &refusal{
			status: http.StatusRequestEntityTooLarge, reason: "body_too_large",
			message: fmt.Sprintf("the body of %d bytes is larger than body.max_bytes, which is %d", r.ContentLength, a.MaxBody),
		}
	}
	if wait := x.refusedFor(); wait > 0 && !a.HoldOpen && r.Header.Get("Expect") != "" {
		// The worker asks before it sends: the refusal saves it the upload. Without its body there is no document to keep.
		a.Breakers.Rejected()
		return &refusal{status: http.StatusServiceUnavailable, reason: "circuit_open", message: circuitOpen, outcome: CircuitOpen, retry: wait}
	}
	if wait, full := x.full(); full {
		return &refusal{status: http.StatusServiceUnavailable, reason: queueFull, message: noRoom, retry: max(wait, time.Second)} // nobody knows when a job ends
	}
	return nil
}

func hasToken(values []string, token string) bool {
	for _, v := range values {
		for t := range strings.SplitSeq(v, ",") {
			if strings.EqualFold(strings.TrimSpace(t), token) {
				return true
			}
		}
	}
	return false
}

// readInstructions reads the worker's Ocr-Proxy headers, or says what is wrong with one. A name that is not known may be that of a newer proxy,
// for which a worker is written that is the same with every version: its value is not looked at.
func readInstructions(h http.Header) (ask instructions, problem string) {
	for name, values := range h {
		word, ours := strings.CutPrefix(name, instructionPrefix)
		if !ours {
			continue
		}
		value := values[0]
		switch word {
		case "Document-Id":
			ask.documentID = value
		case "Tenant":
			ask.tenant = value
		case "Processing-Version":
			ask.version = value
		case "Priority":
			var known bool
			if ask.priority, known = priorityOf(value); !known {
				problem = "must be high, normal or low"
			}
		case "Timeout":
			var err error
			if ask.timeout, err = time.ParseDuration(value); err != nil || ask.timeout <= 0 {
				problem = "must be a duration above zero with a unit, such as 30s"
			}
		case "Join":
			if ask.join = value == "true"; !ask.join && value != "false" {
				problem = "must be true or false"
			}
		default:
			ask.unknown = append(ask.unknown, name)
			continue
		}
		if !printable(value) || len(values) > 1 {
			problem = fmt.Sprintf("must be given once, with 1 to %d printable ASCII characters", maxInstruction)
		}
		if problem != "" {
			return instructions{}, name + " " + problem
		}
	}
	return ask, ""
}

func priorityOf(word string) (pace.Priority, bool) {
	for _, p := range pace.Priorities() {
		if p.String() == word {
			return p, true
		}
	}
	return pace.Normal, false
}

func printable(s string) bool {
	if s == "" || len(s) > maxInstruction {
		return false
	}
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// refuse answers a request that is not taken.
func (x *exchange) refuse(w http.ResponseWriter, r refusal) {
	x.outcome, x.reason, x.status = cmp.Or(r.outcome, Rejected), r.reason, r.status
	if r.kept {
		x.letter = x.bury()
	}
	status, header, body := x.tell(provider.Problem{Status: r.status, Reason: r.reason, Message: r.message})
	x.describe(header, r.retry)
	if r.status == http.StatusUnauthorized {
		header.Set("WWW-Authenticate", "Bearer")
	}
	if x.body == nil {
		// The server reads on before it answers, so that the answer is not lost with the connection; who stalls is not waited for.
		_ = x.control.SetReadDeadline(time.Now().Add(lingerTime)) // a writer without a connection has nothing to bound
	}
	maps.Copy(w.Header(), header)
	w.WriteHeader(status)
	if x.in.Method != http.MethodHead {
		_, _ = w.Write(body) // a worker that has gone needs no answer
	}
}
