package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// stubborn is how long a worker tries to bring one document home before it says that it cannot.
const stubborn = 2 * time.Minute

// hangUps is how those are counted.
const hangUps = "workers that hung up and came back"

// crew is the workers. They hold the gate for reading while they have a document in hand, so that whoever takes it for writing has quiet.
type crew struct {
	addrs   map[string]string // Of the proxy's listeners.
	press   *press
	ledger  *ledger
	gate    sync.RWMutex
	away    atomic.Bool // The proxy is being restarted.
	think   time.Duration
	name    *regexp.Regexp
	plain   *http.Client
	streams *http.Client // HTTP/2 without TLS.
}

func newCrew(addrs map[string]string, p *press, l *ledger, think time.Duration) *crew {
	dial := (&net.Dialer{Timeout: 5 * time.Second}).DialContext
	h2 := &http.Transport{DialContext: dial, DisableCompression: true, Protocols: new(http.Protocols)}
	h2.Protocols.SetUnencryptedHTTP2(true)
	return &crew{
		addrs: addrs, press: p, ledger: l, think: think, name: named(),
		plain:   &http.Client{Transport: &http.Transport{DialContext: dial, DisableCompression: true, MaxIdleConnsPerHost: 64}},
		streams: &http.Client{Transport: h2},
	}
}

// rest closes the workers' idle connections.
func (c *crew) rest() {
	c.plain.CloseIdleConnections()
	c.streams.CloseIdleConnections()
}

// work is the life of one worker: document after document, until ctx ends between two of them.
func (c *crew) work(ctx context.Context, random *rand.Rand) {
	for ctx.Err() == nil {
		c.gate.RLock()
		if ctx.Err() == nil {
			next := c.press.next(random)
			c.bring(next, random)
		}
		c.gate.RUnlock()
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(random.Int64N(int64(2 * c.think)))):
		}
	}
}

// reply is an answer that a worker got whole.
type reply struct {
	status                  int
	outcome, reason, letter string
	location                string // Where the job is polled.
	body                    []byte
}

// bring has one call answered, whatever it takes: it goes again after a connection that broke and after its worker hung up on it, and when the
// call started a job, it asks for the job's end.
func (c *crew) bring(w call, random *rand.Rand) {
	hangsUp := !w.patient && random.IntN(25) == 0
	until := time.Now().Add(stubborn)
	for time.Now().Before(until) {
		c.ledger.sent(w)
		ctx, cancel := context.WithDeadline(context.Background(), until)
		if hangsUp {
			cancel()
			ctx, cancel = context.WithTimeout(context.Background(), time.Duration(5+random.IntN(250))*time.Millisecond)
		}
		r, err := c.send(ctx, w)
		hungUp := ctx.Err() != nil
		cancel()
		switch {
		case err == nil:
			c.judge(w, r, until)
			return
		case hangsUp && hungUp:
			c.ledger.count(hangUps)
			hangsUp = false
			w.header.Set("Ocr-Proxy-Join", "true")
			pause(time.Duration(random.IntN(300)) * time.Millisecond)
		default:
			c.broke(w, err)
		}
	}
	c.ledger.wrong(fmt.Sprintf("%s (%s): no answer within %s", w.documents[0], w.account, stubborn))
}

// broke is told of a connection on which no answer came. While the proxy is being restarted that is what happens; else it must not.
func (c *crew) broke(w call, err error) {
	switch {
	case errors.Is(err, syscall.ECONNREFUSED) && c.away.Load():
		c.ledger.count("connections refused during restarts")
	case c.away.Load():
		c.ledger.count("connections cut during restarts")
	default:
		c.ledger.wrong(fmt.Sprintf("%s (%s): the proxy broke the connection: %v", w.documents[0], w.account, err))
	}
	pause(50 * time.Millisecond)
}

// judge notes what an answer says of the call's documents.
func (c *crew) judge(w call, r reply, until time.Time) {
	c.ledger.count("outcome " + r.outcome)
	switch {
	case r.letter != "":
		c.ledger.told(w, lettered, r.letter)
	case r.outcome == "rejected":
		c.ledger.told(w, refused, "")
	case r.outcome != "success":
		c.ledger.told(w, unkept, "")
	case w.job == "":
		c.read(w, r)
	default:
		c.poll(w, r, until)
	}
}

// read compares the documents that an answer is about with those that were asked about.
func (c *crew) read(w call, r reply) {
	found := map[string]bool{}
	for _, name := range c.name.FindAll(r.body, -1) {
		found[string(name)] = true
	}
	whole := len(found) == len(w.documents)
	for _, d := range w.documents {
		whole = whole && found[d]
	}
	if !whole {
		c.ledger.wrong(fmt.Sprintf("%v (%s) got an answer about other documents: %v (reason %q, %d bytes)", w.documents, w.account, found, r.reason, len(r.body)))
	}
	if w.hopeless {
		c.ledger.wrong(w.documents[0] + " cannot be read, and was answered")
	}
	c.ledger.told(w, answered, "")
}

// poll asks for the end of a job until it has come.
func (c *crew) poll(w call, started reply, until time.Time) {
	ask := call{account: w.account, documents: w.documents, header: http.Header{}}
	ask.header.Set("Ocr-Proxy-Document-Id", w.documents[0]) // A poll has no document to be known by.
	switch w.job {
	case "azure":
		at, err := url.Parse(started.location)
		if err != nil || at.Host != c.addrs[w.account] {
			c.ledger.wrong(fmt.Sprintf("%s: its job is to be polled at %q", w.documents[0], started.location))
			return
		}
		ask.path = at.RequestURI()
	default:
		var in struct{ JobId string } //nolint:revive // It is the provider's spelling.
		if json.Unmarshal(started.body, &in) != nil || in.JobId == "" {
			c.ledger.wrong(w.documents[0] + ": its start brought no job")
			return
		}
		ask.path = "/"
		ask.header.Set("Content-Type", "application/x-amz-json-1.1")
		ask.header.Set("X-Amz-Target", "Textract.GetDocumentTextDetection")
		ask.body = fmt.Appendf(nil, `{"JobId":"%s"}`, in.JobId)
	}
	for time.Now().Before(until) {
		ctx, cancel := context.WithDeadline(context.Background(), until)
		r, err := c.send(ctx, ask)
		cancel()
		var state struct{ Status, JobStatus string }
		switch {
		case err != nil:
			c.broke(w, err)
			continue
		case r.outcome == "permanent" && r.letter != "":
			c.ledger.told(w, lettered, r.letter)
			return
		case r.outcome != "success":
			// The job is there all the same, whatever hinders the poll. A letter about it must be resolved when a later poll gets through.
			c.ledger.count("polls asked again, outcome " + r.outcome)
			pause(200 * time.Millisecond)
			continue
		case json.Unmarshal(r.body, &state) != nil:
			c.ledger.wrong(w.documents[0] + ": its poll brought no JSON")
			return
		}
		if strings.EqualFold(state.Status+state.JobStatus, "succeeded") {
			c.read(w, r)
			return
		}
		pause(150 * time.Millisecond)
	}
	c.ledger.wrong(w.documents[0] + ": its job does not end")
}

// send makes one request and reads the whole answer.
func (c *crew) send(ctx context.Context, w call) (r reply, err error) {
	method := http.MethodPost
	if w.body == nil {
		method = http.MethodGet
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+c.addrs[w.account]+w.path, bytes.NewReader(w.body))
	if err != nil {
		return r, err
	}
	req.Header = w.header.Clone()
	client := c.plain
	if w.grpc {
		client = c.streams
	}
	resp, err := client.Do(req)
	if err != nil {
		return r, err
	}
	defer func() { _ = resp.Body.Close() }()
	if r.body, err = io.ReadAll(resp.Body); err != nil {
		return r, err
	}
	h := resp.Header
	r.status, r.outcome, r.reason = resp.StatusCode, h.Get("Ocr-Proxy-Outcome"), h.Get("Ocr-Proxy-Reason")
	r.letter, r.location = h.Get("Ocr-Proxy-Dead-Letter-Id"), h.Get("Operation-Location")
	if r.outcome == "" {
		return r, fmt.Errorf("an answer of %d without an outcome: %.200s", r.status, slices.Clip(r.body))
	}
	return r, nil
}

func pause(d time.Duration) { time.Sleep(d) }
