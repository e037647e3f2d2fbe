package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/ocr-proxy/ocr-proxy/config"
	"github.com/ocr-proxy/ocr-proxy/internal/replay"
)

// maxAdminAnswer bounds what is read of an answer of the admin listener, in bytes.
const maxAdminAnswer = 1 << 20

// replayClient asks a running proxy's admin listener for replays.
type replayClient struct {
	base  string // URL
	token string // "": none is asked for
	http  *http.Client
}

// replayReply is what the proxy says to one request for a replay.
type replayReply struct {
	status     int
	sentence   string        // of a letter that is not sent
	retryAfter time.Duration // of one that is not sent now
	result     replay.Result
	estimate   replay.Estimate
}

// client finds the proxy by flag or configuration.
func (f *replayFlags) client() (*replayClient, error) {
	transport := &http.Transport{MaxIdleConnsPerHost: maxParallel}
	c := &replayClient{base: "http://" + f.admin, http: &http.Client{Transport: transport}}
	if f.config == "" {
		return c, nil
	}
	cfg, err := config.LoadWithoutSecrets(f.config, f.environ)
	if err != nil {
		return nil, err
	}
	if f.admin == "" {
		c.base = "http://" + localAddress(cfg.Admin.Listen)
	}
	if cfg.Admin.TLS.Enabled() {
		c.base = "https" + strings.TrimPrefix(c.base, "http")
		if transport.TLSClientConfig, err = pinned(cfg.Admin.TLS.CertFile); err != nil {
			return nil, fmt.Errorf("admin.tls.cert_file: %w", err)
		}
	}
	if cfg.Admin.TokenFile != "" {
		token, err := config.ReadSecretFile("admin.token_file", cfg.Admin.TokenFile)
		if err != nil {
			return nil, err
		}
		c.token = token.Reveal()
	}
	return c, nil
}

// pinned accepts the one certificate in the file: the listener is on this machine, and the name in its certificate is another.
func pinned(file string) (*tls.Config, error) {
	data, err := os.ReadFile(file) //nolint:gosec // the configuration names the file
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, errors.New("holds no certificate in PEM form")
	}
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: true, //nolint:gosec // the next function verifies more strictly
		VerifyConnection: func(state tls.ConnectionState) error { // of resumed sessions, too
			if len(state.PeerCertificates) == 0 || !bytes.Equal(state.PeerCertificates[0].Raw, block.Bytes) {
				return errors.New("the certificate is not the one of admin.tls.cert_file")
			}
			return nil
		},
	}, nil
}

// deniedError says that the listener does not let this command ask anything.
type deniedError struct{ sentence string }

func (e *deniedError) Error() string { return "the admin listener refuses the command: " + e.sentence }

func (c *replayClient) close() { c.http.CloseIdleConnections() }

// replay asks for one letter and waits for what comes of it. The error says that the proxy did not answer.
func (c *replayClient) replay(ctx context.Context, id string, ambiguous bool) (r replayReply, err error) {
	query := ""
	if ambiguous {
		query = "?include_ambiguous=true"
	}
	err = c.post(ctx, id, query, &r, &r.result)
	return r, err
}

// estimate asks what a replay would cost.
func (c *replayClient) estimate(ctx context.Context, id string) (r replayReply, err error) {
	err = c.post(ctx, id, "?dry_run=true", &r, &r.estimate)
	return r, err
}

func (c *replayClient) post(ctx context.Context, id, query string, r *replayReply, good any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+"/api/v1/dead-letters/"+id+"/replay"+query, http.NoBody)
	if err != nil {
		return err
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAdminAnswer))
	if err != nil {
		return err
	}
	r.status = resp.StatusCode
	if resp.StatusCode == http.StatusOK {
		return json.Unmarshal(text, good)
	}
	r.sentence = strings.TrimSpace(string(text))
	switch resp.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusMisdirectedRequest:
		return &deniedError{r.sentence}
	}
	if seconds, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && seconds > 0 {
		r.retryAfter = time.Duration(seconds) * time.Second
	}
	return nil
}
