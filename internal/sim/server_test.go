package sim

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// goodCall is a well-formed call of a kind that needs no document.
func goodCall(kind Kind) (path, body string, header []string) {
	switch kind {
	case KindTextract:
		return "/", `{"Document":{"S3Object":{"Bucket":"b","Name":"n"}}}`, []string{"X-Amz-Target", "Textract.DetectDocumentText"}
	case KindAzure:
		return azureRead, `{"urlSource":"https://x.example/a"}`, []string{"Content-Type", "application/json"}
	case KindDocumentAI:
		return processPath, `{"gcsDocument":{"gcsUri":"gs://b/n","mimeType":"application/pdf"}}`, nil
	case KindVision:
		return "/v1/images:annotate", `{"requests":[{"image":{"source":{"gcsImageUri":"gs://b/n"}},"features":[{"type":"TEXT_DETECTION"}]}]}`, nil
	case KindMistral:
		return "/v1/ocr", `{"document":{"type":"file","file_id":"f"}}`, nil
	default:
		return "", "", nil
	}
}

func (p *provider) good(t *testing.T, kind Kind) received {
	t.Helper()
	path, body, header := goodCall(kind)
	return p.must(t, http.MethodPost, path, body, header...)
}

func TestFaultsHaveTheProvidersShape(t *testing.T) {
	type shape struct {
		status int
		where  []any
		code   string
	}
	tests := map[Kind]struct{ throttled, failed, gone shape }{
		KindTextract: {
			shape{400, []any{"__type"}, "ProvisionedThroughputExceededException"},
			shape{500, []any{"__type"}, "InternalServerError"},
			shape{503, []any{"__type"}, "ServiceUnavailableException"},
		},
		KindAzure: {
			shape{429, []any{"error", "code"}, "429"},
			shape{500, []any{"error", "code"}, "InternalServerError"},
			shape{503, []any{"error", "code"}, "ServiceUnavailable"},
		},
		KindDocumentAI: {
			shape{429, []any{"error", "status"}, "RESOURCE_EXHAUSTED"},
			shape{500, []any{"error", "status"}, "INTERNAL"},
			shape{503, []any{"error", "status"}, "UNAVAILABLE"},
		},
		KindVision: {
			shape{429, []any{"error", "details", 0, "reason"}, "RATE_LIMIT_EXCEEDED"},
			shape{500, []any{"error", "status"}, "INTERNAL"},
			shape{503, []any{"error", "status"}, "UNAVAILABLE"},
		},
		KindMistral: {
			shape{429, []any{"type"}, "rate_limited"},
			shape{500, []any{"type"}, "internal_server_error"},
			shape{503, []any{"type"}, "service_unavailable"},
		},
	}
	require.Len(t, tests, len(Kinds()))
	for kind, tt := range tests {
		t.Run(string(kind), func(t *testing.T) {
			p := launch(t, Options{Kind: kind, Faults: Faults{Throttle: 1e-6, Burst: 1, RetryAfter: 3}})
			check := func(want shape, got received) {
				t.Helper()
				require.Equal(t, want.status, got.status, got.raw)
				require.Equal(t, want.code, at(t, got.body, want.where...))
			}
			require.Less(t, p.good(t, kind).status, 300)
			throttled := p.good(t, kind)
			check(tt.throttled, throttled)
			require.Equal(t, "3", throttled.header.Get("Retry-After"))

			require.NoError(t, p.SetFaults(Faults{Throttle: 1e-6, Burst: 1}))
			p.good(t, kind)
			require.Empty(t, p.good(t, kind).header.Get("Retry-After"))

			require.NoError(t, p.SetFaults(Faults{Script: []Step{{Status: 500}, {Status: 503}, {Status: 418, Code: "TEAPOT"}}}))
			check(tt.failed, p.good(t, kind))
			check(tt.gone, p.good(t, kind))
			custom := p.good(t, kind)
			require.Equal(t, 418, custom.status)
			require.Contains(t, custom.raw, "TEAPOT")

			require.NoError(t, p.SetFaults(Faults{Down: true}))
			check(tt.gone, p.good(t, kind))

			stats := p.Stats()
			require.Equal(t, kind, stats.Kind)
			want := Counts{Requests: 8, Accepted: 2, Rejected: 1, Throttled: 2, Failed: 3, Pages: 2}
			want.Jobs = stats.Jobs // Only azure has any here.
			require.Equal(t, want, stats.Counts)
			require.Len(t, stats.Operations, 1)
			require.NotContains(t, stats.Operations, opOther)
		})
	}
}

func TestSameSeedSameAnswersOnTheWire(t *testing.T) {
	play := func() []int {
		p := launch(t, Options{Kind: KindMistral, Seed: 11, Faults: Faults{ErrorRate: 0.4, LoseRate: 0.3}})
		path, body, _ := goodCall(KindMistral)
		var out []int
		for range 40 {
			got, err := p.send(t, http.MethodPost, path, body)
			if err != nil {
				got.status = -1
			}
			out = append(out, got.status)
		}
		s := p.Stats()
		require.Equal(t, 40, s.Requests)
		require.Equal(t, s.Requests, s.Accepted+s.Failed+s.Lost)
		require.Equal(t, s.Accepted+s.Lost, s.Pages, "lost answers are charged, failed ones are not")
		return out
	}
	first := play()
	require.Equal(t, first, play())
	for _, status := range []int{-1, 200, 500, 503} {
		require.Contains(t, first, status)
	}
}

func TestLostAnswersEndTheConnection(t *testing.T) {
	p := launch(t, Options{Kind: KindMistral, Faults: Faults{LoseRate: 1}})
	path, body, _ := goodCall(KindMistral)
	_, err := p.send(t, http.MethodPost, path, body)
	require.ErrorIs(t, err, io.EOF)
	require.Equal(t, Counts{Requests: 1, Lost: 1, Pages: 1}, p.Stats().Counts)
}

func TestRefusedConnectionsAreResetUnread(t *testing.T) {
	p := launch(t, Options{Kind: KindMistral, Faults: Faults{Down: true, OutageMode: OutageRefuse}})
	path, body, _ := goodCall(KindMistral)
	_, err := p.send(t, http.MethodPost, path, body)
	require.Error(t, err)
	require.Equal(t, Counts{Requests: 1, Lost: 1}, p.Stats().Counts, "no work was done")
}

func TestHangingEndsWithTheClient(t *testing.T) {
	p := launch(t, Options{Kind: KindMistral, Faults: Faults{Down: true, OutageMode: OutageHang}})
	path, body, _ := goodCall(KindMistral)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url+path, strings.NewReader(body))
	require.NoError(t, err)
	resp, err := new(http.Transport).RoundTrip(req)
	if err == nil {
		require.NoError(t, resp.Body.Close())
	}
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Eventually(t, func() bool { return p.Stats().Counts == Counts{Requests: 1, Lost: 1} }, 5*time.Second, 5*time.Millisecond)
}

func TestScriptPlaysThenBehaves(t *testing.T) {
	steps, err := ParseScript(strings.NewReader("502 body=<html>\n200 body='{\"half' header=X-Odd:yes\n400 code=ThrottlingException\nok header=X-Note:kept\nlose"))
	require.NoError(t, err)
	p := launch(t, Options{Kind: KindTextract, Faults: Faults{Script: steps, ErrorRate: 1}})
	require.Equal(t, steps, p.Faults().Script)
	path, body, header := goodCall(KindTextract)

	first := p.good(t, KindTextract)
	require.Equal(t, 502, first.status)
	require.Equal(t, "<html>", first.raw)
	require.Equal(t, textractContentType, first.header.Get("Content-Type"))
	resp := p.raw(t, path, body, header)
	require.Equal(t, `{"half`, resp)
	require.Equal(t, "ThrottlingException", p.good(t, KindTextract).body["__type"])
	normal := p.good(t, KindTextract)
	require.Equal(t, 200, normal.status)
	require.Equal(t, "kept", normal.header.Get("X-Note"))
	_, err = p.send(t, http.MethodPost, path, body, header...)
	require.ErrorIs(t, err, io.EOF)
	require.GreaterOrEqual(t, p.good(t, KindTextract).status, 500, "after the script the other faults hold")
	require.Equal(t, Counts{Requests: 6, Accepted: 2, Throttled: 1, Failed: 2, Lost: 1, Pages: 2}, p.Stats().Counts)
}

// raw returns a body that need not be whole JSON.
func (p *provider) raw(t *testing.T, path, body string, header []string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.url+path, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set(header[0], header[1])
	resp, err := new(http.Transport).RoundTrip(req)
	require.NoError(t, err)
	defer func() { require.NoError(t, resp.Body.Close()) }()
	got, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return string(got)
}

func TestStatsAreServedAndNotCounted(t *testing.T) {
	p := launch(t, Options{Kind: KindMistral, Faults: Faults{Down: true}})
	p.good(t, KindMistral)
	got := p.must(t, http.MethodGet, StatsPath, "")
	require.Equal(t, http.StatusOK, got.status)
	require.InDelta(t, 1, got.body["requests"], 0)
	require.InDelta(t, 1, at(t, got.body, "operations", "ocr", "failed"), 0)
	require.Equal(t, http.StatusMethodNotAllowed, p.must(t, http.MethodPost, StatsPath, "").status)
	require.Equal(t, 1, p.Stats().Requests)
}

type brokenEngine struct{}

func (brokenEngine) Read(context.Context, Document) ([]Page, error) {
	return nil, errors.New("no ink")
}

func TestAnEngineThatFailsIsAServerError(t *testing.T) {
	png := encode(pngOf(t, drawing(9, 9)))
	for kind, body := range map[Kind]string{
		KindTextract:   `{"Document":{"Bytes":"` + png + `"}}`,
		KindAzure:      `{"base64Source":"` + png + `"}`,
		KindDocumentAI: `{"rawDocument":{"content":"` + png + `"}}`,
		KindMistral:    `{"document":{"type":"image_url","image_url":"data:image/png;base64,` + png + `"}}`,
	} {
		p := launch(t, Options{Kind: kind, Engine: brokenEngine{}})
		path, _, header := goodCall(kind)
		require.Equal(t, 500, p.must(t, http.MethodPost, path, body, header...).status, kind)
		require.Equal(t, Counts{Requests: 1, Failed: 1}, p.Stats().Counts)
	}
}

func TestNewRefusesWhatItCannotPlay(t *testing.T) {
	_, err := New(Options{Kind: "abacus"})
	require.ErrorContains(t, err, `unknown kind "abacus": use one of textract, azure, documentai, vision, mistral`)
	_, err = New(Options{})
	require.ErrorContains(t, err, "no kind is given")
	_, err = New(Options{Kind: KindAzure, Faults: Faults{ErrorRate: 3}})
	require.ErrorContains(t, err, "error rate 3")
}

func TestTheLogHasNoSecrets(t *testing.T) {
	var log bytes.Buffer
	logger := zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.AddSync(&log), zap.DebugLevel))
	p := launch(t, Options{Kind: KindMistral, Logger: logger})
	p.must(t, http.MethodPost, "/v1/ocr?key=hush", `{"document":{"type":"file","file_id":"hush"}}`, "Authorization", "Bearer hush")
	require.Contains(t, log.String(), `"operation":"ocr","outcome":"accepted","status":200`)
	require.NotContains(t, log.String(), "hush")
}

func TestServeEndsWithItsContextAndRefusesDuringOutages(t *testing.T) {
	s, err := New(Options{Kind: KindMistral})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ln, err := s.Listen(ctx, "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, ln) }()
	p := &provider{Server: s, url: "http://" + ln.Addr().String()}
	require.Equal(t, 200, p.good(t, KindMistral).status)

	dial := func() error {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", ln.Addr().String())
		if err == nil {
			err = conn.Close()
		}
		return err
	}
	require.NoError(t, s.SetFaults(Faults{Down: true, OutageMode: OutageRefuse}))
	require.Eventually(t, func() bool { return errors.Is(dial(), syscall.ECONNREFUSED) }, 5*time.Second, 10*time.Millisecond)
	require.NoError(t, s.SetFaults(Faults{}))
	require.Eventually(t, func() bool { return dial() == nil }, 5*time.Second, 10*time.Millisecond)
	require.Equal(t, 200, p.good(t, KindMistral).status)

	require.NoError(t, s.SetFaults(Faults{Down: true, OutageMode: OutageHang}))
	path, body, _ := goodCall(KindMistral)
	time.AfterFunc(50*time.Millisecond, cancel)
	_, err = p.send(t, http.MethodPost, path, body)
	require.Error(t, err, "what hangs is cut short at the end")
	require.NoError(t, <-served)
	require.Error(t, dial())
}
