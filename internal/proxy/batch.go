package proxy

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/ocr-proxy/ocr-proxy/internal/classify"
)

// maxBatch bounds the answer that is taken apart into items, in bytes; a larger one is judged as a whole.
const maxBatch = 64 << 20

// batch is what has been read of a call about several items while the missing ones are asked for again.
type batch struct {
	answer  []byte // with every item that came so far in its place
	places  []int  // of the items that are asked for now
	head    *http.Response
	from    *answer // whose bytes answer still is; nil once items were put in
	missing bool    // items are still missing
}

// gather looks into the items of a good answer. Where some failed for reasons that pass, beside others that did not, the verdict asks for
// another attempt, which will carry only those. It may be called for one answer after the other.
func (x *exchange) gather(told *answer, v classify.Verdict) classify.Verdict {
	b := x.account.Provider.Batch
	if b == nil || b.Operation != x.op.Name || told == nil || told.held == nil || told.malformed || told.resp.StatusCode != http.StatusOK {
		return v
	}
	if x.batch == nil && told.fault == nil {
		return v // nothing failed: nothing to take apart
	}
	text, err := told.plain()
	if err != nil {
		return v
	}
	if x.batch == nil {
		x.batch = &batch{answer: text, head: told.resp, from: told}
	} else {
		merged, err := b.Merge(x.batch.answer, text, x.batch.places)
		if err != nil {
			return v // what came is no part of this batch; the verdict on it stands
		}
		x.batch.answer, x.batch.from = merged, nil
	}
	failed, items, err := b.Failed(x.batch.answer)
	if err != nil {
		x.batch = nil
		return v
	}
	var again []int
	asking := classify.Verdict{Class: classify.Transient, Wait: v.Wait, Aside: true, Reason: "some items of the batch failed for reasons that pass"}
	for _, f := range failed {
		x.account.Metrics.item(f.Class)
		if !f.Class.Retryable() {
			continue
		}
		again = append(again, f.Place)
		if asking.Code == "" || f.Class == classify.Throttle {
			asking.Class, asking.Code = f.Class, f.Code
		}
	}
	x.batch.missing = len(again) > 0
	if len(again) == items {
		x.batch = nil // nothing has come: the call is simply made again
		return v
	}
	if x.batch.missing {
		if request, err := b.Select(x.received(), again); err == nil {
			x.replaced, x.batch.places = request, again
			return asking
		}
	}
	return x.wholeBatch(told)
}

// wholeBatch is the verdict on a batch of which nothing more can be had.
func (x *exchange) wholeBatch(told *answer) classify.Verdict {
	seen := classify.Attempt{Operation: x.op.Name, Sent: true, Status: told.resp.StatusCode, Header: told.resp.Header}
	var fault classify.Fault
	if f, err := Look(x.account.Provider, x.op.Name, "", bytes.NewReader(x.batch.answer)); err == nil && f != nil {
		fault = *f
	}
	return classify.Decide(seen, fault, x.account.Rules, x.account.Provider.Table)
}

// response is the gathered answer for the worker.
func (b *batch) response() *http.Response {
	resp := *b.head
	resp.Header = b.head.Header.Clone()
	resp.Header.Del("Content-Encoding")
	resp.Header.Set("Content-Length", strconv.Itoa(len(b.answer)))
	resp.ContentLength, resp.TransferEncoding = int64(len(b.answer)), nil
	resp.Body = io.NopCloser(bytes.NewReader(b.answer))
	return &resp
}

// plain is a whole answer without its content encoding.
func (t *answer) plain() ([]byte, error) {
	body := t.held.Open()
	defer func() { _ = body.Close() }()
	var r io.Reader = body
	switch strings.ToLower(t.resp.Header.Get("Content-Encoding")) {
	case "", "identity":
	case "gzip":
		z, err := gzip.NewReader(body)
		if err != nil {
			return nil, err
		}
		r = z
	default:
		return nil, errors.ErrUnsupported
	}
	text, err := io.ReadAll(io.LimitReader(r, maxBatch+1))
	if err == nil && len(text) > maxBatch {
		err = errors.ErrUnsupported
	}
	return text, err
}

// received is the body as the worker sent it, in one piece; nil when it cannot be read.
func (x *exchange) received() []byte {
	if x.body == nil {
		return nil
	}
	if text, ok := x.body.Bytes(); ok {
		return text
	}
	r := x.body.Open()
	defer func() { _ = r.Close() }()
	text, err := io.ReadAll(r)
	if err != nil {
		return nil
	}
	return text
}
