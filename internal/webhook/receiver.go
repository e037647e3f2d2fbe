package webhook

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/ocr-proxy/ocr-proxy/internal/retry"
)

// maxAnswer is how much of an answer is read, in bytes, so that its connection can be used again. Nobody looks at it.
const maxAnswer = 64 << 10

// verdict is what follows from an attempt.
type verdict int

const (
	failed   verdict = iota // The receiver may take the event later.
	accepted                // It has it.
	refused                 // It will never take it.
	gone                    // It takes nothing any more.
)

// attempt is how one attempt ended.
type attempt struct {
	verdict verdict
	hint    time.Duration // How long the receiver asks to wait; 0: it does not say.
	reason  string        // For people.
}

// judge tells what an answer's status means.
func judge(status int) verdict {
	switch {
	case status >= 200 && status < 300:
		return accepted
	case status == http.StatusGone:
		return gone
	case status == http.StatusRequestTimeout, status == http.StatusTooManyRequests, status >= 500:
		return failed
	}
	return refused // Redirects too: an event goes where the operator said and nowhere else.
}

// receiver is where events go.
type receiver struct {
	url       *url.URL
	key       func() ([]byte, error)
	timeout   time.Duration
	agent     string
	transport http.RoundTripper
	gone      atomic.Bool // It said so.
}

// shown is what may be written down of its address.
func (r *receiver) shown() string { return r.url.Scheme + "://" + r.url.Host }

// post makes one attempt.
func (r *receiver) post(ctx context.Context, l line) attempt {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	req, err := r.request(ctx, l, time.Now())
	if err != nil {
		return attempt{reason: err.Error()}
	}
	// Not through a client, which would follow redirects and name the whole address in its errors.
	resp, err := r.transport.RoundTrip(req)
	if err != nil {
		return attempt{reason: cause(err, r.timeout)}
	}
	defer resp.Body.Close()                                          //nolint:errcheck // Nobody looks at the answer.
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxAnswer)) // The status is all the answer there is.
	hint, _ := retry.Hint(resp.Header, time.Now())
	return attempt{verdict: judge(resp.StatusCode), hint: hint, reason: "status " + strconv.Itoa(resp.StatusCode)}
}

// request is an event as it is sent at that time.
func (r *receiver) request(ctx context.Context, l line, now time.Time) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.shown(), bytes.NewReader(l.body))
	if err != nil {
		return nil, fmt.Errorf("make the request to %s", r.shown()) // The cause may name the address.
	}
	req.URL = r.url
	if u := r.url.User; u != nil {
		password, _ := u.Password()
		req.SetBasicAuth(u.Username(), password)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", r.agent)
	req.Header.Set(standardwebhooks.HeaderWebhookID, l.id)
	req.Header.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(now.Unix(), 10))
	if r.key == nil {
		return req, nil
	}
	key, err := r.key()
	if err != nil {
		return nil, err // An event is rather late than unsigned.
	}
	signer, err := standardwebhooks.NewWebhookRaw(key)
	if err != nil {
		return nil, err
	}
	signature, err := signer.Sign(l.id, now, l.body)
	if err != nil {
		return nil, err
	}
	req.Header.Set(standardwebhooks.HeaderWebhookSignature, signature)
	return req, nil
}
