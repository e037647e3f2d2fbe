package proxy

import (
	"fmt"
	"io"
	"net/http"
	"slices"

	"github.com/ocr-proxy/ocr-proxy/internal/classify"
	"github.com/ocr-proxy/ocr-proxy/internal/fingerprint"
	"github.com/ocr-proxy/ocr-proxy/internal/precheck"
	"github.com/ocr-proxy/ocr-proxy/internal/provider"
	"github.com/ocr-proxy/ocr-proxy/internal/retry"
	"github.com/ocr-proxy/ocr-proxy/internal/spool"
)

// Precheck says how documents are looked at before they are sent.
type Precheck struct {
	Skip []precheck.Check // that are not made
}

// precheck refuses a call whose document no repetition and no provider can read, before an attempt is made. A call about several is refused only
// when all are hopeless: else it would cost the others. A replay is sent as it is, since whoever asks for it has seen what is said of it.
func (x *exchange) precheck() *refusal {
	p := x.listener.Precheck
	if p == nil || x.body == nil || x.resent != nil || x.stop == retry.Canceled || x.in.Header.Get("Content-Encoding") != "" {
		return nil
	}
	checks, known := x.listener.Provider.Checks[x.op.Name]
	if !known {
		return nil
	}
	documents := x.documents(checks)
	defer x.releaseDocuments(documents)
	skip := slices.Concat(p.Skip, checks.Unsure)
	var first precheck.Finding
	for i, d := range documents {
		found, hopeless := precheck.Inspect(x.in.Context(), d, d.Size(), checks.Limits, skip)
		if hopeless && found.Check == precheck.Pages && checks.Selects != nil && x.selectsPages(checks) {
			found, hopeless = precheck.Inspect(x.in.Context(), d, d.Size(), checks.Limits, append(skip, precheck.Pages))
		}
		if !hopeless {
			return nil
		}
		if i == 0 {
			first = found
		}
	}
	if len(documents) == 0 {
		return nil
	}
	x.hopeless = classify.Verdict{Class: classify.Permanent, Code: first.Reason(), Message: first.Message, Reason: "precheck." + string(first.Check)}
	return &refusal{
		status: http.StatusUnprocessableEntity, reason: first.Reason(), kept: true,
		message: fmt.Sprintf("%s; nothing was sent, and the check is called %s", first.Message, first.Check),
	}
}

func (x *exchange) selectsPages(checks provider.Checks) bool {
	body := x.openReceived()
	defer func() { _ = body.Close() }()
	return checks.Selects(x.in.URL.RawQuery, body)
}

// documents are those that the call carries: the body itself, or copies of what is embedded in it, decoded. There are none where one of them
// lies elsewhere, cannot be decoded or cannot be kept. All but the body are the caller's to release.
func (x *exchange) documents(checks provider.Checks) []*spool.Body {
	request := fingerprint.Request{ContentType: x.in.Header.Get("Content-Type"), Body: func() (io.ReadCloser, error) { return x.openReceived(), nil }}
	if x.rpc == nil && checks.Itself && fingerprint.Itself(request.ContentType) {
		return []*spool.Body{x.body}
	}
	return x.extract(func(next func() io.Writer) (bool, error) {
		if x.rpc != nil {
			return fingerprint.ExtractMessage(request, x.rpc.coding, x.rpc.kind.Documents(x.op.Name), next), nil
		}
		return fingerprint.Extract(request, x.listener.Provider.Layout, next)
	})
}

// extract makes copies of documents; none where one of them cannot be had as a whole.
func (x *exchange) extract(from func(next func() io.Writer) (bool, error)) []*spool.Body {
	var found []*spool.Body
	kept := true
	ok, err := from(func() io.Writer {
		found = append(found, x.listener.Bodies.Body(-1))
		return found[len(found)-1]
	})
	for _, d := range found {
		d.Finish(err)
		_, failed := d.ReadAt(nil, 0) // a write that failed is remembered
		kept = kept && failed == nil
	}
	if ok && err == nil && kept {
		return found
	}
	x.releaseDocuments(found)
	return nil
}

// releaseDocuments lets go of documents that are not the body itself.
func (x *exchange) releaseDocuments(documents []*spool.Body) {
	for _, d := range documents {
		if d != x.body {
			d.Release()
		}
	}
}
