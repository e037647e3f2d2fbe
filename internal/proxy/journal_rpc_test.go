package proxy

import (
	"context"
	"net/http"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ocr-proxy/ocr-proxy/internal/grpcwire"
)

const (
	operations   = "/google.longrunning.Operations/"
	filesMethod  = "/google.cloud.vision.v1.ImageAnnotator/AsyncBatchAnnotateFiles"
	imagesMethod = "/google.cloud.vision.v1.ImageAnnotator/AsyncBatchAnnotateImages"
	theJob       = "projects/p/locations/us/operations/7"
	aDocument    = "Ocr-Proxy-Document-Id: d-1"
)

// rpcJournaling is a journaling lab whose worker speaks gRPC, and REST where a test wants it.
type rpcJournaling struct {
	*journaling
	plain *http.Transport
}

func newRPCJournaling(t *testing.T, s setup, steps ...step) *rpcJournaling {
	t.Helper()
	j := &rpcJournaling{journaling: newJournaling(t, s, steps...)}
	j.plain = j.worker
	t.Cleanup(j.plain.CloseIdleConnections)
	j.speakRPC()
	return j
}

// sendREST makes a call in the other form.
func (j *rpcJournaling) sendREST(c call) reply {
	speaking := j.worker
	defer func() { j.worker = speaking }()
	j.worker = j.plain
	return j.send(j.t.Context(), c)
}

// crash goes on with the folder as it is on the disk at this instant, without a store that was closed.
func (j *journaling) crash() {
	dir := j.t.TempDir()
	require.NoError(j.t, os.CopyFS(dir, os.DirFS(j.dir)))
	j.dir = dir
	j.restart()
}

// batchOf is a BatchProcessRequest about a file.
func batchOf(file string) []byte {
	document := grpcwire.AppendBytes(grpcwire.AppendBytes(nil, 1, []byte(file)), 2, []byte("application/pdf"))
	files := grpcwire.AppendBytes(nil, 2, grpcwire.AppendBytes(nil, 1, document))
	return grpcwire.AppendBytes(grpcwire.AppendBytes(nil, 1, []byte("projects/p/locations/us/processors/x")), 5, files)
}

func rpcStart(lines ...string) call { return rpcCall(batchMethod, batchOf("gs://b/o.pdf"), lines...) }

func restStart(lines string) call {
	return call{
		target: "/v1/projects/p/locations/us/processors/x:batchProcess", header: asJSON + "|" + lines,
		body: `{"inputDocuments":{"gcsDocuments":{"documents":[{"gcsUri":"gs://b/o.pdf","mimeType":"application/pdf"}]}}}`,
	}
}

// asking is a call of google.longrunning.Operations about a job.
func asking(method, name string, lines ...string) call {
	return rpcCall(operations+method, grpcwire.AppendBytes(nil, 1, []byte(name)), lines...)
}

func restPoll(name string) call { return call{method: http.MethodGet, target: "/v1/" + name} }

// running is an operation with the metadata of a batch; more fields follow.
func running(name string, metadata []byte, more ...byte) []byte {
	packed := grpcwire.AppendBytes(grpcwire.AppendBytes(nil, 1, []byte("type.googleapis.com/x.BatchProcessMetadata")), 2, metadata)
	return append(grpcwire.AppendBytes(grpcwire.AppendBytes(nil, 1, []byte(name)), 2, packed), more...)
}

// times is metadata that is no text.
func times() []byte { return grpcwire.AppendVarint(grpcwire.AppendVarint(nil, 1, 2), 3, 1<<40) }

func done(more ...byte) []byte { return append(grpcwire.AppendVarint(nil, 3, 1), more...) }

// failure is the field of an operation that failed.
func failure(code uint64, message string) []byte {
	return grpcwire.AppendBytes(nil, 4, grpcwire.AppendBytes(grpcwire.AppendVarint(nil, 1, code), 2, []byte(message)))
}

func TestARepeatOfAnRPCStartGetsItsJobAlsoAfterACrash(t *testing.T) {
	for name, tt := range map[string]struct {
		kind    string
		start   call
		answer  step
		message []byte
	}{
		"documents":  {"documentai", rpcStart(aDocument), good(running(theJob, times())), running(theJob, times())},
		"files":      {"vision", rpcCall(filesMethod, []byte("\x0a\x00"), aDocument), good(running("operations/7", times())), running("operations/7", times())},
		"images":     {"vision", rpcCall(imagesMethod, []byte("\x0a\x00"), aDocument), good(running("operations/7", nil)), running("operations/7", nil)},
		"compressed": {"documentai", rpcStart(aDocument), packedUp(t, running(theJob, times())), running(theJob, times())},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				tt.answer.header += "|Set-Cookie: private|" + http.TrailerPrefix + "X-Private: private"
				j := newRPCJournaling(t, remembering(tt.kind), tt.answer)
				first := j.send(t.Context(), tt.start)
				require.Equal(t, []string{"1", ""}, []string{first.own("Attempts"), first.own("Reason")})
				require.Equal(t, tt.answer.body, first.body)
				require.Len(t, j.records(), 1)
				for range 2 {
					j.crash()
					again := j.send(t.Context(), tt.start)
					s, alone := again.rpcStatus(t)
					require.False(t, alone, "with its trailers")
					require.Equal(t, grpcwire.OK, s.Code)
					require.Equal(t, string(grpcwire.Frame(tt.message)), again.body)
					require.Equal(t, []string{"success", "0", "journaled", ""}, []string{again.own("Outcome"), again.own("Attempts"), again.own("Reason"), again.own("Class")})
					require.Equal(t, "application/grpc", again.header.Get("Content-Type"))
					require.Empty(t, again.header.Get("Set-Cookie")+again.trailer.Get("X-Private")+again.header.Get("Grpc-Encoding"))
				}
				require.Len(t, j.upstream.attempts(), 1)
				text, err := os.ReadFile(j.records()[0])
				require.NoError(t, err)
				require.NotContains(t, string(text), "private")
				j.closing()
			})
		})
	}
}

// packedUp is good with a compressed message.
func packedUp(t *testing.T, message []byte) step {
	t.Helper()
	s := good([]byte(zipped(t, string(message))))
	s.header += "|Grpc-Encoding: gzip"
	s.body = "\x01" + s.body[1:]
	return s
}

func TestADifferentRPCNeverGetsTheJob(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		j := newRPCJournaling(t, remembering("documentai"), good(running(theJob, times())))
		const key = "Authorization: Bearer of-a-worker"
		j.send(t.Context(), rpcStart(aDocument, key))
		other := "projects/p/locations/us/operations/8"
		for name, c := range map[string]call{
			"another id":         rpcStart("Ocr-Proxy-Document-Id: d-2", key),
			"no id":              rpcStart(key),
			"another credential": rpcStart(aDocument, "Authorization: Bearer of-another"),
			"another file":       rpcCall(batchMethod, batchOf("gs://b/p.pdf"), aDocument, key),
			"other options":      rpcCall(batchMethod, grpcwire.AppendVarint(batchOf("gs://b/o.pdf"), 4, 1), aDocument, key),
		} {
			j.upstream.script(good(running(other, times())))
			r := j.send(t.Context(), c)
			require.Equal(t, "1", r.own("Attempts"), name)
			require.Contains(t, r.body, other, name)
		}
		require.Equal(t, "journaled", j.send(t.Context(), rpcStart(aDocument, key)).own("Reason"))
		j.closing()
	})
}

// The object may have been overwritten between two calls that name it.
func TestARescuedRPCStartIsNotGivenToAnotherCall(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		late := good(running(theJob, times()))
		late.after = 2 * time.Second
		j := newRPCJournaling(t, remembering("documentai"), late, good(running("operations/8", nil)))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.Error(t, j.send(ctx, rpcStart(aDocument)).err)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Len(t, j.records(), 1, "durable although its worker has gone")
		require.Equal(t, "1", j.send(t.Context(), rpcStart("Ocr-Proxy-Document-Id: d-2")).own("Attempts"))
		require.Contains(t, j.send(t.Context(), rpcStart(aDocument)).body, theJob)
		j.crash()
		require.Equal(t, "journaled", j.send(t.Context(), rpcStart(aDocument)).own("Reason"))
		j.closing()
	})
}

func TestTheLetterOfAFailedOperationOverRPCKnowsItsDocumentAndItsStart(t *testing.T) {
	status := grpcwire.AppendBytes(nil, 2, grpcwire.AppendBytes(grpcwire.AppendVarint(nil, 1, 3), 2, []byte("bad")))
	for name, tt := range map[string]struct {
		operation []byte
		code      string
	}{
		"an error":             {running(theJob, times(), done(failure(3, "bad")...)...), "INVALID_ARGUMENT"},
		"a batch":              {running(theJob, grpcwire.AppendVarint(nil, 1, 6)), "FAILED"},
		"documents of a batch": {running(theJob, grpcwire.AppendBytes(times(), 5, status), done()...), "INVALID_ARGUMENT"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				failed := good(tt.operation)
				j := newRPCJournaling(t, defaults("documentai"), good(running(theJob, times())), failed, failed)
				start := rpcStart(aDocument, "Ocr-Proxy-Tenant: acme")
				j.send(t.Context(), start)
				j.crash()
				r := j.send(t.Context(), asking("GetOperation", theJob))
				s, _ := r.rpcStatus(t)
				require.Equal(t, grpcwire.OK, s.Code)
				require.Equal(t, []string{"permanent", failed.body}, []string{r.own("Outcome"), r.body}, "passed on as it came")
				require.Equal(t, 1, j.requests(Permanent))
				e := j.sink.letters[0]
				require.Equal(t, theJob, e.Job.ID)
				require.Equal(t, []string{"d-1", "acme", "batchProcess", tt.code}, []string{e.DocumentID, e.Tenant, e.Operation, e.ErrorCode})
				require.Equal(t, []string{batchMethod, "application/grpc"}, []string{e.Request.Path, e.Request.ContentType})
				require.Equal(t, e.Job.Start.Path, e.Request.Path)
				require.Equal(t, start.body, j.sink.bodies[0], "what a replay sends")

				synctest.Wait()
				j.send(t.Context(), asking("WaitOperation", theJob))
				again := j.sink.letters[1]
				require.Equal(t, []string{e.RequestFingerprint, e.IdempotencyKey, e.DocumentID}, []string{again.RequestFingerprint, again.IdempotencyKey, again.DocumentID},
					"the store makes one letter of them")
				synctest.Wait()
				j.upstream.script(good(running("operations/8", nil)))
				require.Contains(t, j.send(t.Context(), start).body, "operations/8", "a failed job answers no start")
				j.quiet()
			})
		})
	}
}

func TestRPCJobsAreFollowedToTheirEnd(t *testing.T) {
	const mine = "Authorization: Bearer of-a-worker"
	for name, tt := range map[string]struct {
		ask    call
		answer step
		ended  bool
	}{
		"running":            {asking("GetOperation", theJob, mine), good(running(theJob, times())), false},
		"done":               {asking("GetOperation", theJob, mine), good(running(theJob, times(), done()...)), true},
		"done, compressed":   {asking("GetOperation", theJob, mine), packedUp(t, running(theJob, times(), done()...)), true},
		"waited for":         {asking("WaitOperation", theJob, mine), good(running(theJob, times(), done()...)), true},
		"deleted":            {asking("DeleteOperation", theJob, mine), good(nil), true},
		"not deleted":        {asking("DeleteOperation", theJob, mine), bad(grpcwire.Unimplemented, "no"), false},
		"cancelled":          {asking("CancelOperation", theJob, mine), good(nil), false},
		"unknown":            {asking("GetOperation", theJob, mine), bad(5, "gone"), true},
		"unknown to another": {asking("GetOperation", theJob, "Authorization: Bearer of-another"), bad(5, "gone"), false},
		"denied":             {asking("GetOperation", theJob, mine), bad(7, "no"), false},
		"no gRPC answer":     {asking("GetOperation", theJob, mine), step{status: 404, body: "<html>"}, false},
		"another job":        {asking("GetOperation", theJob+"7", mine), good(running(theJob+"7", nil, done()...)), false},
		"no name":            {asking("GetOperation", "", mine), bad(5, "no"), false},
		"squeezed question":  {squeezed(t, asking("GetOperation", theJob, mine)), good(done()), true},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				j := newRPCJournaling(t, defaults("documentai"), good(running(theJob, times())), tt.answer)
				j.send(t.Context(), rpcStart(aDocument, mine))
				require.Len(t, j.records(), 1)
				require.NoError(t, j.send(t.Context(), tt.ask).err)
				synctest.Wait()
				require.Equal(t, tt.ended, len(j.records()) == 0)
				j.quiet()
			})
		})
	}
}

// squeezed is a call with its message compressed.
func squeezed(t *testing.T, c call) call {
	t.Helper()
	body := grpcwire.Frame([]byte(zipped(t, c.body[grpcwire.HeaderSize:])))
	body[0] = 1
	c.body, c.header = string(body), c.header+"|Grpc-Encoding: gzip"
	return c
}

func TestTheEndOfAnRPCJobIsAskedForAgain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		end := good(running(theJob, times(), done()...))
		late := end
		late.after = 2 * time.Second
		j := newRPCJournaling(t, remembering("documentai"), good(running(theJob, times())), late, end)
		j.send(t.Context(), rpcStart(aDocument))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.Error(t, j.send(ctx, asking("GetOperation", theJob)).err)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Len(t, j.records(), 1, "nobody knows of its end")
		require.Equal(t, []string{"1", ""}, []string{j.send(t.Context(), asking("GetOperation", theJob)).own("Attempts"), ""}, "a poll is not answered from memory")
		synctest.Wait()
		require.Empty(t, j.records())
		j.closing()
	})
}

func TestARESTJobIsTheSameOverRPC(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		accepted := step{header: asJSON, body: `{"name":"` + theJob + `"}`}
		j := newRPCJournaling(t, defaults("documentai"), accepted, good(running(theJob, times(), done()...)), accepted, good(running(theJob, nil, done(failure(3, "bad")...)...)))
		start := restStart(aDocument)
		j.sendREST(start)
		j.crash()
		j.send(t.Context(), asking("GetOperation", theJob))
		synctest.Wait()
		require.Empty(t, j.records())
		j.sendREST(start)
		j.send(t.Context(), asking("GetOperation", theJob))
		e := j.sink.letters[0]
		require.Equal(t, []string{"d-1", start.target, "application/json", start.body}, []string{e.DocumentID, e.Request.Path, e.Request.ContentType, j.sink.bodies[0]})
		j.quiet()
	})
}

func TestAnRPCJobIsTheSameOverREST(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		j := newRPCJournaling(t, defaults("documentai"), good(running(theJob, times())),
			step{header: asJSON, body: `{"name":"` + theJob + `","done":true,"error":{"code":3,"message":"bad"}}`})
		start := rpcStart(aDocument)
		j.send(t.Context(), start)
		j.crash()
		j.sendREST(restPoll(theJob))
		e := j.sink.letters[0]
		require.Equal(t, []string{"d-1", batchMethod, "application/grpc", start.body}, []string{e.DocumentID, e.Request.Path, e.Request.ContentType, j.sink.bodies[0]})
		j.quiet()
	})
}

// Nobody gets an answer in a form that it cannot read: over the other transport a repeat is another call.
func TestARepeatOverTheOtherTransportIsAnotherCall(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		j := newRPCJournaling(t, remembering("documentai"), step{header: asJSON, body: `{"name":"` + theJob + `"}`}, good(running("operations/8", nil)))
		require.Equal(t, `{"name":"`+theJob+`"}`, j.sendREST(restStart(aDocument)).body)
		r := j.send(t.Context(), rpcStart(aDocument))
		require.Equal(t, []string{"1", string(grpcwire.Frame(running("operations/8", nil)))}, []string{r.own("Attempts"), r.body})
		j.crash()
		rest, rpc := j.sendREST(restStart(aDocument)), j.send(t.Context(), rpcStart(aDocument))
		require.Equal(t, []string{"journaled", "journaled"}, []string{rest.own("Reason"), rpc.own("Reason")})
		require.Equal(t, []string{`{"name":"` + theJob + `"}`, r.body}, []string{rest.body, rpc.body})
		require.Len(t, j.upstream.attempts(), 2)
		j.closing()
	})
}

func TestOnlyAcceptedRPCStartsAreJournaled(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := defaults("documentai")
		s.policy.MaxAttempts = 1
		j := newRPCJournaling(t, s)
		halfway := good(running(theJob, make([]byte, 2*maxKept))) // too large to be kept through a wait, so that it is held
		halfway.header = "Content-Type: application/grpc|" + http.TrailerPrefix + "Grpc-Status: 13"
		for name, answer := range map[string]step{
			"refused": bad(3, "bad"), "an error behind a message": halfway, "no name": good(nil), "no status": {header: "Content-Type: application/grpc", body: halfway.body},
			"lost": lostCall(), "no message": good([]byte("\x0f")), "no operation": good(grpcwire.AppendBytes(nil, 1, []byte("x"))),
			"plain HTTP": {header: asJSON, body: `{"name":"` + theJob + `"}`},
		} {
			j.upstream.script(answer)
			j.send(t.Context(), rpcStart(aDocument))
			require.Empty(t, j.records(), name)
		}
		j.quiet()
	})
}

// A credential cannot be cut out of a message, and must not be written down.
func TestAnRPCAnswerThatEchoesACredentialIsNotWrittenDown(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		echo := good(running(theJob, grpcwire.AppendBytes(times(), 2, []byte("for of-a-worker"))))
		j := newRPCJournaling(t, defaults("documentai"), echo)
		r := j.send(t.Context(), rpcStart(aDocument, "Authorization: Bearer of-a-worker"))
		require.Equal(t, []string{echo.body, "success"}, []string{r.body, r.own("Outcome")})
		require.Empty(t, j.records())
		lines := j.logs.FilterMessageSnippet("not in the journal").All()
		require.Len(t, lines, 1)
		require.NotContains(t, lines[0].ContextMap()["error"], "of-a-worker")
		j.quiet()
	})
}
