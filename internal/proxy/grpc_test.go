package proxy

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ocr-proxy/ocr-proxy/internal/calls"
	"github.com/ocr-proxy/ocr-proxy/internal/classify"
	"github.com/ocr-proxy/ocr-proxy/internal/grpcwire"
	"github.com/ocr-proxy/ocr-proxy/internal/retry"
)

const (
	processMethod  = "/google.cloud.documentai.v1.DocumentProcessorService/ProcessDocument"
	batchMethod    = "/google.cloud.documentai.v1.DocumentProcessorService/BatchProcessDocuments"
	annotateMethod = "/google.cloud.vision.v1.ImageAnnotator/BatchAnnotateImages"
)

// newRPCLab is a lab whose worker and upstream speak HTTP/2 without TLS.
func newRPCLab(t *testing.T, s setup, steps ...step) *lab {
	t.Helper()
	l := newLab(t, s, steps...)
	l.speakRPC()
	return l
}

// speakRPC makes both ways through the proxy HTTP/2 for gRPC calls.
func (l *lab) speakRPC() {
	out := NewGRPCTransport(nil)
	out.DialContext, out.Proxy = l.upstream.dial, nil
	l.account.GRPCTransport = out
	worker := NewGRPCTransport(nil)
	worker.DialContext, worker.Proxy = l.network.DialContext, nil
	l.worker = worker
	l.t.Cleanup(func() {
		worker.CloseIdleConnections()
		out.CloseIdleConnections()
	})
}

// rpcCall is a call with one message; further header lines follow.
func rpcCall(method string, message []byte, lines ...string) call {
	header := append([]string{"Content-Type: application/grpc", "Te: trailers"}, lines...)
	return call{target: method, header: strings.Join(header, "|"), body: string(grpcwire.Frame(message))}
}

// processing is a ProcessRequest about a document.
func processing(document string) []byte {
	raw := grpcwire.AppendBytes(grpcwire.AppendBytes(nil, 1, []byte(document)), 2, []byte("application/pdf"))
	return grpcwire.AppendBytes(grpcwire.AppendBytes(nil, 1, []byte("projects/p/locations/us/processors/x")), 5, raw)
}

// good is an answer with a message and its status behind it.
func good(message []byte) step {
	return step{header: "Content-Type: application/grpc|" + http.TrailerPrefix + "Grpc-Status: 0", body: string(grpcwire.Frame(message))}
}

// bad is an answer of a head alone that tells an error.
func bad(code int, message string, details ...grpcwire.Detail) step {
	return step{header: statusLines(code, message, details...)}
}

func statusLines(code int, message string, details ...grpcwire.Detail) string {
	h := http.Header{}
	grpcwire.Status{Code: code, Message: message, Details: details}.Write(h)
	lines := []string{"Content-Type: application/grpc"}
	for name := range h {
		lines = append(lines, name+": "+h.Get(name))
	}
	return strings.Join(lines, "|")
}

// lostCall is an answer that never comes: the stream is reset after the work.
func lostCall() step {
	return step{handle: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }}
}

func retryInfo(d time.Duration) grpcwire.Detail {
	span := grpcwire.AppendVarint(grpcwire.AppendVarint(nil, 1, uint64(d/time.Second)), 2, uint64(d%time.Second))
	return grpcwire.Detail{Type: "type.googleapis.com/google.rpc.RetryInfo", Value: grpcwire.AppendBytes(nil, 1, span)}
}

// status is what a gRPC client reads of an answer, and whether it came without a message.
func (r reply) rpcStatus(t *testing.T) (s grpcwire.Status, alone bool) {
	t.Helper()
	require.NoError(t, r.err)
	require.Equal(t, http.StatusOK, r.status)
	if s, ok := grpcwire.ReadStatus(r.trailer); ok {
		return s, false
	}
	s, ok := grpcwire.ReadStatus(r.header)
	require.True(t, ok, "a gRPC answer has a status")
	require.Empty(t, r.body)
	require.Equal(t, "application/grpc", r.header.Get("Content-Type"))
	return s, true
}

func TestRPCSuccessIsPassedOnWhole(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		answered := good([]byte("\x0a\x00"))
		answered.header += "|X-Meta: m|" + http.TrailerPrefix + "X-End: e|" + http.TrailerPrefix + "Ocr-Proxy-Class: lie|Ocr-Proxy-Outcome: lie"
		l := newRPCLab(t, defaults("documentai"), answered)
		sent := rpcCall(processMethod, processing("doc"), "Grpc-Timeout: 300S", "Authorization: Bearer t", "Ocr-Proxy-Tenant: me")
		r := l.send(t.Context(), sent)
		s, alone := r.rpcStatus(t)
		require.False(t, alone)
		require.Equal(t, grpcwire.OK, s.Code)
		require.Equal(t, answered.body, r.body)
		require.Equal(t, "m", r.header.Get("X-Meta"))
		require.Equal(t, "e", r.trailer.Get("X-End"))
		require.Empty(t, r.trailer.Get("Ocr-Proxy-Class"))
		require.Equal(t, "success", r.own("Outcome"))
		require.Equal(t, "1", r.own("Attempts"))
		seen := l.upstream.attempts()[0]
		require.Equal(t, processMethod, seen.target)
		require.Equal(t, sent.body, seen.body)
		require.Equal(t, "trailers", seen.header.Get("Te"))
		require.Equal(t, "300S", seen.header.Get("Grpc-Timeout"))
		require.Equal(t, "Bearer t", seen.header.Get("Authorization"))
		require.Empty(t, seen.header.Get("Ocr-Proxy-Tenant"))
		require.Equal(t, 1, l.figure("requests_total", "operation", "process", "outcome", "success"))
		l.quiet()
	})
}

func TestRPCThrottleWaitsForItsHint(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		trailing := step{header: "Content-Type: application/grpc|" + http.TrailerPrefix + "Grpc-Status: 8|" + http.TrailerPrefix + "Grpc-Retry-Pushback-Ms: 7000"}
		l := newRPCLab(t, defaults("documentai"), bad(grpcwire.ResourceExhausted, "slow down", retryInfo(3*time.Second)), trailing, good(nil))
		r := l.send(t.Context(), rpcCall(processMethod, processing("doc")))
		s, _ := r.rpcStatus(t)
		require.Equal(t, grpcwire.OK, s.Code)
		require.Equal(t, "3", r.own("Attempts"))
		gaps := l.upstream.gaps()
		require.InDelta(t, 3.3, gaps[0].Seconds(), 0.31, "RetryInfo")
		require.InDelta(t, 7.5, gaps[1].Seconds(), 0.51, "push-back in the trailers")
		require.Equal(t, 2, l.attempts("throttle"))
		l.quiet()
	})
}

func TestRPCErrorsEndAsTheirRESTTwins(t *testing.T) {
	for name, tt := range map[string]struct {
		steps    []step
		class    string
		outcome  string
		code     int // of the worker's status
		attempts int
		status   int // in the letter
	}{
		"a bad document":    {[]step{bad(3, "bad")}, "permanent", "permanent", 3, 1, 400},
		"no right":          {[]step{bad(7, "no")}, "auth", "permanent", 7, 1, 403},
		"too large to read": {[]step{bad(8, "Received message larger than max (5 vs. 4)")}, "permanent", "permanent", 8, 1, 429},
		"not there": {
			[]step{bad(14, "a"), bad(14, "b"), bad(13, "c"), bad(14, "d")}, "transient", "exhausted", 14, 4, 503,
		},
		"plain HTTP":     {[]step{{status: 401, body: "<html>"}}, "auth", "permanent", -1, 1, 401},
		"unknown number": {[]step{bad(99, ""), good(nil)}, "success", "success", 0, 2, 0},
		"no status":      {[]step{{header: "Content-Type: application/grpc"}, good(nil)}, "success", "success", 0, 2, 0},
		"lost":           {[]step{lostCall(), good(nil)}, "success", "success", 0, 2, 0},
		"refused":        {[]step{{refuse: true}, good(nil)}, "success", "success", 0, 2, 0},
		"half a message": {
			[]step{{header: "Content-Type: application/grpc|" + http.TrailerPrefix + "Grpc-Status: 0", body: "\x00\x00"}, good(nil)}, "success", "success", 0, 2, 0,
		},
		"an error in the document": {
			[]step{good(grpcwire.AppendBytes(nil, 1, grpcwire.AppendBytes(nil, 10, grpcwire.AppendVarint(nil, 1, 13))))},
			"permanent", "permanent", 0, 1, 200,
		},
		"no message of protobuf": {[]step{good([]byte("\xff\xff"))}, "permanent", "permanent", 0, 1, 200},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				l := newRPCLab(t, defaults("documentai"), tt.steps...)
				sent := rpcCall(processMethod, processing("doc"))
				r := l.send(t.Context(), sent)
				require.NoError(t, r.err)
				require.Equal(t, tt.class, r.own("Class"))
				require.Equal(t, tt.outcome, r.own("Outcome"))
				require.Equal(t, strconv.Itoa(tt.attempts), r.own("Attempts"))
				if tt.code >= 0 {
					s, _ := r.rpcStatus(t)
					require.Equal(t, tt.code, s.Code)
				} else {
					require.Equal(t, tt.steps[0].status, r.status, "passed on as it came")
				}
				if tt.outcome == "success" {
					require.Zero(t, l.sink.count())
				} else {
					letter := l.sink.letters[0]
					require.Equal(t, tt.status, *letter.HTTPStatus)
					require.Equal(t, "process", letter.Operation)
					require.Equal(t, "application/grpc", letter.Request.ContentType)
					require.Equal(t, processMethod, letter.Request.Path)
					require.Equal(t, sent.body, l.sink.bodies[0])
					require.Equal(t, tt.code < 0, letter.ErrorCode == "", "what is no gRPC answer has no code")
				}
				l.quiet()
			})
		})
	}
}

func TestRPCJobStartIsNotMadeTwice(t *testing.T) {
	for name, tt := range map[string]struct {
		step     step
		attempts int
		code     int
	}{
		"lost":        {lostCall(), 1, grpcwire.Internal},
		"timed out":   {step{hang: true}, 1, grpcwire.Internal},
		"internal":    {bad(13, "?"), 1, 13},
		"unavailable": {bad(14, "not now"), 2, 0},
		"throttled":   {bad(8, "not now"), 2, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				l := newRPCLab(t, defaults("documentai"), tt.step, good(nil))
				r := l.send(t.Context(), rpcCall(batchMethod, processing("")))
				s, _ := r.rpcStatus(t)
				require.Equal(t, tt.code, s.Code)
				require.Len(t, l.upstream.attempts(), tt.attempts)
			})
		})
	}
}

func TestRPCAnswersOfTheProxysOwn(t *testing.T) {
	info := func(s grpcwire.Status) string {
		require.Len(t, s.Details, 1)
		require.Equal(t, "type.googleapis.com/google.rpc.ErrorInfo", s.Details[0].Type)
		require.Contains(t, string(s.Details[0].Value), "ocr-proxy")
		return string(s.Details[0].Value)
	}
	for name, tt := range map[string]struct {
		setup  func(s *setup)
		before func(l *lab)
		steps  []step
		call   call
		code   int
		reason string
		says   string
		letter bool
	}{
		"unreachable": {
			setup: func(s *setup) { s.policy.MaxAttempts = 1 }, steps: []step{{refuse: true}}, call: rpcCall(processMethod, processing("d")),
			code: grpcwire.Unavailable, reason: "EXHAUSTED", says: "could not be reached", letter: true,
		},
		"no answer in time": {
			setup: func(s *setup) { s.policy.MaxAttempts = 1 }, steps: []step{{hang: true}}, call: rpcCall(processMethod, processing("d")),
			code: grpcwire.DeadlineExceeded, reason: "EXHAUSTED", says: "did not answer in time", letter: true,
		},
		"circuit open": {
			before: func(l *lab) {
				for range 5 {
					p, err := l.account.Breakers.For("").Acquire(nil, false)
					require.NoError(t, err)
					p.Done(l.account.result(classify.Verdict{Class: classify.Transient}))
				}
			},
			call: rpcCall(processMethod, processing("d")), code: grpcwire.Unavailable, reason: "CIRCUIT_OPEN", says: "circuit", letter: true,
		},
		"throttled too long": {
			before: func(l *lab) { l.account.Queues.For("process").Pause(time.Now().Add(85 * time.Second)) },
			call:   rpcCall(processMethod, processing("d"), "Grpc-Timeout: 5S"),
			code:   grpcwire.ResourceExhausted, reason: "HINT_TOO_LONG", says: "throttled", letter: true,
		},
		"too large": {
			setup: func(s *setup) { s.bodies.MaxBytes = 1 << 10 }, call: rpcCall(processMethod, processing(strings.Repeat("x", 2<<10))),
			code: grpcwire.InvalidArgument, reason: "BODY_TOO_LARGE",
		},
		"reflection": {
			call: rpcCall("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", nil),
			code: grpcwire.Unimplemented, reason: "GRPC_STREAMING", says: `transport="rest" in Python, fallback: true in Node, NewDocumentProcessorRESTClient in Go`,
		},
		"two messages": {
			call: call{
				target: "/any.Service/Method", header: "Content-Type: application/grpc+proto",
				body: string(grpcwire.Frame([]byte("a"))) + string(grpcwire.Frame(nil)),
			},
			code: grpcwire.Unimplemented, reason: "GRPC_STREAMING",
		},
		"no message":   {call: call{target: processMethod, header: "Content-Type: application/grpc"}, code: grpcwire.InvalidArgument, reason: "BAD_MESSAGE"},
		"half a frame": {call: call{target: processMethod, header: "Content-Type: application/grpc", body: "\x00\x00\x00"}, code: grpcwire.InvalidArgument, reason: "BAD_MESSAGE"},
		"a GET":        {call: call{method: http.MethodGet, target: processMethod, header: "Content-Type: application/grpc"}, code: grpcwire.InvalidArgument, reason: "BAD_METHOD"},
		"bad deadline": {call: rpcCall(processMethod, nil, "Grpc-Timeout: soon"), code: grpcwire.InvalidArgument, reason: "BAD_HEADER"},
		"bad header":   {call: rpcCall(processMethod, nil, "Ocr-Proxy-Priority: urgent"), code: grpcwire.InvalidArgument, reason: "BAD_HEADER", says: "high, normal or low"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := defaults("documentai")
				if tt.setup != nil {
					tt.setup(&s)
				}
				l := newRPCLab(t, s, tt.steps...)
				if tt.before != nil {
					tt.before(l)
				}
				r := l.send(t.Context(), tt.call)
				got, alone := r.rpcStatus(t)
				require.True(t, alone, "a head and nothing else")
				require.Equal(t, tt.code, got.Code, got.Message)
				require.Contains(t, info(got), tt.reason)
				require.Contains(t, got.Message, tt.says)
				require.Equal(t, tt.letter, r.own("Dead-Letter-Id") != "")
				require.NotEmpty(t, r.own("Outcome"))
				l.quiet()
			})
		})
	}
}

func TestRPCShutdownIsUnavailable(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		ending, end := context.WithCancelCause(t.Context())
		s := defaults("documentai")
		s.account = func(a *Account) { a.Ending = ending }
		l := newRPCLab(t, s, bad(grpcwire.ResourceExhausted, "", retryInfo(time.Minute)))
		time.AfterFunc(5*time.Second, func() { end(ErrShutdown) })
		r := l.send(t.Context(), rpcCall(processMethod, processing("d")))
		got, alone := r.rpcStatus(t)
		require.True(t, alone)
		require.Equal(t, grpcwire.Unavailable, got.Code)
		require.Contains(t, got.Message, "shutting down")
		require.Equal(t, 1, l.sink.count())
	})
}

func TestRPCDeadlineLowersTheBudget(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newRPCLab(t, defaults("documentai"), step{hang: true})
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second) // as the client itself counts
		defer cancel()
		r := l.send(ctx, rpcCall(processMethod, processing("d"), "Grpc-Timeout: 4000m"))
		got, _ := r.rpcStatus(t)
		require.Equal(t, grpcwire.DeadlineExceeded, got.Code)
		require.Equal(t, 3800*time.Millisecond, r.took, "in time for the worker to hear of it")
		require.Equal(t, 1, l.sink.count())
		require.Equal(t, breakerClosed, l.circuit().State.String())
		l.quiet()
	})
}

const breakerClosed = "closed"

func TestRPCWorkerThatHangsUpIsNobodysFailure(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newRPCLab(t, defaults("documentai"), step{hang: true})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		r := l.send(ctx, rpcCall(processMethod, processing("d")))
		require.Error(t, r.err)
		synctest.Wait()
		require.Equal(t, 1, l.requests(ClientGone))
		require.Zero(t, l.sink.count())
		l.quiet()
	})
}

func TestRPCAndRESTNameTheDocumentAlike(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newRPCLab(t, defaults("documentai"), bad(3, "bad"), step{status: 400, body: `{"error":{"code":400,"status":"INVALID_ARGUMENT"}}`}, bad(3, "bad"))
		l.send(t.Context(), rpcCall(processMethod, processing("the document")))
		plain := &http.Transport{DialContext: l.network.DialContext}
		t.Cleanup(plain.CloseIdleConnections)
		speaking := l.worker
		l.worker = plain
		r := l.send(t.Context(), call{
			target: "/v1/projects/p/locations/us/processors/x:process", header: "Content-Type: application/json",
			body: `{"rawDocument":{"content":"dGhlIGRvY3VtZW50","mimeType":"application/pdf"}}`,
		})
		require.Equal(t, 400, r.status, "REST on the same listener")
		l.worker = speaking
		var packed bytes.Buffer
		z := gzip.NewWriter(&packed)
		_, _ = z.Write(processing("the document"))
		require.NoError(t, z.Close())
		squeezed := rpcCall(processMethod, packed.Bytes(), "Grpc-Encoding: gzip")
		squeezed.body = "\x01" + squeezed.body[1:]
		l.send(t.Context(), squeezed)
		rpc, rest, packedUp := l.sink.letters[0], l.sink.letters[1], l.sink.letters[2]
		require.Equal(t, rest.IdempotencyKey, rpc.IdempotencyKey)
		require.Equal(t, rpc.IdempotencyKey, packedUp.IdempotencyKey)
		require.Equal(t, rpc.RequestFingerprint, packedUp.RequestFingerprint)
		require.Equal(t, []string{"gzip"}, packedUp.Request.Headers["Grpc-Encoding"])
	})
}

// vision is a batch of items, and parts of its answer.
func annotating(images ...string) []byte {
	var batch []byte
	for _, image := range images {
		batch = grpcwire.AppendBytes(batch, 1, grpcwire.AppendBytes(nil, 1, grpcwire.AppendBytes(nil, 1, []byte(image))))
	}
	return batch
}

func annotated(items ...any) []byte {
	var answer []byte
	for _, item := range items {
		switch item := item.(type) {
		case string:
			answer = grpcwire.AppendBytes(answer, 1, grpcwire.AppendBytes(nil, 12, grpcwire.AppendBytes(nil, 2, []byte(item))))
		case int:
			answer = grpcwire.AppendBytes(answer, 1, grpcwire.AppendBytes(nil, 9, grpcwire.AppendVarint(nil, 1, uint64(item))))
		}
	}
	return answer
}

func TestRPCBatchAsksAgainForWhatFailed(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newRPCLab(t, defaults("vision"), good(annotated("a", 14, "c", 8)), bad(14, "down"), good(annotated("b", "d")))
		r := l.send(t.Context(), rpcCall(annotateMethod, annotating("A", "B", "C", "D")))
		s, _ := r.rpcStatus(t)
		require.Equal(t, grpcwire.OK, s.Code)
		require.Equal(t, "success", r.own("Outcome"))
		require.Equal(t, string(grpcwire.Frame(annotated("a", "b", "c", "d"))), r.body)
		require.Equal(t, string(grpcwire.Frame(annotating("B", "D"))), l.upstream.attempts()[1].body)
		require.Equal(t, string(grpcwire.Frame(annotating("B", "D"))), l.upstream.attempts()[2].body)
		l.quiet()
	})
}

func TestRPCBatchGivesWhatItHas(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newRPCLab(t, defaults("vision"), good(annotated("a", 14)), bad(16, "key"))
		r := l.send(t.Context(), rpcCall(annotateMethod, annotating("A", "B")))
		s, _ := r.rpcStatus(t)
		require.Equal(t, grpcwire.OK, s.Code)
		require.Equal(t, string(grpcwire.Frame(annotated("a", 14))), r.body)
		require.Equal(t, "permanent", r.own("Outcome"))
	})
}

func TestRPCAnswerThatNobodyTookIsKept(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := defaults("documentai")
		table := calls.New(calls.Limits{TTL: time.Minute, MaxBytes: 1 << 20})
		defer table.Close()
		s.account = func(a *Account) { a.Calls = table }
		late := good([]byte("\x0a\x00"))
		late.after = 3 * time.Second
		l := newRPCLab(t, s, late)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.Error(t, l.send(ctx, rpcCall(processMethod, processing("d"))).err)
		time.Sleep(5 * time.Second)
		r := l.send(t.Context(), rpcCall(processMethod, processing("d")))
		got, alone := r.rpcStatus(t)
		require.False(t, alone, "with its trailers")
		require.Equal(t, grpcwire.OK, got.Code)
		require.Equal(t, late.body, r.body)
		require.Equal(t, reasonRescued, r.own("Reason"))
		require.Len(t, l.upstream.attempts(), 1, "paid for once")
	})
}

func TestRPCErrorIsKeptThroughAWait(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := defaults("documentai")
		s.policy.Policy = retry.Policy{MaxAttempts: 9, Base: time.Second, Cap: time.Second, Total: 4 * time.Second, Jitter: top}
		l := newRPCLab(t, s, bad(grpcwire.ResourceExhausted, "100% full", retryInfo(time.Minute)))
		r := l.send(t.Context(), rpcCall(processMethod, processing("d")))
		got, alone := r.rpcStatus(t)
		require.True(t, alone)
		require.Equal(t, grpcwire.ResourceExhausted, got.Code)
		require.Equal(t, "100% full", got.Message)
		require.Len(t, got.Details, 1, "the provider's own words")
		require.Equal(t, "hint_too_long", r.own("Reason"))
	})
}

func TestRPCIsRefusedWhereItIsNotSpoken(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newRPCLab(t, defaults("mistral"))
		r := l.send(t.Context(), rpcCall("/any.Service/Method", nil))
		got, _ := r.rpcStatus(t)
		require.Equal(t, grpcwire.Unimplemented, got.Code)
		require.Contains(t, got.Message, "mistral")
		plain := &http.Transport{DialContext: l.network.DialContext}
		t.Cleanup(plain.CloseIdleConnections)
		l.worker = plain
		r = l.send(t.Context(), rpcCall("/any.Service/Method", nil))
		require.Equal(t, http.StatusUnsupportedMediaType, r.status)
	})
}

func TestRPCUnknownMethodIsOther(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newRPCLab(t, defaults("documentai"), good([]byte("anything")), lostCall())
		r := l.send(t.Context(), rpcCall("/google.example.v1.Service/Method", []byte("\xff\xff")))
		s, _ := r.rpcStatus(t)
		require.Equal(t, grpcwire.OK, s.Code)
		require.Equal(t, 1, l.figure("requests_total", "operation", "other", "outcome", "success"))
		r = l.send(t.Context(), rpcCall("/google.example.v1.Service/Method", []byte("\xff\xff")))
		s, _ = r.rpcStatus(t)
		require.Equal(t, grpcwire.Internal, s.Code, "nobody knows whether it may be repeated")
	})
}

func TestRPCLargeAnswerComesWhole(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		text := bytes.Repeat([]byte("text "), 1<<20)
		l := newRPCLab(t, defaults("documentai"), good(grpcwire.AppendBytes(nil, 1, grpcwire.AppendBytes(nil, 4, text))))
		r := l.send(t.Context(), rpcCall(processMethod, processing(strings.Repeat("d", 3<<20))))
		s, _ := r.rpcStatus(t)
		require.Equal(t, grpcwire.OK, s.Code)
		require.Equal(t, uint32(len(r.body)-5), binary.BigEndian.Uint32([]byte(r.body[1:5])))
		require.Greater(t, len(r.body), len(text))
		l.quiet()
	})
}

// The library gives up at its deadline; the page is paid for in any case.
func TestAnRPCThatOutlivesItsDeadlineIsRescued(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		late := good(nil)
		late.after = 3 * time.Second
		l := newRPCLab(t, remembering("documentai"), late)
		c := rpcCall(processMethod, processing("A"), "Grpc-Timeout: 1S")
		l.hangUpAfter(time.Second, c)
		time.Sleep(3 * time.Second)
		r := l.send(t.Context(), c)
		require.Equal(t, "rescued", r.own("Reason"))
		require.Len(t, l.upstream.attempts(), 1)
	})
}
