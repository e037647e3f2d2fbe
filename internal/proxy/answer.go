package proxy

import (
	"bytes"
	"io"
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/ocr-proxy/ocr-proxy/internal/spool"
)

const (
	// maxErrorPrefix is how much of an error's body the classifier sees, in bytes.
	maxErrorPrefix = 64 << 10
	// maxKept is how large an error may be to be kept through a wait, in bytes: thousands of requests may be waiting.
	maxKept = 16 << 10
	// maxDrain is how much of an unwanted body is read so that its connection can be used again; beyond it a new connection is cheaper.
	maxDrain = 256 << 10
	// drainTime bounds that reading.
	drainTime = 250 * time.Millisecond
	// maxJudged bounds each value that is picked out of an answer, in bytes.
	maxJudged = 1000

	malformedOutput = "malformed_output"
)

// answer is what the provider said to one attempt, held open until it is passed on or given up.
type answer struct {
	resp    *http.Response
	clock   *clock
	held    *spool.Body // the whole body, read before anything was decided; nil: none
	decoded []byte      // an error's body as the classifier reads it
	streams bool        // the body goes to the worker as it comes

	// complete: the whole error is in memory and its connection free again. It can be kept through a wait, in case there is no further attempt.
	complete bool

	insight             // into a good answer
	looked  bool        // there is one: it was what it should be and could be read
	rpc     *rpcEnd     // of a gRPC answer; nil: it is none
	done    func(error) // settles a streaming answer
	closed  bool
}

// read takes in what must be known before the attempt can be judged.
func (t *answer) read(x *exchange) error {
	switch {
	case t.resp.StatusCode >= http.StatusBadRequest:
		return t.readError()
	case x.rpc != nil:
		return t.readRPC(x)
	case t.empty():
		return nil
	case (x.op.Judged || x.flight != nil || x.starts()) && maybeJSON(t.resp.Header):
		return t.readWhole(x)
	}
	t.streams = true
	t.clock.extend()
	if mediaType(t.resp.Header) == "text/event-stream" {
		return nil // its first byte may be long in coming, and its head must not wait for it
	}
	body, err := begin(t.resp.Body, x.account.CopyBuffers)
	if err != nil {
		return err
	}
	t.resp.Body = body
	return nil
}

func (t *answer) empty() bool {
	return t.resp.Body == http.NoBody || t.resp.ContentLength == 0 || t.resp.Request.Method == http.MethodHead ||
		t.resp.StatusCode == http.StatusNoContent || t.resp.StatusCode == http.StatusNotModified
}

// readError reads the beginning of an error and puts it back: the worker gets every byte as it was.
func (t *answer) readError() error {
	body := t.resp.Body
	prefix, err := io.ReadAll(io.LimitReader(body, maxErrorPrefix))
	if err != nil {
		return err
	}
	if len(prefix) <= maxKept { // less than was asked for: this is its end
		t.complete = true
		_ = body.Close()
		t.resp.Body = io.NopCloser(bytes.NewReader(prefix))
		t.clock.stop()
	} else {
		t.resp.Body = &joined{Reader: io.MultiReader(bytes.NewReader(prefix), body), Closer: body}
	}
	t.decoded = Decode(t.resp.Header.Get("Content-Encoding"), prefix)
	return nil
}

// readWhole reads a judged answer to its end, looks into it, and puts it back. One that is larger than any request may be is passed on
// unjudged as it comes.
func (t *answer) readWhole(x *exchange) error {
	size := t.resp.ContentLength
	if size > x.account.MaxBody {
		size = -1
	}
	t.held = x.account.Bodies.Body(size)
	t.held.Limit(math.MaxInt64)
	if _, err := t.held.ReadFrom(io.LimitReader(t.resp.Body, x.account.MaxBody)); err != nil {
		return err
	}
	if t.held.Size() == x.account.MaxBody {
		rest, err := begin(t.resp.Body, x.account.CopyBuffers)
		if err != nil {
			return err
		}
		t.streams = true
		t.clock.extend()
		t.resp.Body = &joined{Reader: io.MultiReader(t.held.Open(), rest), Closer: rest}
		return nil
	}
	_ = t.resp.Body.Close() // read to its end
	t.resp.Body = t.held.Open()
	if t.held.Size() == 0 || !x.op.Judged || !isJSON(t.resp.Header) {
		return nil
	}
	body := t.held.Open()
	defer func() { _ = body.Close() }()
	t.insight, t.looked = look(t.clock.ctx, x.account.Provider, &x.account.Scrutiny, x.op.Name, t.resp.Header, body), true
	return nil
}

// whenDone has done called once, when the streaming answer has ended: nil when the worker was given all of it.
func (t *answer) whenDone(done func(error)) {
	t.done = done
	t.resp.Body = &stream{body: t.resp.Body, answer: t}
}

// finish settles a streaming answer, once.
func (t *answer) finish(err error) {
	if t.done != nil {
		done := t.done
		t.done = nil
		done(err)
	}
	t.clock.stop()
}

// discard gives an answer up. So much of it is read as is worth it to keep the connection.
func (t *answer) discard() {
	if t.closed {
		return
	}
	t.closed = true
	if !t.streams && !t.complete && t.held == nil {
		t.clock.timer.Reset(drainTime)
		_, _ = io.CopyN(io.Discard, t.resp.Body, maxDrain)
	}
	_ = t.resp.Body.Close()
	if t.held != nil {
		t.held.Release()
	}
	t.finish(nil)
}

// mediaType is the content type without its parameters, in lower case where that costs nothing.
func mediaType(h http.Header) string {
	media, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	return strings.ToLower(strings.TrimSpace(media))
}

// isJSON reports whether an answer says that it is JSON.
func isJSON(h http.Header) bool {
	media := mediaType(h)
	return media == "application/json" || strings.HasSuffix(media, "+json") || strings.HasPrefix(media, "application/x-amz-json")
}

// maybeJSON is isJSON or an answer that does not say what it is.
func maybeJSON(h http.Header) bool { return h.Get("Content-Type") == "" || isJSON(h) }
