package main

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/ocr-proxy/ocr-proxy/config"
	"github.com/ocr-proxy/ocr-proxy/internal/admin/client"
	"github.com/ocr-proxy/ocr-proxy/internal/replay"
)

// replayClient asks a running proxy's admin listener for replays.
type replayClient struct{ *client.Client }

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
	var o client.Options
	if f.config != "" {
		cfg, err := config.LoadWithoutSecrets(f.config, f.environ)
		if err != nil {
			return nil, err
		}
		o = adminOptions(cfg.Admin)
	}
	if f.admin != "" {
		o.Listen = f.admin
	}
	c, err := client.New(o)
	return &replayClient{c}, err
}

// deniedError says that the listener does not let this command ask anything.
type deniedError struct{ sentence string }

func (e *deniedError) Error() string { return "the admin listener refuses the command: " + e.sentence }

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
	err := c.Do(ctx, http.MethodPost, "/api/v1/dead-letters/"+id+"/replay"+query, nil, good)
	var no *client.RefusedError
	switch {
	case err == nil:
		r.status = http.StatusOK
		return nil
	case !errors.As(err, &no):
		return err
	}
	r.status, r.sentence, r.retryAfter = no.Status, no.Sentence, no.RetryAfter
	switch no.Status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusMisdirectedRequest:
		return &deniedError{err.Error()}
	}
	return nil
}
