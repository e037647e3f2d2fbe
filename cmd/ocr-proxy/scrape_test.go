package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"github.com/ocr-proxy/ocr-proxy/config"
	"github.com/ocr-proxy/ocr-proxy/internal/classify"
	"github.com/ocr-proxy/ocr-proxy/internal/grpcwire"
	"github.com/ocr-proxy/ocr-proxy/internal/proxy"
	"github.com/ocr-proxy/ocr-proxy/internal/trace/tracetest"
)

// scrapeFolder names a folder in which the scrapes are left for other programs to read (make rules).
const scrapeFolder = "OCR_PROXY_SCRAPE_DIR"

const answersFolder = "../../internal/provider/testdata"

// recorded is an answer as on the wire, with the class that it has.
type recorded struct{ file, class, operation string }

// recordings are the answers that are kept for a kind, by name.
func recordings(t *testing.T, kind string) (all []recorded) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(answersFolder, kind, "*.http"))
	require.NoError(t, err)
	head := regexp.MustCompile(`^# (.* )?class=(\S+).* operation=(\S+)`)
	for _, name := range files {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		if found := head.FindSubmatch(text); found != nil {
			all = append(all, recorded{name, string(found[2]), string(found[3])})
		}
	}
	require.NotEmpty(t, all, kind)
	return all
}

// targets are the requests of operations.
func targets(operation string) (method, target string) {
	const processor = "/v1/projects/p/locations/us/processors/x"
	switch operation {
	case "analyze":
		return http.MethodPost, "/documentintelligence/documentModels/m:analyze?api-version=1"
	case "getAnalyzeResult":
		return http.MethodGet, "/documentintelligence/documentModels/m/analyzeResults/1?api-version=1"
	case "process":
		return http.MethodPost, processor + ":process"
	case "images:annotate":
		return http.MethodPost, "/v1/images:annotate"
	case "ocr":
		return http.MethodPost, "/v1/ocr"
	case "parseImage":
		return http.MethodPost, "/parse/image"
	case "chat.completions":
		return http.MethodPost, "/v1/chat/completions"
	case "tika":
		return http.MethodPut, "/tika/text"
	case "other":
		return http.MethodPost, "/read"
	}
	return http.MethodPost, "/" // Textract, whose operation is a header
}

// stage is a provider that answers each call by its script, and a proxy with accounts of all kinds in front of it.
type stage struct {
	*proxyProcess
	accounts map[string]string // URLs by name

	mu      sync.Mutex
	scripts map[string][]http.HandlerFunc
}

func (s *stage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	id := r.Header.Get("X-Call")
	s.mu.Lock()
	script := s.scripts[id]
	if len(script) > 1 {
		s.scripts[id] = script[1:]
	}
	s.mu.Unlock()
	if len(script) == 0 {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	script[0](w, r)
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

func says(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, text)
	}
}

func (a recorded) answer(t *testing.T) http.HandlerFunc {
	t.Helper()
	text, err := os.ReadFile(a.file)
	require.NoError(t, err)
	_, wire, _ := bytes.Cut(text, []byte("\n"))
	return func(w http.ResponseWriter, r *http.Request) {
		resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(wire)), r)
		if err != nil {
			t.Error(a.file, err)
			return
		}
		maps.Copy(w.Header(), resp.Header)
		w.WriteHeader(resp.StatusCode)
		_, _ = io.Copy(w, resp.Body)
	}
}

// send makes a call to an account that the provider answers by the script, the last line of which is repeated.
func (s *stage) send(account, operation, body string, script ...http.HandlerFunc) http.Header {
	s.t.Helper()
	s.mu.Lock()
	id := strconv.Itoa(len(s.scripts))
	s.scripts[id] = script
	s.mu.Unlock()
	method, target := targets(operation)
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.accounts[account]+target, strings.NewReader(body))
	require.NoError(s.t, err)
	req.Header.Set("X-Call", id)
	req.Header.Set("Content-Type", "application/json")
	if target == "/" {
		req.Header.Set("X-Amz-Target", "Textract."+operation)
		req.Header.Set("Content-Type", "application/x-amz-json-1.1")
	}
	resp, err := s.client.Do(req)
	require.NoError(s.t, err)
	_, _ = io.Copy(io.Discard, resp.Body)
	require.NoError(s.t, resp.Body.Close())
	return resp.Header
}

// play is everything that a proxy can count, once.
func play(t *testing.T) *stage {
	t.Helper()
	s := &stage{scripts: map[string][]http.HandlerFunc{}, accounts: map[string]string{}}
	server := httptest.NewUnstartedServer(s)
	server.Config.Protocols = proxy.Protocols()
	server.Start()
	t.Cleanup(server.Close)
	collector, redis := httptest.NewServer(new(tracetest.Receiver)), miniredis.RunT(t)
	t.Cleanup(collector.Close)

	cert, key := filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "key.pem")
	selfSigned(t, cert, key, "localhost")
	more := new(strings.Builder)
	for _, kind := range config.Kinds() {
		fmt.Fprintf(more, "  - {name: of-%s, kind: %s, listen: '127.0.0.1:0', upstream: %q, auth: {type: none}}\n", kind, kind, server.URL)
	}
	for name, keys := range map[string]string{
		"down":     "kind: generic, breaker: {failure_threshold: 1, reset_timeout: 1h}",
		"seer":     "kind: generic, mode: observe",
		"reviewed": "kind: azure, review: {required: {invoice: [total]}, fields: {invoice: {total: 0.9}}}",
		"again":    "kind: generic, retry: {max_attempts: 2}",
		"sealed":   fmt.Sprintf("kind: generic, tls: {cert_file: %q, key_file: %q}", cert, key),
		"filled":   "kind: textract, auth: {type: none}, pacing: {open_jobs: 2}",
	} {
		fmt.Fprintf(more, "  - {name: %s, listen: '127.0.0.1:0', upstream: %q, %s}\n", name, server.URL, keys)
	}
	fmt.Fprintf(more, `
state: {url: 'redis://%s'}
tracing: {otlp_endpoint: %q}
retry: {max_attempts: 1, base_delay: 1ms}
breaker: {failure_threshold: 1000}
`, redis.Addr(), collector.URL)
	s.proxyProcess = servingIn(t, []string{"OCR_PROXY_BODY_MAX_BYTES=64KiB", "OCR_PROXY_DEAD_LETTERS_WEBHOOK_URL=" + provide(t, echo)}, "generic", server.URL, more.String())
	for line := range strings.Lines(s.log.String()) {
		var entry struct{ Msg, Provider, Listen string }
		if json.Unmarshal([]byte(line), &entry) == nil && entry.Msg == "listening" {
			s.accounts[entry.Provider] = "http://" + entry.Listen
		}
	}
	return s
}

// perform makes calls of all kinds end in all ways.
func (s *stage) perform() {
	t := s.t
	seen := map[string]bool{}
	for _, kind := range config.Kinds() {
		all := recordings(t, kind)
		// One answer of each class; throttles last, since they hold up what comes after them.
		for _, class := range []string{"success", "permanent", "auth", "quota", "transient", "unknown", "throttle"} {
			at := slices.IndexFunc(all, func(a recorded) bool {
				_, target := targets(a.operation)
				return a.class == class && (target != "/" || kind == "textract")
			})
			if at < 0 {
				continue
			}
			s.send("of-"+kind, all[at].operation, "document "+kind+class, all[at].answer(t))
			seen[class] = true
		}
	}
	require.Len(t, seen, 7)

	require.Equal(t, "success", s.send("again", "other", "one", status(503), says("{}")).Get("Ocr-Proxy-Outcome"))
	require.Equal(t, "exhausted", s.send("again", "other", "two", status(503)).Get("Ocr-Proxy-Outcome"))
	require.Equal(t, "rejected", s.send("again", "other", strings.Repeat("too large", 10_000), says("{}")).Get("Ocr-Proxy-Outcome"))
	s.send("down", "other", "one", status(503))
	require.Equal(t, "circuit_open", s.send("down", "other", "two", status(503)).Get("Ocr-Proxy-Outcome"))
	s.send("seer", "other", "one", status(503))
	const unsure = `{"status":"succeeded","analyzeResult":{"content":"a","pages":[{"pageNumber":1,"words":[{"content":"a","confidence":0.2}]}],` +
		`"documents":[{"docType":"invoice","fields":{"total":{"type":"number","valueNumber":1,"confidence":0.3}}}]}}`
	require.Equal(t, "review", s.send("reviewed", "getAnalyzeResult", "", says(unsure)).Get("Ocr-Proxy-Outcome"))
	s.send("of-vision", "images:annotate", "some items", says(`{"responses": [{"fullTextAnnotation": {"text": "a"}}, {"error": {"code": 3, "message": "Bad image data."}}]}`))
	s.send("filled", "StartDocumentAnalysis", `{"DocumentLocation":{"S3Object":{"Bucket":"b","Name":"n"}}}`, says(`{"JobId":"j-1"}`))
	s.remote("over gRPC")

	// A worker that hangs up in the middle of its document.
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(s.accounts["acct"], "http://"))
	require.NoError(t, err)
	_, err = io.WriteString(conn, "POST /read HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nthe first half")
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	untilMetric(t, s.proxyProcess, `ocrproxy_requests_total{kind="generic",operation="other",outcome="client_gone",provider="acct"} 1`)

	// A letter that is sent again.
	letters := letterFiles(t, s.proxyProcess)
	require.NotEmpty(t, letters)
	code, _, _ := replayIn(t, s.proxyProcess, "--provider", "again")
	require.Equal(t, 1, code, "it fails again")
}

// remote makes a call over gRPC.
func (s *stage) remote(id string) {
	t := s.t
	s.mu.Lock()
	s.scripts[id] = []http.HandlerFunc{func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/grpc")
		_, _ = w.Write(grpcwire.Frame(nil))
		w.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
	}}
	s.mu.Unlock()
	message := grpcwire.AppendBytes(nil, 1, []byte("projects/p/locations/us/processors/x"))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
		s.accounts["of-documentai"]+"/google.cloud.documentai.v1.DocumentProcessorService/GetProcessor", bytes.NewReader(grpcwire.Frame(message)))
	require.NoError(t, err)
	req.Header = http.Header{"Content-Type": {"application/grpc"}, "Te": {"trailers"}, "X-Call": {id}}
	worker := proxy.NewGRPCTransport(nil)
	defer worker.CloseIdleConnections()
	resp, err := worker.RoundTrip(req)
	require.NoError(t, err)
	_, _ = io.Copy(io.Discard, resp.Body)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, "0", resp.Trailer.Get("Grpc-Status"))
}

// scrape reads the metrics as Prometheus would, in that format.
func (s *stage) scrape(accept string) (contentType, text string) {
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.admin+"/metrics", nil)
	require.NoError(s.t, err)
	req.Header.Set("Accept", accept)
	resp, err := s.client.Do(req)
	require.NoError(s.t, err)
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	require.NoError(s.t, err)
	require.Equal(s.t, http.StatusOK, resp.StatusCode)
	return resp.Header.Get("Content-Type"), string(body)
}

// figure is what the series of a family with these labels count together; histograms count their observations.
func figure(family *dto.MetricFamily, labels ...string) (sum float64) {
	for _, series := range family.GetMetric() {
		have := map[string]string{}
		for _, pair := range series.GetLabel() {
			have[pair.GetName()] = pair.GetValue()
		}
		if len(labels) == 0 || have[labels[0]] == labels[1] {
			sum += series.GetCounter().GetValue() + series.GetGauge().GetValue() + float64(series.GetHistogram().GetSampleCount())
		}
	}
	return sum
}

// documented are the metrics of the README's table.
func documented(t *testing.T) (names []string) {
	t.Helper()
	text, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	for _, found := range regexp.MustCompile("(?m)^\\| `(ocrproxy_[a-z_]+)` \\|").FindAllStringSubmatch(string(text), -1) {
		names = append(names, found[1])
	}
	require.Greater(t, len(names), 40)
	return names
}

// quiet are the metrics that count what does not happen here: faults of disks and of the shared state, and states that pass.
func quiet() []string {
	return []string{
		"ocrproxy_body_memory_bytes", "ocrproxy_body_spilled_bytes", "ocrproxy_config_restart_pending", "ocrproxy_connections_limit_reached_total", "ocrproxy_dead_letters_dropped_total", "ocrproxy_dead_letters_unread",
		"ocrproxy_dead_letters_write_errors_total", "ocrproxy_in_flight", "ocrproxy_job_write_errors_total", "ocrproxy_pacing_rate", "ocrproxy_queue_depth",
		"ocrproxy_queue_oldest_seconds", "ocrproxy_state_errors_total", "ocrproxy_throttle_pause_seconds", "ocrproxy_webhook_backlog",
	}
}

// A proxy that has seen everything shows all that the README promises, in both formats and without an offence against the conventions.
func TestAScrapeOfEverything(t *testing.T) {
	t.Parallel()
	s := play(t)
	s.perform()
	untilMetric(t, s.proxyProcess, "ocrproxy_state_connected 1")
	sent := regexp.MustCompile(`(?s)ocrproxy_trace_spans_total{result="sent"} [1-9].*ocrproxy_webhook_deliveries_total{result="delivered"} [1-9]`)
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) { // by goroutines of their own
		if _, text := s.scrape("text/plain"); sent.MatchString(text) {
			break
		}
	}

	kind, text := s.scrape("text/plain")
	require.Contains(t, kind, "text/plain")
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	require.NoError(t, err)
	require.Empty(t, problems)
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	require.NoError(t, err)
	shown := slices.DeleteFunc(slices.Sorted(maps.Keys(families)), func(name string) bool { return !strings.HasPrefix(name, "ocrproxy_") })
	require.ElementsMatch(t, documented(t), shown, "each metric of the README has a sample")
	for _, name := range shown {
		if !slices.Contains(quiet(), name) {
			require.Positive(t, figure(families[name]), name)
		}
	}
	for _, outcome := range proxy.Outcomes() {
		require.Positive(t, figure(families["ocrproxy_requests_total"], "outcome", string(outcome)), outcome)
	}
	for class := classify.Unknown; class <= classify.Soft; class++ {
		require.Positive(t, figure(families["ocrproxy_attempts_total"], "class", class.String()), class)
	}
	for _, k := range config.Kinds() {
		require.Positive(t, figure(families["ocrproxy_requests_total"], "kind", k), k)
	}

	kind, open := s.scrape("application/openmetrics-text; version=1.0.0")
	require.Contains(t, kind, "application/openmetrics-text; version=1.0.0")
	require.True(t, strings.HasSuffix(open, "\n# EOF\n"))
	require.Contains(t, open, ` # {trace_id="`, "an exemplar")
	require.Contains(t, open, "go_memstats_heap_alloc_bytes ")
	for _, name := range shown {
		require.Contains(t, open, "# TYPE "+strings.TrimSuffix(name, "_total")+" ", "the same in both formats")
	}
	types := map[string]bool{}
	for _, found := range regexp.MustCompile(`(?m)^# TYPE (\S+) `).FindAllStringSubmatch(open, -1) {
		require.False(t, types[found[1]], "strict parsers refuse a scrape in which %s comes twice", found[1])
		types[found[1]] = true
	}
	if dir := os.Getenv(scrapeFolder); dir != "" {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "metrics.txt"), []byte(text), 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "openmetrics.txt"), []byte(open), 0o600))
	}
}
