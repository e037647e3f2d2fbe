package proxy

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/ocr-proxy/ocr-proxy/internal/classify"
	"github.com/ocr-proxy/ocr-proxy/internal/grpcwire"
	"github.com/ocr-proxy/ocr-proxy/internal/provider"
)

// maxBatch bounds the requests and answers that are taken apart into items, in bytes; a larger one is judged as a whole.
const maxBatch = 64 << 20

// batch is what has been read of a call about several items while the missing ones are asked for again.
type batch struct {
	answer []byte // with every item that came so far in its place
	places []int  // of the items that are asked for now
	good   int    // so many items have come
	head   *http.Response
	from   *answer // whose bytes answer still is; nil once items were put in
	insight
}

// codeMismatch is the code of an answer that does not fit the items that were asked for.
const codeMismatch = "batch_mismatch"

// gather looks into the items of an answer. Where some failed for reasons that pass, beside others that did not, the verdict asks for another
// attempt, which will carry only those; while items are missing no answer is a success. It may be called for one answer after the other.
func (x *exchange) gather(told *answer, v classify.Verdict) classify.Verdict {
	b := x.batchRules()
	if b == nil || b.Operation != x.op.Name || x.batch == nil && (told == nil || told.fault == nil) {
		return v // not a batch, or one of which nothing failed
	}
	if told == nil || told.resp.StatusCode != http.StatusOK || told.rpc != nil && told.rpc.status != http.StatusOK {
		return v // news about the call as a whole; what was gathered stays
	}
	failed, items, err := x.putTogether(b, told)
	if err != nil {
		if x.batch == nil {
			return v // it cannot be taken apart: the verdict on the whole stands
		}
		return classify.Verdict{
			Class: classify.Transient, Code: codeMismatch, Message: err.Error(), Aside: true,
			Reason: "the answer does not fit the items that were asked for",
		}
	}
	x.batch.good = items - len(failed)
	var again []int
	asking := classify.Verdict{Class: classify.Transient, Wait: v.Wait, Aside: true, Reason: "some items of the batch failed for reasons that pass"}
	for _, f := range failed {
		if !f.Class.Retryable() {
			continue
		}
		again = append(again, f.Place)
		if asking.Code == "" || f.Class == classify.Throttle {
			asking.Class, asking.Code = f.Class, f.Code
		}
	}
	if len(again) == items {
		x.batch = nil // nothing has come: the call is simply made again
		return v
	}
	if len(again) > 0 {
		if request, err := b.Select(x.received(maxBatch), again); err == nil {
			x.replaced, x.batch.places = request, again
			return asking
		}
	}
	return x.wholeBatch(told)
}

// putTogether puts an answer's items in their places and lists those that failed.
func (x *exchange) putTogether(b *provider.Batch, told *answer) ([]provider.ItemFault, int, error) {
	if told.held == nil || told.malformed {
		return nil, 0, errors.ErrUnsupported
	}
	text, err := told.plain(maxBatch)
	if err != nil {
		return nil, 0, err
	}
	fresh, _, err := b.Failed(text)
	if err != nil {
		return nil, 0, err
	}
	if x.batch == nil {
		x.batch = &batch{answer: text, head: told.resp, from: told}
	} else {
		merged, err := b.Merge(x.batch.answer, text, x.batch.places)
		if err != nil {
			return nil, 0, err
		}
		x.batch.answer, x.batch.from = merged, nil
	}
	for _, f := range fresh {
		x.account.Metrics.item(f.Class)
	}
	return b.Failed(x.batch.answer)
}

// wholeBatch is the verdict on a batch of which nothing more can be had.
func (x *exchange) wholeBatch(told *answer) classify.Verdict {
	seen := classify.Attempt{Operation: x.op.Name, Sent: true, Status: told.resp.StatusCode, Header: told.resp.Header}
	x.batch.insight = x.lookAtBatch()
	return x.account.Scrutiny.review(verdict(x.account.Provider, x.account.Rules, seen, x.batch.insight, time.Now()), x.batch.insight)
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

// plain is a whole answer of at most limit bytes, without its content encoding; of gRPC its message, in a frame without compression.
func (t *answer) plain(limit int64) ([]byte, error) {
	body := t.held.Open()
	defer func() { _ = body.Close() }()
	if t.rpc != nil {
		return grpcwire.Plain(body, t.held.Size(), t.resp.Header.Get("Grpc-Encoding"), limit)
	}
	r, err := decoded(t.resp.Header.Get("Content-Encoding"), body)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(text)) > limit {
		err = errors.ErrUnsupported
	}
	return text, err
}

// received is the body as the worker sent it, in one piece; nil when it is larger than limit bytes or cannot be read.
func (x *exchange) received(limit int64) []byte {
	if x.body == nil || x.body.Expected() > limit {
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

// plainRequest is received without the compression of a gRPC message.
func (x *exchange) plainRequest(limit int64) []byte {
	body := x.received(limit)
	if x.rpc == nil || body == nil {
		return body
	}
	plain, err := grpcwire.Plain(bytes.NewReader(body), int64(len(body)), x.rpc.coding, limit)
	if err != nil {
		return nil
	}
	return plain
}
