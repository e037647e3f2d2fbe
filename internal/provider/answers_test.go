package provider

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ocr-proxy/ocr-proxy/internal/classify"
	"github.com/ocr-proxy/ocr-proxy/internal/jsonstream"
	"github.com/ocr-proxy/ocr-proxy/internal/retry"
)

// judge decides on one answer as the proxy does: faults of error answers from the body, those of good ones through the watched paths, and
// the headers' wait before the body's.
func judge(t testing.TB, p *Provider, a classify.Attempt) (classify.Verdict, classify.Fault) {
	t.Helper()
	var f classify.Fault
	switch {
	case !a.Answered():
	case a.Status >= http.StatusBadRequest:
		f = p.Fault(a)
	case p.Judge != nil && len(a.Body) > 0 && judged(t, p, a.Operation):
		found, err := jsonstream.Pick(bytes.NewReader(a.Body), p.Watch, 4096)
		require.NoError(t, err)
		var told bool
		f, told = p.Judge(a.Operation, found)
		require.True(t, !told || len(f.Codes) > 0, "a fault inside a good answer needs a code, or it counts as a success")
	}
	if wait, ok := retry.Hint(a.Header, time.Now()); ok {
		f.Wait = wait
	}
	return classify.Decide(a, f, nil, p.Table), f
}

// judged finds an operation's mark through a request that is recognised as it; here the list of what each kind judges is enough.
func judged(t testing.TB, p *Provider, operation string) bool {
	t.Helper()
	if operation == "" {
		return true
	}
	for _, call := range calls() {
		if call.kind == p.Name && call.want == operation {
			return p.Operation(call.request(t)).Judged
		}
	}
	require.Failf(t, "no call", "%s has no call of the operation %q in the table of calls", p.Name, operation)
	return false
}

// answer is one row of a table of error codes: what a vendor says and what it must amount to.
type answer struct {
	Vendor     string          // the vendor, where the kind is not the vendor's own
	Status     int             // HTTP status; 0 where no answer came
	Transport  string          // what went wrong on the way instead: "refused" or "reset"
	Operations []string        // where it can come from; empty: everywhere
	Header     http.Header     // what the code needs beside the body
	Body       json.RawMessage // the answer as the vendor writes it; absent: empty
	Code       string          // the code that is reported
	At         string          // where in the answer it stands
	Class      string          // what the proxy must make of it
	Rated      string          // what the vendor's documentation makes of it, where that differs
	Retry      bool            // with Rated: whether that means to repeat it
	Why        string          // why ours differs although Rated is a class of ours, or although it would be repeated
	From       string          // how well the row is known
}

func (r answer) attempt() classify.Attempt {
	a := classify.Attempt{Status: r.Status, Header: r.Header, Body: r.Body, Sent: true}
	switch r.Transport {
	case "refused":
		a.Sent = false
		a.Err = &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	case "reset":
		a.Err = &net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ECONNRESET)}
	}
	return a
}

func answers(t *testing.T, kind string) []answer {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "errors", kind+".json"))
	require.NoError(t, err)
	var rows []answer
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	require.NoError(t, decoder.Decode(&rows))
	require.NotEmpty(t, rows)
	return rows
}

func TestEveryKnownErrorHasItsClass(t *testing.T) {
	t.Parallel()
	for _, p := range All() {
		for i, row := range answers(t, p.Name) {
			t.Run(fmt.Sprintf("%s/%d_%s%s", p.Name, i, row.Vendor, row.Code), func(t *testing.T) {
				t.Parallel()
				require.NotEmpty(t, row.At)
				require.NotEmpty(t, row.From)
				class, err := classify.Parse(row.Class)
				require.NoError(t, err)
				if row.Rated == "ambiguous" {
					require.True(t, class.Retryable() == row.Retry || row.Why != "", "repeated although the vendor's facts say otherwise, and no reason given")
				} else if row.Rated != "" {
					require.NotEmpty(t, row.Why, "another class than the vendor's facts say, and no reason given")
				}
				operations := row.Operations
				if p.Name == "generic" || len(operations) == 0 {
					operations = []string{""}
				}
				for _, operation := range operations {
					a := row.attempt()
					a.Operation = operation
					v, f := judge(t, p, a)
					require.Equal(t, class, v.Class, "%s: %s", operation, v.Reason)
					require.Equal(t, row.Code, v.Code, operation)
					if class == classify.Permanent && row.Status == http.StatusOK && strings.Contains(row.Why, "finished job") {
						require.True(t, f.Job)
					}
				}
			})
		}
	}
}

// The AWS SDKs read the code from several places and with a namespace before or an address behind it.
func TestTextractCodesInEveryPlace(t *testing.T) {
	t.Parallel()
	p := textract()
	for _, row := range answers(t, "textract") {
		if row.At != "__type" {
			continue
		}
		for name, a := range map[string]classify.Attempt{
			"namespace":       {Body: []byte(`{"__type":"com.amazonaws.textract#` + row.Code + `","Message":"m"}`)},
			"code":            {Body: []byte(`{"code":"` + row.Code + `"}`)},
			"header":          {Header: http.Header{"X-Amzn-Errortype": {row.Code}}},
			"header, address": {Header: http.Header{"X-Amzn-Errortype": {row.Code + ":http://internal.amazon.com/coral/#x"}}},
			"body first":      {Body: []byte(`{"__type":"` + row.Code + `"}`), Header: http.Header{"X-Amzn-Errortype": {"Other"}}},
		} {
			a.Status = row.Status
			v, _ := judge(t, p, a)
			require.Equal(t, row.Class, v.Class.String(), "%s in %s", row.Code, name)
			require.Equal(t, row.Code, v.Code, name)
		}
	}
}

// wire is an answer as it came over the wire, with what it must amount to in its first line.
type wire struct {
	attempt classify.Attempt
	want    map[string]string
}

func readWire(t *testing.T, path string) wire {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	first, rest, _ := strings.Cut(string(data), "\n")
	first, ok := strings.CutPrefix(first, "# ")
	require.True(t, ok, "the first line says what is expected")
	w := wire{want: map[string]string{}}
	for pair := range strings.FieldsSeq(first) {
		key, value, ok := strings.Cut(pair, "=")
		require.True(t, ok, pair)
		w.want[key] = value
	}
	response, err := http.ReadResponse(bufio.NewReader(strings.NewReader(rest)), nil)
	require.NoError(t, err)
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	w.attempt = classify.Attempt{Operation: w.want["operation"], Sent: true, Status: response.StatusCode, Header: response.Header, Body: body}
	if !strings.Contains(response.Header.Get("Content-Type"), "json") && response.StatusCode < 400 {
		w.attempt.Body = nil // only JSON is judged
	}
	return w
}

func TestAnswersFromTheWire(t *testing.T) {
	t.Parallel()
	for _, p := range All() {
		paths, err := filepath.Glob(filepath.Join("testdata", p.Name, "*.http"))
		require.NoError(t, err)
		require.GreaterOrEqual(t, len(paths), 6, p.Name)
		for _, path := range paths {
			t.Run(p.Name+"/"+strings.TrimSuffix(filepath.Base(path), ".http"), func(t *testing.T) {
				t.Parallel()
				w := readWire(t, path)
				for key := range w.want {
					require.Contains(t, []string{"class", "code", "wait", "operation", "job"}, key)
				}
				if w.want["operation"] != Other {
					require.Contains(t, p.Operations, w.want["operation"])
				}
				if p.Name == "generic" {
					w.attempt.Operation = ""
				}
				v, f := judge(t, p, w.attempt)
				require.Equal(t, w.want["class"], v.Class.String(), v.Reason)
				require.Equal(t, w.want["code"], v.Code)
				require.Equal(t, w.want["job"] == "true", f.Job)
				wait, err := time.ParseDuration(cmp.Or(w.want["wait"], "0s"))
				require.NoError(t, err)
				require.Equal(t, wait, v.Wait)
			})
		}
	}
}
