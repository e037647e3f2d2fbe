package proxy

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/ocr-proxy/ocr-proxy/internal/fingerprint"
	"github.com/ocr-proxy/ocr-proxy/internal/grpcwire"
	"github.com/ocr-proxy/ocr-proxy/internal/provider"
	"github.com/ocr-proxy/ocr-proxy/internal/retry"
)

// rpc is what a gRPC call is beside an HTTP request. It runs through the same loop: here and in the files beside this one it is only told how
// the call's head, body and answer say what REST says with paths, statuses and JSON.
type rpc struct {
	kind    *provider.GRPC
	timeout time.Duration // what is left of the worker's own deadline; 0: it has none
	coding  string        // how the request's message is compressed, if it is
}

const grpcMedia = "application/grpc"

// Protocols are what the listener of a kind that speaks gRPC takes: HTTP/1.1 and HTTP/2, which gRPC's clients speak without asking first.
func Protocols() *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(true)
	p.SetHTTP2(true)
	p.SetUnencryptedHTTP2(true)
	return p
}

// admitRPC recognises a gRPC call from its head. One that cannot be carried is refused before its message is asked for.
func (x *exchange) admitRPC() *refusal {
	r := x.in
	if !provider.IsGRPC(r.Header) {
		return nil
	}
	unsupported := func(message string) *refusal {
		return &refusal{status: http.StatusUnsupportedMediaType, reason: "grpc_unsupported", message: message}
	}
	if r.ProtoMajor < 2 {
		return unsupported("gRPC needs HTTP/2, which this request does not use")
	}
	x.rpc = &rpc{kind: x.account.Provider.GRPC, coding: r.Header.Get("Grpc-Encoding")}
	switch {
	case x.rpc.kind == nil:
		return unsupported("gRPC is not carried for providers of the kind " + x.account.Provider.Name + "; use its HTTP API")
	case r.Method != http.MethodPost:
		return &refusal{status: http.StatusBadRequest, reason: "bad_method", message: "a gRPC call is a POST"}
	case x.rpc.kind.Streams(r.URL.Path):
		return x.noStreams()
	}
	if value := r.Header.Get("Grpc-Timeout"); value != "" {
		d, ok := grpcwire.Timeout(value)
		if !ok {
			return &refusal{status: http.StatusBadRequest, reason: "bad_header", message: "grpc-timeout must be one to eight digits and a unit, and above zero"}
		}
		x.rpc.timeout = d - min(d/20, answerTime)
	}
	return nil
}

// answerTime bounds the part of a worker's deadline, a twentieth, that is kept for writing the dead letter and the answer: a worker whose
// deadline has passed hangs up and learns nothing.
const answerTime = 500 * time.Millisecond

// noStreams refuses a call of a streaming method.
func (x *exchange) noStreams() *refusal {
	return &refusal{
		status: http.StatusUnsupportedMediaType, reason: "grpc_streaming",
		message: "streaming gRPC methods are not carried; use a unary method, or REST: " + x.rpc.kind.REST,
	}
}

// operation names the call.
func (x *exchange) operation() provider.Operation {
	if x.rpc != nil {
		return x.rpc.kind.Operation(x.in.URL.Path)
	}
	return x.account.Provider.Operation(x.in)
}

// limit is the request's time as the worker restricts it.
func (x *exchange) limit(total time.Duration) time.Duration {
	if x.ask.timeout > 0 {
		total = min(total, x.ask.timeout)
	}
	if x.rpc != nil && x.rpc.timeout > 0 {
		total = min(total, x.rpc.timeout)
	}
	return total
}

// attemptsEnd is when the last attempt is over. A gRPC worker enforces its deadline itself, so that an attempt that is paid for in any case need
// not be cut off for it: what comes later is kept for the worker's next call. No attempt begins, and nothing is waited for, after the deadline.
func (x *exchange) attemptsEnd() time.Time {
	if x.rpc == nil || x.flight == nil || x.ask.timeout > 0 {
		return x.deadline()
	}
	return x.start.Add(x.listener.Policy(x.op.Name).Total)
}

// oneMessage refuses a body that is not exactly one message.
func (x *exchange) oneMessage() *refusal {
	if x.rpc == nil || x.stop == retry.Canceled {
		return nil
	}
	body := x.openReceived()
	defer func() { _ = body.Close() }()
	var size int64
	if x.body != nil {
		size = x.body.Size()
	}
	err := grpcwire.Check(body, size)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, grpcwire.ErrSeveral):
		return x.noStreams()
	}
	return &refusal{status: http.StatusBadRequest, reason: "bad_message", message: err.Error()}
}

// batchRules say how the call is made again for some of its items; nil: it is not.
func (x *exchange) batchRules() *provider.Batch {
	if x.rpc != nil {
		return x.rpc.kind.Batch
	}
	return x.account.Provider.Batch
}

// messageKeys names the document and the request of a gRPC call.
func (x *exchange) messageKeys(r fingerprint.Request) (fingerprint.Keys, error) {
	return fingerprint.Message(r, x.rpc.coding, x.rpc.kind.Documents(x.op.Name))
}

// transport is the way to the provider.
func (x *exchange) transport() http.RoundTripper {
	if x.rpc != nil {
		return x.account.GRPCTransport
	}
	return x.account.Transport
}

// tell writes a failure of the proxy's own in the shape that the worker's library reads. A gRPC answer of that kind has nothing but a head.
func (x *exchange) tell(p provider.Problem) (status int, header http.Header, body []byte) {
	if x.rpc == nil {
		header, body = x.account.Provider.Problem(p)
		return p.Status, header, body
	}
	header = http.Header{"Content-Type": {grpcMedia}}
	grpcwire.Status{
		Code: problemCode(p), Message: p.Message,
		Details: []grpcwire.Detail{{Type: "type.googleapis.com/google.rpc.ErrorInfo", Value: errorInfo(p.Reason)}},
	}.Write(header)
	return http.StatusOK, header, nil
}

// errorInfo is a google.rpc.ErrorInfo.
func errorInfo(reason string) []byte {
	return grpcwire.AppendBytes(grpcwire.AppendBytes(nil, 1, []byte(strings.ToUpper(reason))), 2, []byte("ocr-proxy"))
}

// problemCode is the canonical code of a failure of the proxy's own. Google's libraries repeat calls that end with UNAVAILABLE,
// DEADLINE_EXCEEDED or RESOURCE_EXHAUSTED, so that what must not come again has another code: above all a call that may have been done.
func problemCode(p provider.Problem) int {
	switch p.Reason {
	case "not_safe", string(Permanent):
		return grpcwire.Internal
	case "hint_too_long":
		return grpcwire.ResourceExhausted
	}
	switch p.Status {
	case http.StatusUnauthorized:
		return grpcwire.Unauthenticated
	case http.StatusForbidden:
		return grpcwire.PermissionDenied
	case http.StatusServiceUnavailable, http.StatusBadGateway:
		return grpcwire.Unavailable
	case http.StatusGatewayTimeout, http.StatusRequestTimeout:
		return grpcwire.DeadlineExceeded
	case http.StatusUnsupportedMediaType:
		return grpcwire.Unimplemented
	case http.StatusBadRequest, http.StatusUnprocessableEntity, http.StatusRequestEntityTooLarge:
		return grpcwire.InvalidArgument
	}
	return grpcwire.Internal
}
