package proxy

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"

	"github.com/google/uuid"

	"github.com/ocr-proxy/ocr-proxy/internal/fingerprint"
	"github.com/ocr-proxy/ocr-proxy/internal/jsonstream"
	"github.com/ocr-proxy/ocr-proxy/internal/provider"
	"github.com/ocr-proxy/ocr-proxy/internal/scrub"
)

// maxTokened bounds the job start that a token is looked for and put into, in bytes. Job starts name their document and do not carry it.
const maxTokened = 1 << 20

// prepare looks for the idempotency token of a job start and puts one in where it is missing, so that a repetition cannot start a second
// job.
func (x *exchange) prepare(out *http.Request) {
	if x.listener.Idempotency.Header != "" {
		x.prepareHeader(out)
		return
	}
	field := x.listener.Provider.TokenField
	if field == "" || x.op.Repeat != provider.WithToken {
		return
	}
	body := x.received(maxTokened)
	if body == nil {
		return
	}
	found, err := jsonstream.Pick(bytes.NewReader(body), []string{field}, maxInstruction)
	if err != nil {
		return // no JSON: the provider says so better than we could
	}
	x.given = found.String(field)
	if x.resent.anew() && x.op.Tokened && found.Has(field) { // the token that it carries names the job that failed
		x.given = ""
	} else if x.tokened = x.given != ""; x.tokened || found.Has(field) || !x.op.Tokened || x.listener.Injection == InjectNever && x.resent.token() == "" {
		return
	}
	if x.token = x.resent.token(); x.token == "" {
		keys, err := x.identify()
		if err != nil {
			return
		}
		x.token = newToken(keys.Fingerprint, x.callIdentity())
	}
	value, err := json.Marshal(x.token)
	if err == nil {
		x.replaced, err = provider.WithMember(body, field, value)
	}
	if x.tokened = err == nil; !x.tokened {
		x.token = "" // it did not go in
	}
}

// callIdentity tells one call from the next about the same object, which may have been overwritten in between: the SDK's id of the call,
// which its own retries share, else the worker's name for the document, else nothing that anybody else has.
func (x *exchange) callIdentity() string {
	if x.resent != nil {
		return x.resent.identity()
	}
	if x.listener.Injection == InjectContent {
		return ""
	}
	name := x.callName()
	if name == "" {
		return uuid.NewString()
	}
	if x.starts() {
		if key, err := x.callKey(); err == nil {
			name += x.failedJobs(key) // under its token the provider would only name that job again
		}
	}
	return name
}

// callName is what a call is known by, after a restart too: the SDK's id of it, else the worker's name for the document; "": nothing.
func (x *exchange) callName() string {
	return cmp.Or(x.in.Header.Get(x.listener.Provider.CallID), x.ask.documentID)
}

// Idempotency is how a call of an engine without an adapter carries an idempotency token.
type Idempotency struct {
	Header string // the header's name; "": none is put in
	Bare   bool   // the value is the token itself; else it is a quoted string, as the header Idempotency-Key is specified
}

// prepareHeader puts an idempotency token into the header of a POST that has none. With one, the worker's or ours, the call may be repeated;
// without one it is treated as work that must not be done twice.
func (x *exchange) prepareHeader(out *http.Request) {
	if x.in.Method != http.MethodPost {
		return
	}
	as := x.listener.Idempotency
	x.op.Repeat = provider.WithToken
	x.token = x.in.Header.Get(as.Header)
	if again := x.resent.token(); x.token == "" && again != "" {
		x.token = again
		out.Header.Set(as.Header, again)
	}
	if x.token == "" && x.listener.Injection != InjectNever {
		keys, err := x.identify()
		if err != nil {
			return
		}
		x.token = newToken(keys.Fingerprint, x.callIdentity())
		if !as.Bare {
			x.token = `"` + x.token + `"`
		}
		out.Header.Set(as.Header, x.token)
	}
	x.tokened = x.token != ""
}

// newToken is 64 characters of [0-9a-f]: within what AWS takes.
func newToken(print, identity string) string {
	sum := sha256.Sum256([]byte(print + "\n" + identity))
	return hex.EncodeToString(sum[:])
}

// identify computes the names of the document and of the request, once, and only when something asks: a hash costs as much as a send. It may
// be called by others who want to know whether they make the same call.
func (x *exchange) identify() (fingerprint.Keys, error) {
	x.keysOnce.Do(func() { x.keys, x.keysErr = x.computeKeys() })
	return x.keys, x.keysErr
}

func (x *exchange) computeKeys() (fingerprint.Keys, error) {
	r := fingerprint.Request{
		Kind:              x.listener.Provider.Name,
		Operation:         x.op.Name,
		Method:            x.in.Method,
		Path:              x.in.URL.EscapedPath(),
		RawQuery:          x.in.URL.RawQuery,
		ContentType:       x.in.Header.Get("Content-Type"),
		ProcessingVersion: cmp.Or(x.ask.version, x.listener.Version),
		Body:              func() (io.ReadCloser, error) { return x.openReceived(), nil },
	}
	if x.rpc != nil {
		return x.messageKeys(r)
	}
	return fingerprint.Compute(r, x.listener.Provider.Layout, scrub.Param)
}
