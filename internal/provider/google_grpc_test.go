package provider

import (
	"bytes"
	"encoding/base64"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ocr-proxy/ocr-proxy/internal/classify"
	"github.com/ocr-proxy/ocr-proxy/internal/grpcwire"
	"github.com/ocr-proxy/ocr-proxy/internal/jsonstream"
)

// pb builds messages: pb(1, "text", 2, 7, 3, pb(…)).
func pb(parts ...any) []byte {
	var out []byte
	for i := 0; i < len(parts); i += 2 {
		number := parts[i].(int)
		switch v := parts[i+1].(type) {
		case string:
			out = grpcwire.AppendBytes(out, number, []byte(v))
		case []byte:
			out = grpcwire.AppendBytes(out, number, v)
		case int:
			out = grpcwire.AppendVarint(out, number, uint64(v))
		}
	}
	return out
}

func detail(name string, message []byte) grpcwire.Detail {
	return grpcwire.Detail{Type: "type.googleapis.com/google.rpc." + name, Value: message}
}

func TestGRPCStatusesAreClassifiedAsOverREST(t *testing.T) {
	t.Parallel()
	reason := func(word string) grpcwire.Detail {
		return detail("ErrorInfo", pb(1, word, 2, "googleapis.com", 3, pb(1, "service", 2, "documentai.googleapis.com")))
	}
	for name, tt := range map[string]struct {
		status grpcwire.Status
		class  classify.Class
		code   string
		wait   time.Duration
	}{
		"cancelled":           {grpcwire.Status{Code: 1}, classify.Unknown, "CANCELLED", 0},
		"unknown":             {grpcwire.Status{Code: 2}, classify.Transient, "UNKNOWN", 0},
		"invalid":             {grpcwire.Status{Code: 3}, classify.Permanent, "INVALID_ARGUMENT", 0},
		"deadline":            {grpcwire.Status{Code: 4}, classify.Transient, "DEADLINE_EXCEEDED", 0},
		"not found":           {grpcwire.Status{Code: 5}, classify.Permanent, "NOT_FOUND", 0},
		"already there":       {grpcwire.Status{Code: 6}, classify.Permanent, "ALREADY_EXISTS", 0},
		"denied":              {grpcwire.Status{Code: 7}, classify.Auth, "PERMISSION_DENIED", 0},
		"exhausted":           {grpcwire.Status{Code: 8}, classify.Throttle, "RESOURCE_EXHAUSTED", 0},
		"precondition":        {grpcwire.Status{Code: 9}, classify.Permanent, "FAILED_PRECONDITION", 0},
		"aborted":             {grpcwire.Status{Code: 10}, classify.Transient, "ABORTED", 0},
		"out of range":        {grpcwire.Status{Code: 11}, classify.Permanent, "OUT_OF_RANGE", 0},
		"unimplemented":       {grpcwire.Status{Code: 12}, classify.Permanent, "UNIMPLEMENTED", 0},
		"internal":            {grpcwire.Status{Code: 13}, classify.Transient, "INTERNAL", 0},
		"unavailable":         {grpcwire.Status{Code: 14}, classify.Transient, "UNAVAILABLE", 0},
		"data loss":           {grpcwire.Status{Code: 15}, classify.Permanent, "DATA_LOSS", 0},
		"unauthenticated":     {grpcwire.Status{Code: 16}, classify.Auth, "UNAUTHENTICATED", 0},
		"too large a message": {grpcwire.Status{Code: 8, Message: "Received message larger than max (9 vs. 4)"}, classify.Permanent, "RESOURCE_EXHAUSTED", 0},
		"per day in words":    {grpcwire.Status{Code: 8, Message: "Quota exceeded: requests per day"}, classify.Quota, "RESOURCE_EXHAUSTED", 0},
		"rate with a wait": {
			grpcwire.Status{Code: 8, Details: []grpcwire.Detail{reason("RATE_LIMIT_EXCEEDED"), detail("RetryInfo", pb(1, pb(1, 3, 2, 250_000_000)))}},
			classify.Throttle, "RATE_LIMIT_EXCEEDED", 3250 * time.Millisecond,
		},
		"a wait of less than a second": {
			grpcwire.Status{Code: 14, Details: []grpcwire.Detail{detail("RetryInfo", pb(1, pb(2, 500_000_000)))}}, classify.Transient, "UNAVAILABLE", 500 * time.Millisecond,
		},
		"a wait of two days": {
			grpcwire.Status{Code: 8, Details: []grpcwire.Detail{detail("RetryInfo", pb(1, pb(1, 172_800)))}}, classify.Quota, "RESOURCE_EXHAUSTED", 48 * time.Hour,
		},
		"a negative wait": {
			grpcwire.Status{Code: 8, Details: []grpcwire.Detail{detail("RetryInfo", pb(1, pb(1, -3)))}}, classify.Throttle, "RESOURCE_EXHAUSTED", 0,
		},
		"a limit per day by its name": {
			grpcwire.Status{Code: 8, Details: []grpcwire.Detail{detail("QuotaFailure", pb(1, pb(1, "project", 5, "ProcessRequestsPerDayPerProject")))}},
			classify.Quota, "RESOURCE_EXHAUSTED", 0,
		},
		"a limit per day in the metadata": {
			grpcwire.Status{Code: 8, Details: []grpcwire.Detail{detail("ErrorInfo", pb(1, "RATE_LIMIT_EXCEEDED", 3, pb(1, "quota_limit", 2, "RequestsPerDay")))}},
			classify.Quota, "RATE_LIMIT_EXCEEDED", 0,
		},
		"billing":           {grpcwire.Status{Code: 7, Details: []grpcwire.Detail{reason("BILLING_DISABLED")}}, classify.Quota, "BILLING_DISABLED", 0},
		"an expired token":  {grpcwire.Status{Code: 16, Details: []grpcwire.Detail{reason("ACCESS_TOKEN_EXPIRED")}}, classify.Auth, "ACCESS_TOKEN_EXPIRED", 0},
		"unknown details":   {grpcwire.Status{Code: 14, Details: []grpcwire.Detail{{Type: "x", Value: []byte("y")}, {}}}, classify.Transient, "UNAVAILABLE", 0},
		"malformed details": {grpcwire.Status{Code: 14, Details: []grpcwire.Detail{detail("ErrorInfo", []byte("\x0a\xff")), detail("RetryInfo", []byte("\x0f"))}}, classify.Transient, "UNAVAILABLE", 0},
	} {
		for _, p := range []*Provider{documentai(), vision()} {
			a := classify.Attempt{Operation: "getOperation", Sent: true, Status: grpcwire.HTTPStatus(tt.status.Code), Body: p.GRPC.Error(tt.status)}
			fault := p.Fault(a)
			v := classify.Decide(a, fault, nil, p.Table)
			require.Equal(t, tt.class, v.Class, "%s: %s", name, v.Reason)
			require.Equal(t, tt.code, v.Code, name)
			require.Equal(t, tt.wait, v.Wait, name)
			require.Equal(t, tt.status.Message, v.Message, name)
		}
	}
}

func TestGRPCAnswersAreJudgedAsJSON(t *testing.T) {
	t.Parallel()
	failed := pb(1, 13, 2, "broken")
	metadata := func(message []byte) []byte {
		return pb(1, "type.googleapis.com/google.cloud.documentai.v1.BatchProcessMetadata", 2, message)
	}
	for name, tt := range map[string]struct {
		kind, operation string
		message         []byte
		json            string // the same answer over REST
		codes           []string
	}{
		"a good document": {"documentai", "process", pb(1, pb(4, "text", 6, pb(1, 1)), 3, pb(1, 1)), `{"document":{"text":"text"},"humanReviewStatus":{"state":1}}`, nil},
		"a failed document": {
			"documentai", "process", pb(1, pb(4, "text", 10, failed)), `{"document":{"text":"text","error":{"code":13,"message":"broken"}}}`, []string{"INTERNAL"},
		},
		"a failed review": {
			"documentai", "process", pb(3, pb(1, 4, 2, "no")), `{"humanReviewStatus":{"state":"ERROR","stateMessage":"no"}}`, []string{"HUMAN_REVIEW_ERROR"},
		},
		"a running batch": {"documentai", "getOperation", pb(1, "operations/1", 2, metadata(pb(1, 2))), `{"name":"operations/1","metadata":{"state":"RUNNING"}}`, nil},
		"a failed batch": {
			"documentai", "getOperation", pb(3, 1, 4, pb(1, 8, 2, "full")), `{"done":true,"error":{"code":8,"message":"full"}}`, []string{"RESOURCE_EXHAUSTED"},
		},
		"a failed document in a batch": {
			"documentai", "getOperation", pb(2, metadata(pb(1, 3, 5, pb(1, "gs://a"), 5, pb(1, "gs://b", 2, pb(1, 3, 2, "bad")))), 3, 1, 5, pb()),
			`{"done":true,"metadata":{"state":"SUCCEEDED","individualProcessStatuses":[{},{"status":{"code":3,"message":"bad"}}]}}`,
			[]string{"INVALID_ARGUMENT"},
		},
		"a batch that failed by its state": {
			"documentai", "getOperation", pb(2, metadata(pb(1, 6, 2, "why"))),
			`{"metadata":{"@type":"x.BatchProcessMetadata","state":6,"stateMessage":"why"}}`,
			[]string{"FAILED"},
		},
		"other metadata with the same number": {
			"documentai", "getOperation", pb(2, pb(1, "x.OperationMetadata", 2, pb(1, 6))), `{"metadata":{"@type":"x.OperationMetadata","state":6}}`, nil,
		},
		"good images": {
			"vision", "images:annotate", pb(1, pb(12, pb(2, "a")), 1, pb(9, pb())), `{"responses":[{"fullTextAnnotation":{"text":"a"}},{"error":{}}]}`, nil,
		},
		"one bad image": {
			"vision", "images:annotate", pb(1, pb(12, pb(2, "a")), 1, pb(9, pb(1, 14, 2, "away"))),
			`{"responses":[{"fullTextAnnotation":{"text":"a"}},{"error":{"code":14,"message":"away"}}]}`,
			[]string{"UNAVAILABLE", visionPartial},
		},
		"all images bad for a while": {
			"vision", "images:annotate", pb(1, pb(9, pb(1, 14)), 1, pb(9, pb(1, 8))), `{"responses":[{"error":{"code":14}},{"error":{"code":8}}]}`, []string{"RESOURCE_EXHAUSTED"},
		},
		"a bad page": {
			"vision", "files:annotate", pb(1, pb(2, pb(21, pb(2, 1)), 2, pb(9, pb(1, 3, 2, "p"), 21, pb(2, 2)))),
			`{"responses":[{"responses":[{"context":{"pageNumber":1}},{"error":{"code":3,"message":"p"},"context":{"pageNumber":2}}]}]}`,
			[]string{"INVALID_ARGUMENT", visionPartial},
		},
		"a bad file": {"vision", "files:annotate", pb(1, pb(4, pb(1, 3, 2, "f"))), `{"responses":[{"error":{"code":3,"message":"f"}}]}`, []string{"INVALID_ARGUMENT", visionPartial}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := Find(tt.kind)
			require.NoError(t, err)
			found, err := p.GRPC.Answer(tt.operation).Pick(bytes.NewReader(tt.message), 1000, 1000)
			require.NoError(t, err)
			fault, failed := p.Judge(tt.operation, found)
			require.Equal(t, tt.codes != nil, failed)
			require.Equal(t, tt.codes, fault.Codes)
			over, err := jsonstream.Pick(strings.NewReader(tt.json), p.Watch, 1000)
			require.NoError(t, err)
			twin, _ := p.Judge(tt.operation, over)
			require.Equal(t, twin, fault, "as over REST")
		})
	}
}

func TestGRPCFieldsAreThoseThatAreWatched(t *testing.T) {
	t.Parallel()
	var paths func(f Fields, at string) []string
	paths = func(f Fields, at string) (all []string) {
		for _, field := range f {
			path := at
			if field.Name != "" {
				path = strings.TrimPrefix(at+"."+field.Name, ".")
			}
			if field.In == nil {
				all = append(all, path)
			}
			all = append(all, paths(field.In, path)...)
		}
		return all
	}
	for _, p := range []*Provider{documentai(), vision()} {
		var seen []string
		for _, operation := range p.Operations {
			seen = append(seen, paths(p.GRPC.Answer(operation), "")...)
		}
		watched := p.Watch
		for _, more := range [][]string{wordPaths(p), documentPaths(p)} {
			for _, path := range more {
				if !strings.HasSuffix(path, "{}") {
					watched = append(slices.Clip(watched), path)
				}
			}
		}
		for _, path := range seen {
			require.Contains(t, watched, path, p.Name)
		}
		for _, path := range watched {
			require.Contains(t, seen, path, "%s: looked at over REST only", p.Name)
		}
	}
}

func TestGRPCMethodsAreTheSameOperations(t *testing.T) {
	t.Parallel()
	for _, p := range []*Provider{documentai(), vision()} {
		var reached []string
		for _, path := range []string{
			"google.cloud.documentai.v1.DocumentProcessorService/ProcessDocument", "google.cloud.documentai.v1beta3.DocumentProcessorService/BatchProcessDocuments",
			"google.longrunning.Operations/GetOperation", "google.longrunning.Operations/ListOperations", "google.longrunning.Operations/CancelOperation",
			"google.longrunning.Operations/WaitOperation",
			"google.cloud.vision.v1.ImageAnnotator/BatchAnnotateImages", "google.cloud.vision.v1.ImageAnnotator/BatchAnnotateFiles",
			"google.cloud.vision.v1.ImageAnnotator/AsyncBatchAnnotateImages", "google.cloud.vision.v1.ImageAnnotator/AsyncBatchAnnotateFiles",
			"google.cloud.documentai.v1.DocumentProcessorService/GetProcessor", "google.longrunning.Operations/DeleteOperation", "x/y", "", "/",
		} {
			op := p.GRPC.Operation("/" + path)
			require.False(t, p.GRPC.Streams("/"+path))
			if op.Name == Other {
				require.Equal(t, IfUnsent, op.Repeat, "nothing is known of it")
				continue
			}
			require.Contains(t, p.Operations, op.Name)
			reached = append(reached, op.Name)
		}
		require.Len(t, slices.Compact(slices.Sorted(slices.Values(reached))), len(reached))
		require.Len(t, reached, map[string]int{"documentai": 8, "vision": 9}[p.Name])
		require.True(t, p.GRPC.Streams("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"))
		require.True(t, p.GRPC.Streams("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"))
	}
	op := documentai().GRPC.Operation("/google.cloud.documentai.v1.DocumentProcessorService/ProcessDocument")
	require.Equal(t, Operation{Name: "process", Repeat: Always, Judged: true}, op)
	op = documentai().GRPC.Operation("/google.cloud.documentai.v1.DocumentProcessorService/BatchProcessDocuments")
	require.Equal(t, Operation{Name: "batchProcess", Repeat: IfUnsent}, op)
	for _, name := range documentai().Operations {
		require.Condition(t, func() bool {
			for _, method := range []string{"DocumentProcessorService/", "Operations/"} {
				for _, ending := range []string{"", "Document", "Documents"} {
					path := "/x." + method + strings.ToUpper(name[:1]) + name[1:] + ending
					if documentai().GRPC.Operation(path).Name == name {
						return true
					}
				}
			}
			return false
		}, name)
	}
}

// One job has one id, whichever form its start and its polls have.
func TestMessagesNameAJobAsRESTDoes(t *testing.T) {
	t.Parallel()
	for _, p := range []*Provider{documentai(), vision()} {
		j, rest := p.GRPC.Jobs, p.Jobs
		require.Equal(t, []any{rest.Starts, rest.Polls, rest.Drops, rest.Lives}, []any{j.Starts, j.Polls, j.Drops, j.Lives})
		for _, name := range []string{"projects/p/locations/us/operations/17", "projects/p/operations/a1", "operations/a1", "operations", "x", ""} {
			want := rest.Started(nil, encode(map[string]any{"name": name}))
			require.Equal(t, want, j.Started(nil, grpcwire.Frame(pb(1, name, 2, pb(1, "t", 2, pb(1, 2)), 3, 0))), name)
			for _, verb := range []string{"", ":wait"} {
				require.Equal(t, want, rest.Asked(&url.URL{Path: "/v1/" + name + verb}, nil), name)
			}
			require.Equal(t, want, j.Asked(&url.URL{Path: "/google.longrunning.Operations/GetOperation"}, grpcwire.Frame(pb(1, name, 2, pb(1, 30)))), name)
		}
		squeezed := grpcwire.Frame(pb(1, "operations/1"))
		squeezed[0] = 1
		long := "operations/" + strings.Repeat("a", 5_000)
		require.Equal(t, long, j.Started(nil, grpcwire.Frame(pb(1, long))), "never cut")
		for what, body := range map[string][]byte{
			"nothing": nil, "no frame": []byte("x"), "compressed": squeezed, "no message": grpcwire.Frame([]byte("\x0f")), "empty": grpcwire.Frame(nil),
			"a number": grpcwire.Frame(pb(1, 7)), "broken off": grpcwire.Frame(append(pb(1, "operations/1"), 0x12, 0x7f)),
		} {
			require.Empty(t, j.Started(nil, body), what)
			require.Empty(t, j.Asked(&url.URL{Path: "/v1/operations/1"}, body), what)
		}
	}
}

func TestMessagesTellOfTheEndOfJobs(t *testing.T) {
	t.Parallel()
	for _, p := range []*Provider{documentai(), vision()} {
		for _, poll := range p.GRPC.Jobs.Polls {
			for want, message := range map[bool][]byte{
				true: pb(1, "operations/1", 2, pb(1, "t", 2, pb(1, 3)), 3, 1, 5, pb(1, "t")), false: pb(1, "operations/1", 2, pb(1, "t", 2, pb(3, 1)), 3, 0),
			} {
				found, err := p.GRPC.Answer(poll).Pick(bytes.NewReader(message), 1000, 1000)
				require.NoError(t, err)
				require.Equal(t, want, p.GRPC.Jobs.Ended(found), "%s %s", p.Name, poll)
			}
			found, err := p.GRPC.Answer(poll).Pick(bytes.NewReader(pb(3, 1, 4, pb(1, 3, 2, "bad"))), 1000, 1000)
			require.NoError(t, err)
			fault, failed := p.Judge(poll, found)
			require.True(t, failed && fault.Job && p.GRPC.Jobs.Ended(found), "%s %s", p.Name, poll)
		}
	}
}

func TestIsGRPC(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]bool{
		"application/grpc": true, "application/grpc+proto": true, "Application/GRPC; x=y": true,
		"": false, "application/grpc-web": false, "application/grpc-web+proto": false, "application/json": false,
	} {
		require.Equal(t, want, IsGRPC(http.Header{"Content-Type": {value}}), value)
	}
}

func TestVisionMessageBatch(t *testing.T) {
	t.Parallel()
	b := visionMessageBatch()
	answer := grpcwire.Frame(pb(1, pb(12, pb(2, "a")), 1, pb(9, pb(1, 14)), 1, pb(5, pb(3, "x"), 9, pb(1, 8)), 1, pb(), 1, pb(9, pb(1, 3))))
	failed, n, err := b.Failed(answer)
	require.NoError(t, err)
	require.Equal(t, 5, n)
	require.Equal(t, []ItemFault{
		{1, classify.Transient, "UNAVAILABLE"}, {2, classify.Throttle, "RESOURCE_EXHAUSTED"}, {4, classify.Permanent, "INVALID_ARGUMENT"},
	}, failed)
	request := grpcwire.Frame(pb(1, "A", 1, "B", 1, "C", 4, "projects/p", 9, 1))
	chosen, err := b.Select(request, []int{1, 2})
	require.NoError(t, err)
	require.Equal(t, grpcwire.Frame(pb(4, "projects/p", 9, 1, 1, "B", 1, "C")), chosen)
	_, err = b.Select(request, []int{3})
	require.ErrorIs(t, err, errItems)
	merged, err := b.Merge(answer, grpcwire.Frame(pb(1, pb(9, pb(1, 3)), 1, pb(9, pb(1, 3)))), []int{1, 2})
	require.NoError(t, err)
	require.Equal(t, grpcwire.Frame(pb(1, pb(12, pb(2, "a")), 1, pb(9, pb(1, 3)), 1, pb(5, pb(3, "x"), 9, pb(1, 8)), 1, pb(), 1, pb(9, pb(1, 3)))), merged,
		"what stands beside an error is kept when there is only another error")
	_, err = b.Merge(answer, grpcwire.Frame(pb(1, pb())), []int{1, 2})
	require.ErrorIs(t, err, errItems)
	squeezed := append([]byte(nil), answer...)
	squeezed[0] = 1
	for name, body := range map[string][]byte{"no frame": []byte("x"), "compressed": squeezed, "no message": grpcwire.Frame([]byte("\x0f")), "fixed": grpcwire.Frame([]byte("\x0d1234"))} {
		_, _, err := b.Failed(body)
		require.Error(t, err, name)
		_, err = b.Select(body, []int{0})
		require.Error(t, err, name)
		_, err = b.Merge(answer, body, []int{0})
		require.Error(t, err, name)
	}
}

func FuzzGRPCAnswer(f *testing.F) {
	f.Add(pb(1, pb(10, pb(1, 13)), 2, pb(2, pb(1, 6))))
	f.Add(pb(1, pb(9, pb(1, 14)), 1, pb(12, pb(2, "x"))))
	kinds := []*Provider{documentai(), vision()}
	f.Fuzz(func(t *testing.T, message []byte) {
		for _, p := range kinds {
			for _, operation := range p.Operations {
				fields := p.GRPC.Answer(operation)
				if fields == nil {
					continue
				}
				found, err := fields.Pick(bytes.NewReader(message), 100, 50)
				n := 0
				for path, values := range found {
					require.Contains(t, p.Watch, path)
					for _, v := range values {
						require.Len(t, v.Index, strings.Count(path, "[]"))
						require.LessOrEqual(t, len(v.Text), 300)
					}
					n += len(values)
				}
				require.LessOrEqual(t, n, 50)
				if fault, failed := p.Judge(operation, found); err == nil && failed {
					bounded(t, fault)
					require.NotEmpty(t, fault.Codes)
				}
			}
		}
		b := visionMessageBatch()
		if _, n, err := b.Failed(grpcwire.Frame(message)); err == nil && n > 0 {
			_, err := b.Select(grpcwire.Frame(message), []int{n - 1})
			require.NoError(t, err)
		}
	})
}

func FuzzGRPCError(f *testing.F) {
	f.Add(8, "message", base64.StdEncoding.EncodeToString(pb(3, pb(1, "x/google.rpc.ErrorInfo", 2, pb(1, "R", 3, pb(1, "a", 2, "b"))))))
	f.Add(14, "", base64.StdEncoding.EncodeToString(pb(3, pb(1, "google.rpc.RetryInfo", 2, pb(1, pb(1, 1, 2, 1))), 3, pb(1, "google.rpc.QuotaFailure", 2, pb(1, pb(5, "x"))))))
	p := documentai()
	f.Fuzz(func(t *testing.T, code int, message, details string) {
		h := http.Header{"Grpc-Status": {"2"}, "Grpc-Message": {message}, "Grpc-Status-Details-Bin": {details}}
		s, _ := grpcwire.ReadStatus(h)
		s.Code = 1 + ((code%16)+16)%16
		a := classify.Attempt{Sent: true, Status: grpcwire.HTTPStatus(s.Code), Body: p.GRPC.Error(s)}
		fault := p.Fault(a)
		bounded(t, fault)
		require.Contains(t, fault.Codes, canonical(s.Code))
		require.GreaterOrEqual(t, fault.Wait, time.Duration(0))
		require.NotEqual(t, classify.Success, classify.Decide(a, fault, nil, p.Table).Class)
	})
}

func wordPaths(p *Provider) []string {
	_, paths := p.Words.Reader()
	return paths
}

func documentPaths(p *Provider) []string {
	if p.Documents == nil {
		return nil
	}
	_, paths := p.Documents.Reader(nil, nil)
	return paths
}

// What is said of words and fields is the same in a message and in JSON.
func TestMessagesAreReadAsJSONIs(t *testing.T) {
	t.Parallel()
	score := func(v float32) []byte { return grpcwire.AppendFloat(nil, 2, v) }
	token := func(layout []byte) []byte { return pb(1, append(pb(1, pb(2, "word")), layout...)) }
	entity := func(kind, text string, confidence float32, more ...any) []byte {
		return append(grpcwire.AppendFloat(pb(2, kind, 3, text), 5, confidence), pb(more...)...)
	}
	page := pb(1, 1, 8, token(score(0.5)), 8, token(score(0.9)), 8, token(nil), 7, token(score(0.1))) // a line is no word
	message := pb(1, pb(4, "text", 6, page, 6, pb(1, 2, 8, token(score(0.75))),
		7, entity("total", "950", 0.8, 10, entity("line/amount", "12", 0.25)), 7, entity("vendor", "", 0.9), 7, entity("line", "a", 0.7, 9, pb(1, "b"))))
	text := `{"document":{"text":"text","pages":[{"pageNumber":1,"tokens":[{"layout":{"confidence":0.5}},{"layout":{"confidence":0.9}},{"layout":{}}],"lines":[{"layout":{"confidence":0.1}}]},
		{"pageNumber":2,"tokens":[{"layout":{"confidence":0.75}}]}],
		"entities":[{"type":"total","mentionText":"950","confidence":0.8,"properties":[{"type":"line/amount","mentionText":"12","confidence":0.25}]},
		{"type":"vendor","mentionText":"","confidence":0.9},{"type":"line","mentionText":"a","normalizedValue":{"text":"b"},"confidence":0.7}]}}`
	p := documentai()
	look := func(each func(paths []string, do func(string, jsonstream.Value)) error) (*Scores, map[string]Field) {
		words, paths := p.Words.Reader()
		found := map[string]Field{}
		documents, more := p.Documents.Reader(map[string]bool{"total": true, "vendor": true, "line": true, "line/amount": true}, func(_ string, fields map[string]Field) {
			for name, field := range fields {
				field.Least = math.Round(field.Least*1e6) / 1e6 // floats of 32 bits are written shorter
				found[name] = field
			}
		})
		require.NoError(t, each(append(paths, more...), func(path string, v jsonstream.Value) {
			if !words.Take(path, v) {
				documents.Take(path, v)
			}
		}))
		return words.Scores(), found
	}
	inMessage, fields := look(func(paths []string, do func(string, jsonstream.Value)) error {
		return p.GRPC.Answer("process").Each(bytes.NewReader(message), paths, 100, do)
	})
	inJSON, same := look(func(paths []string, do func(string, jsonstream.Value)) error {
		return jsonstream.Each(strings.NewReader(text), paths, 100, do)
	})
	require.Equal(t, 4, inMessage.Count(), "a token without a score has one of 0")
	require.Equal(t, inJSON.Count(), inMessage.Count())
	require.InDelta(t, inJSON.Mean(), inMessage.Mean(), 1e-6)
	require.Zero(t, inMessage.Min())
	require.Equal(t, same, fields)
	require.Equal(t, Field{Present: true, Scored: true, Least: 0.25}, fields["line/amount"])
	require.False(t, fields["vendor"].Present)

	confident := func(v float32) []byte { return grpcwire.AppendFloat(nil, 4, v) }
	block := pb(3, pb(3, confident(0.5), 3, confident(1)))
	image := pb(12, pb(1, pb(4, block, 4, block), 2, "text"))
	v := vision()
	for operation, answer := range map[string][]byte{"images:annotate": pb(1, image), "files:annotate": pb(1, pb(2, image))} {
		words, paths := v.Words.Reader()
		require.NoError(t, v.GRPC.Answer(operation).Each(bytes.NewReader(answer), paths, 100, func(path string, v jsonstream.Value) { words.Take(path, v) }))
		require.Equal(t, 4, words.Scores().Count(), operation)
		require.InDelta(t, 0.75, words.Scores().Mean(), 1e-6)
	}
}

// large is an answer of some three megabytes.
func large() []byte {
	token := pb(1, append(pb(1, pb(1, pb(1, 1000, 2, 1010)), 3, strings.Repeat("x", 90)), grpcwire.AppendFloat(nil, 2, 0.97)...), 2, pb(1, 1))
	var page []byte
	for range 250 {
		page = grpcwire.AppendBytes(page, 8, token)
	}
	var document []byte
	for range 100 {
		document = grpcwire.AppendBytes(document, 6, page)
	}
	return pb(1, document)
}

// The scores of a message cost at most twice of what it costs to walk over it.
func BenchmarkMessageScores(b *testing.B) {
	message := large()
	p := documentai()
	count := func() (n int) {
		var over func(r *grpcwire.Reader, depth int)
		over = func(r *grpcwire.Reader, depth int) {
			for {
				f, err := r.Next()
				if err != nil {
					return
				}
				if n++; f.Type == grpcwire.Bytes && depth < 4 && f.Value > 30 {
					over(r.Message(), depth+1)
				}
			}
		}
		over(grpcwire.NewReader(bytes.NewReader(message)), 0)
		return n
	}
	score := func() int {
		words, paths := p.Words.Reader()
		err := p.GRPC.Answer("process").Each(bytes.NewReader(message), paths, 1000, func(path string, v jsonstream.Value) { words.Take(path, v) })
		require.NoError(b, err)
		return words.Scores().Count()
	}
	require.Equal(b, 25_000, score())
	for name, over := range map[string]func() int{"walk": count, "scores": score} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(message)))
			b.ReportAllocs()
			for b.Loop() {
				over()
			}
		})
	}
}
