package sim

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ocr-proxy/ocr-proxy/internal/grpcwire"
)

const (
	processMethod  = "/google.cloud.documentai.v1.DocumentProcessorService/ProcessDocument"
	annotateMethod = "/google.cloud.vision.v1.ImageAnnotator/BatchAnnotateImages"
)

// launchGRPC is launch with HTTP/2 in the clear.
func launchGRPC(t *testing.T, o Options) *provider {
	t.Helper()
	s, err := New(o)
	require.NoError(t, err)
	ts := httptest.NewUnstartedServer(s)
	ts.Config.Protocols = new(http.Protocols)
	ts.Config.Protocols.SetHTTP1(true)
	ts.Config.Protocols.SetUnencryptedHTTP2(true)
	ts.Start()
	t.Cleanup(ts.Close)
	return &provider{Server: s, url: ts.URL}
}

// call makes a unary gRPC call and reads its message and status.
func (p *provider) call(t *testing.T, path string, message []byte) ([]byte, grpcwire.Status, error) {
	t.Helper()
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: protocols}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.url+path, bytes.NewReader(grpcwire.Frame(message)))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/grpc")
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return nil, grpcwire.Status{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, "application/grpc", resp.Header.Get("Content-Type"))
	status, ok := grpcwire.ReadStatus(resp.Trailer)
	if !ok {
		status, ok = grpcwire.ReadStatus(resp.Header)
		require.Empty(t, body)
	}
	require.True(t, ok)
	if status.Code != grpcwire.OK {
		return nil, status, nil
	}
	require.NoError(t, grpcwire.Check(bytes.NewReader(body), int64(len(body))))
	return body[grpcwire.HeaderSize:], status, nil
}

func processRequest(data []byte) []byte {
	return documentAIMethod().request.encode(object{
		"name": "projects/p/locations/us/processors/x", "rawDocument": object{"content": encode(data), "mimeType": "image/png"},
	})
}

func TestGRPCDocumentAI(t *testing.T) {
	p := launchGRPC(t, Options{Kind: KindDocumentAI})
	message, status, err := p.call(t, processMethod, processRequest(pngOf(t, printed("hello"))))
	require.NoError(t, err)
	require.Zero(t, status.Code)
	got, err := documentAIMethod().response.decode(grpcwire.NewReader(bytes.NewReader(message)))
	require.NoError(t, err)
	require.Contains(t, at(t, got, "document", "text"), "simulated answer")
	require.EqualValues(t, 1, at(t, got, "document", "pages", 0, "pageNumber"))
	require.InDelta(t, 0.99, at(t, got, "document", "pages", 0, "tokens", 0, "layout", "confidence"), 0.01)
	require.EqualValues(t, 8, at(t, got, "document", "pages", 0, "tokens", 1, "layout", "textAnchor", "textSegments", 0, "endIndex"))
	require.EqualValues(t, 1, at(t, got, "document", "pages", 0, "layout", "orientation"))
	require.EqualValues(t, 1, at(t, got, "humanReviewStatus", "state"))
	require.Equal(t, 1, p.Stats().Pages)
	require.Equal(t, 1, p.Stats().Operations[documentAIProcess].Accepted)
}

func TestGRPCVision(t *testing.T) {
	p := launchGRPC(t, Options{Kind: KindVision})
	request := visionMethod().request.encode(object{"requests": []any{
		object{"image": object{"content": encode(pngOf(t, printed("hello")))}, "features": []any{object{"type": 11.0}}},
		object{"image": object{"content": encode([]byte("no image"))}, "features": []any{object{"type": 5.0}}},
	}})
	message, status, err := p.call(t, annotateMethod, request)
	require.NoError(t, err)
	require.Zero(t, status.Code)
	got, err := visionMethod().response.decode(grpcwire.NewReader(bytes.NewReader(message)))
	require.NoError(t, err)
	require.Contains(t, at(t, got, "responses", 0, "fullTextAnnotation", "text"), "simulated answer")
	require.InDelta(t, 0.99, at(t, got, "responses", 0, "fullTextAnnotation", "pages", 0, "blocks", 0, "paragraphs", 0, "words", 0, "confidence"), 0.01)
	require.EqualValues(t, 3, at(t, got, "responses", 1, "error", "code"))
}

func TestGRPCErrorsAndFaults(t *testing.T) {
	steps := []Step{{Status: 503}, {Status: 429}, {Status: 500, Body: "<html>"}, {Lose: true}, {}}
	p := launchGRPC(t, Options{Kind: KindDocumentAI, Faults: Faults{Script: steps}})
	good := processRequest(pngOf(t, printed("hello")))
	for i, code := range []int{grpcwire.Unavailable, grpcwire.ResourceExhausted, grpcwire.Internal} {
		_, status, err := p.call(t, processMethod, good)
		require.NoError(t, err)
		require.Equal(t, code, status.Code, i)
	}
	_, _, err := p.call(t, processMethod, good)
	require.Error(t, err, "lost")
	_, status, err := p.call(t, processMethod, good)
	require.NoError(t, err)
	require.Zero(t, status.Code)
	_, status, err = p.call(t, processMethod, processRequest([]byte("hello")))
	require.NoError(t, err)
	require.Equal(t, grpcwire.InvalidArgument, status.Code)
	require.Equal(t, "type.googleapis.com/google.rpc.BadRequest", status.Details[0].Type)
	_, status, err = p.call(t, processMethod, []byte("\x0f"))
	require.NoError(t, err)
	require.Equal(t, grpcwire.InvalidArgument, status.Code)
	_, status, err = p.call(t, "/any.Service/Method", nil)
	require.NoError(t, err)
	require.Equal(t, grpcwire.Unimplemented, status.Code)
	require.Equal(t, http.StatusBadRequest, p.must(t, http.MethodPost, processPath, "{}").status, "REST on the same port")
}

func TestGRPCThrottleTellsHowLongToWait(t *testing.T) {
	p := launchGRPC(t, Options{Kind: KindDocumentAI, Faults: Faults{Throttle: 0.001, Burst: 1, RetryAfter: 7}})
	good := processRequest(pngOf(t, printed("hello")))
	_, status, err := p.call(t, processMethod, good)
	require.NoError(t, err)
	require.Zero(t, status.Code)
	_, status, err = p.call(t, processMethod, good)
	require.NoError(t, err)
	require.Equal(t, grpcwire.ResourceExhausted, status.Code)
	require.Len(t, status.Details, 2)
	got, err := schema{"retryDelay": {number: 1, kind: pbMessage, in: schema{"seconds": {number: 1, kind: pbInteger}}}}.decode(
		grpcwire.NewReader(bytes.NewReader(status.Details[1].Value)))
	require.NoError(t, err)
	require.EqualValues(t, 7, at(t, got, "retryDelay", "seconds"))
	require.Equal(t, 1, p.Stats().Throttled)
}

func TestServeSpeaksGRPC(t *testing.T) {
	s, err := New(Options{Kind: KindVision})
	require.NoError(t, err)
	ln, err := s.Listen(t.Context(), "127.0.0.1:0")
	require.NoError(t, err)
	ctx, end := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, ln) }()
	p := &provider{Server: s, url: "http://" + ln.Addr().String()}
	_, status, err := p.call(t, annotateMethod, nil)
	require.NoError(t, err)
	require.Equal(t, grpcwire.InvalidArgument, status.Code)
	end()
	select {
	case err := <-done:
		require.NoError(t, err)
	case <-time.After(5 * time.Second):
		t.Fatal("it does not end")
	}
}
