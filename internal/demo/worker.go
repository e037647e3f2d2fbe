package demo

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strconv"
	"time"
)

// successOutcome is the proxy's word for a document that was read.
const successOutcome = "success"

// result is what a worker knows of one document at its end. Requests and Attempts count all calls that the document took.
type result struct {
	document Document
	account  string
	requests int
	attempts int    // as the proxy's answers tell
	outcome  string // of the last answer; empty when there was none
	letter   string // id of the dead letter; empty when there is none
	own      bool   // the answer is about this document and no other
	err      error  // of the worker's own call to the proxy
}

func (r result) answered() bool { return r.outcome == successOutcome && r.own }

// worker sends documents to the proxy as the providers' own client libraries would, and never tries anything again.
type worker struct {
	client *http.Client
	listen map[string]string
	poll   time.Duration // between two looks at a running analysis
}

// read has one document read by one account.
func (w *worker) read(ctx context.Context, account string, d Document) result {
	r := result{document: d, account: account}
	var body []byte
	switch account {
	case textract:
		body = w.call(ctx, &r, http.MethodPost, w.url(account, "/"), map[string]any{"Document": map[string]any{"Bytes": d.Data}})
	case mistral:
		image := "data:image/png;base64," + base64.StdEncoding.EncodeToString(d.Data)
		body = w.call(ctx, &r, http.MethodPost, w.url(account, "/v1/ocr"),
			map[string]any{"model": "mistral-ocr-latest", "document": map[string]any{"type": "image_url", "image_url": image}})
	case azure:
		body = w.analyze(ctx, &r)
	default:
		r.err = fmt.Errorf("the worker does not speak %s", account)
	}
	// A simulated answer names the digest of the document that it is about.
	sum := sha256.Sum256(d.Data)
	r.own = bytes.Contains(body, []byte(hex.EncodeToString(sum[:6])))
	return r
}

func (w *worker) url(account, path string) string { return "http://" + w.listen[account] + path }

// analyze starts an analysis and asks for its result until there is one.
func (w *worker) analyze(ctx context.Context, r *result) []byte {
	header := http.Header{}
	w.send(ctx, r, http.MethodPost, w.url(azure, "/documentintelligence/documentModels/prebuilt-read:analyze?api-version=2024-11-30"),
		map[string]any{"base64Source": r.document.Data}, header)
	for r.err == nil && r.outcome == successOutcome {
		location := header.Get("Operation-Location")
		if location == "" {
			r.err = errors.New("the accepted analysis does not say where its result will be")
			return nil
		}
		select {
		case <-time.After(w.poll):
		case <-ctx.Done():
			r.err = context.Cause(ctx)
			return nil
		}
		body := w.call(ctx, r, http.MethodGet, location, nil)
		var job struct{ Status string }
		if r.err != nil || json.Unmarshal(body, &job) != nil || job.Status != "notStarted" && job.Status != "running" {
			return body
		}
	}
	return nil
}

// call makes one request and returns the answer's body.
func (w *worker) call(ctx context.Context, r *result, method, url string, payload any) []byte {
	return w.send(ctx, r, method, url, payload, http.Header{})
}

// send makes one request, copies the answer's head into header and returns its body.
func (w *worker) send(ctx context.Context, r *result, method, url string, payload any, header http.Header) []byte {
	r.outcome = ""
	var sent io.Reader = http.NoBody
	if payload != nil {
		encoded, err := json.Marshal(payload)
		if err != nil {
			r.err = fmt.Errorf("write the request: %w", err)
			return nil
		}
		sent = bytes.NewReader(encoded)
	}
	req, err := http.NewRequestWithContext(ctx, method, url, sent)
	if err != nil {
		r.err = fmt.Errorf("make the request: %w", err)
		return nil
	}
	req.Header.Set("Ocr-Proxy-Document-Id", r.document.Name)
	if payload != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if r.account == textract {
		req.Header.Set("Content-Type", "application/x-amz-json-1.1")
		req.Header.Set("X-Amz-Target", "Textract.DetectDocumentText")
	}
	r.requests++
	resp, err := w.client.Do(req)
	if err != nil {
		r.err = err
		return nil
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		r.err = fmt.Errorf("read the answer: %w", err)
		return nil
	}
	maps.Copy(header, resp.Header)
	attempts, _ := strconv.Atoi(resp.Header.Get("Ocr-Proxy-Attempts")) // none is 0, and shows in the ledger
	r.attempts += attempts
	r.outcome = resp.Header.Get("Ocr-Proxy-Outcome")
	r.letter = resp.Header.Get("Ocr-Proxy-Dead-Letter-Id")
	return body
}
