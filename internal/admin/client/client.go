// Package client asks the admin listener of the proxy that runs on the same machine.
package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

const (
	// connectTime bounds the way to the listener; how long an answer takes is the context's business, since a replay may take minutes.
	connectTime = 5 * time.Second
	// maxAtOnce is how many questions are asked at one time without a connection for each.
	maxAtOnce = 128
	// maxAnswer bounds an answer, in bytes: a page of a thousand letters is far below it.
	maxAnswer = 512 << 20
	// maxSentence bounds the words of a refusal, in bytes.
	maxSentence = 4 << 10
)

// ErrUnreachable says that nobody answers at the admin listener's address.
var ErrUnreachable = errors.New("no proxy answers")

// Options say where the listener is, in the words of the proxy's own configuration.
type Options struct {
	// Listen is the address that the listener is bound to; every interface is asked for at 127.0.0.1.
	Listen string
	// TokenFile holds the bearer token, or is empty. A file that cannot be read matters only where the proxy asks for a token.
	TokenFile string
	// CertFile and KeyFile are the listener's own, empty when it speaks plain HTTP.
	CertFile, KeyFile string
	// ClientCertificate presents the same pair as the client's, for a listener that asks for one.
	ClientCertificate bool
}

// Client asks one admin listener. It may be used by any number of goroutines.
type Client struct {
	base    string // URL without a slash at its end.
	token   string
	noToken error // Why there is none.
	http    *http.Client
}

// New prepares a client; nothing is asked yet. It fails when the address makes no sense or the certificate cannot be read.
func New(o Options) (*Client, error) {
	address, err := Address(o.Listen)
	if err != nil {
		return nil, fmt.Errorf("admin.listen: %w", err)
	}
	transport := &http.Transport{DialContext: (&net.Dialer{Timeout: connectTime}).DialContext, TLSHandshakeTimeout: connectTime, MaxIdleConnsPerHost: maxAtOnce}
	scheme := "http"
	if o.CertFile != "" {
		scheme = "https"
		if transport.TLSClientConfig, err = pinned(o); err != nil {
			return nil, fmt.Errorf("admin.tls: %w", err)
		}
	}
	c := &Client{base: scheme + "://" + address, http: &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // The token is for one place.
	}}
	if o.TokenFile != "" {
		data, err := os.ReadFile(o.TokenFile)
		c.token, c.noToken = strings.TrimSpace(string(data)), err
	}
	return c, nil
}

// Address is where a listener that is bound to listen is reached from this machine.
func Address(listen string) (string, error) {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return "", err
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port), nil
}

// Base is the listener's address, as a URL without a path.
func (c *Client) Base() string { return c.base }

// Close ends the connections that are kept for the next question.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// RefusedError is an answer that is no success.
type RefusedError struct {
	// Status is the HTTP status.
	Status int
	// Sentence is what the proxy said.
	Sentence string
	// RetryAfter is how long it asks to wait; 0: it does not say.
	RetryAfter time.Duration
}

// Error is the proxy's sentence.
func (r *RefusedError) Error() string {
	return cmp.Or(r.Sentence, fmt.Sprintf("the proxy answered with status %d", r.Status))
}

// Do makes one call: in, unless nil, goes as JSON, and the answer is read into out unless that is nil. The error wraps
// [ErrUnreachable] when there is nobody, is a [*RefusedError] for a status of 300 and above, and the context's when it ended first.
func (c *Client) Do(ctx context.Context, method, path string, in, out any) error {
	resp, err := c.send(ctx, method, path, in)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode >= http.StatusMultipleChoices {
		return c.refusal(resp)
	}
	if out == nil {
		return nil
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(out); err != nil {
		return fmt.Errorf("the answer of the proxy at %s cannot be read: %w", c.base, err)
	}
	return nil
}

func (c *Client) send(ctx context.Context, method, path string, in any) (*http.Response, error) {
	body := io.Reader(http.NoBody)
	if in != nil {
		data, err := json.Marshal(in)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return nil, err
	}
	req.Host = "localhost" // A name of this machine need not be one of admin.hosts.
	req.Header.Set("Accept", "application/json")
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := c.http.Do(req)
	switch {
	case err == nil:
		return resp, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	if dial := (*net.OpError)(nil); errors.As(err, &dial) && dial.Op == "dial" {
		return nil, fmt.Errorf("%w at %s (admin.listen): %w", ErrUnreachable, c.base, dial.Err)
	}
	return nil, fmt.Errorf("ask the proxy's admin listener: %w", err)
}

func (c *Client) refusal(resp *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(resp.Body, maxSentence)) // what there is of it
	r := &RefusedError{Status: resp.StatusCode, Sentence: strings.TrimSpace(string(text))}
	if n, err := strconv.ParseUint(resp.Header.Get("Retry-After"), 10, 31); err == nil {
		r.RetryAfter = time.Duration(n) * time.Second
	}
	if r.Status == http.StatusUnauthorized && c.noToken != nil {
		return fmt.Errorf("admin.token_file: %w", errors.Join(c.noToken, r))
	}
	return r
}
