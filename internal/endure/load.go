package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
)

// newProvider refuses documents under /strict, is overloaded under /busy and starts jobs under /jobs.
func newProvider() *httptest.Server {
	var jobs atomic.Int64
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.URL.Path, "/strict"):
			http.Error(w, `{"error":"unsupported document"}`, http.StatusBadRequest)
		case strings.HasPrefix(r.URL.Path, "/busy"):
			http.Error(w, `{"error":"try later"}`, http.StatusServiceUnavailable)
		default:
			w.Header().Set("Operation-Location", fmt.Sprintf("http://%s/jobs/documentintelligence/documentModels/m/analyzeResults/job-%d?api-version=2024-11-30", r.Host, jobs.Add(1)))
			w.WriteHeader(http.StatusAccepted)
		}
	}))
}

// load is a crew of workers that send documents until the program is gone.
type load struct {
	promised   *ledger
	killed     atomic.Bool
	unanswered atomic.Int64
	fault      atomic.Pointer[error]
	wg         sync.WaitGroup
}

func newLoad(addr func(account string) string, workers int, seed uint64, promised *ledger) *load {
	l := &load{promised: promised}
	names := []string{"strict", "busy", "gone", "jobs"}
	for i := range workers {
		name := names[i%len(names)]
		l.wg.Go(func() {
			if err := l.work(name, addr(name), rand.New(rand.NewPCG(seed, uint64(i)))); err != nil {
				l.fault.Store(&err)
			}
		})
	}
	return l
}

// wait gives the number of documents that got no answer. It may be called once the program is gone.
func (l *load) wait() (unanswered int, err error) {
	l.wg.Wait()
	if err := l.fault.Load(); err != nil {
		return 0, *err
	}
	return int(l.unanswered.Load()), nil
}

func (l *load) work(name, addr string, random *rand.Rand) error {
	w, err := dial(context.Background(), addr)
	if err != nil {
		return l.gone(err)
	}
	defer w.close()
	path := "/ocr"
	if name == "jobs" {
		path = "/documentintelligence/documentModels/m:analyze?api-version=2024-11-30"
	}
	for {
		contentType, body := document(name == "jobs", random)
		for range 1 + random.IntN(2) { // the same failure twice raises its letter
			a, err := w.post(path, contentType, body)
			if err != nil {
				l.unanswered.Add(1)
				return l.gone(err)
			}
			if err := l.note(name, a, sha256.Sum256(body)); err != nil {
				return err
			}
		}
	}
}

// gone is nil when the connection broke because the program was killed.
func (l *load) gone(err error) error {
	if l.killed.Load() {
		return nil
	}
	return fmt.Errorf("before the kill: %w", err)
}

// note writes down what the answer promises. Each of them must promise something.
func (l *load) note(name string, a answer, body sum) error {
	id := a.header.Get(letterHeader)
	switch job := operationID(a.header); {
	case name == "jobs" && a.status == http.StatusAccepted && job != "":
		l.promised.job(job, body)
	case name != "jobs" && id != "":
		l.promised.letter(id, body)
	default:
		return fmt.Errorf("%s: answered %d with neither a dead letter nor a job (outcome %q)", name, a.status, a.header.Get("Ocr-Proxy-Outcome"))
	}
	return nil
}

// document makes one that nobody has sent before: small and large, raw, in JSON or in a form.
func document(raw bool, random *rand.Rand) (contentType string, body []byte) {
	sizes := []int{8, 700, 20 << 10, 20 << 10, 70 << 10, 200 << 10, 1500 << 10}
	scan := filler(sizes[random.IntN(len(sizes))])
	stamp(scan, random.Int64())
	form := random.IntN(3)
	if raw {
		form = 0
	}
	switch form {
	case 1:
		return "application/json", fmt.Appendf(nil, `{"model":"m","document":"%s"}`, base64.StdEncoding.EncodeToString(scan))
	case 2:
		var b bytes.Buffer
		w := multipart.NewWriter(&b)
		part, err := w.CreateFormFile("file", "scan.pdf")
		if err == nil {
			_, err = part.Write(scan)
		}
		if err != nil || w.Close() != nil {
			return "application/pdf", scan
		}
		return w.FormDataContentType(), b.Bytes()
	default:
		return "application/pdf", scan
	}
}
