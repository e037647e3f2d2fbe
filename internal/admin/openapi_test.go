package admin

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/ocr-proxy/ocr-proxy/internal/dlq"
	"github.com/ocr-proxy/ocr-proxy/internal/replay"
)

// described is the description as a tree.
func described(t *testing.T) (doc map[string]any) {
	t.Helper()
	require.NoError(t, yaml.Unmarshal(description, &doc))
	return doc
}

// answers are the documented ones: "GET /healthz 200".
func documentedAnswers(t *testing.T) (all []string) {
	t.Helper()
	for path, item := range described(t)["paths"].(map[string]any) {
		for method, operation := range item.(map[string]any) {
			if method == "parameters" {
				continue
			}
			for status := range operation.(map[string]any)["responses"].(map[string]any) {
				all = append(all, strings.ToUpper(method)+" "+path+" "+status)
			}
		}
	}
	slices.Sort(all)
	return all
}

func TestTheDescriptionNamesTheRoutesThatThereAre(t *testing.T) {
	t.Parallel()
	handler, err := New(options(t))
	require.NoError(t, err)
	var routes, documented []string
	require.NoError(t, chi.Walk(handler.(chi.Routes), func(method, route string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		if route != "/" && !strings.HasPrefix(route, "/letters") && !strings.HasPrefix(route, "/assets/") { // the pages for people
			routes = append(routes, method+" "+route)
		}
		return nil
	}))
	for _, answer := range documentedAnswers(t) {
		documented = append(documented, answer[:strings.LastIndex(answer, " ")])
	}
	slices.Sort(routes)
	require.Equal(t, routes, slices.Compact(documented))
}

// full is a letter in which every field says something.
func full() *dlq.Envelope {
	at, status := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), 503
	request := dlq.Request{Method: "POST", Path: "/", Headers: map[string][]string{"X-A": {"b"}}, Credentials: []string{"header:X-Key"}}
	return &dlq.Envelope{
		Provider: "a", Kind: "generic", Outcome: "exhausted", ErrorClass: "transient", FailureClass: "transient", HTTPStatus: &status, RetryNotBefore: &at,
		Attempts: []dlq.Attempt{{N: 1, StartedAt: at, HTTPStatus: &status, ErrorClass: "transient", WaitSource: "none"}}, Request: request,
		Job: &dlq.Job{ID: "j", Start: &request}, Replays: []dlq.Replay{{At: at, Outcome: "exhausted", ErrorClass: "transient", HTTPStatus: &status}},
	}
}

// scene is a listener with an open letter of every shape.
type scene struct {
	options Options
	id      string
}

func newScene(t *testing.T) *scene {
	t.Helper()
	o, ids := withLetters(t, 1)
	_, err := o.Letters.Put(t.Context(), full(), nil)
	require.NoError(t, err)
	return &scene{o, ids[0]}
}

// How each documented answer comes about, beside those that every guarded route gives: what is changed about a good request.
type cause func(t *testing.T, s *scene, r *request)

type request struct{ method, target, header, body string }

func body(text string) cause { return func(_ *testing.T, _ *scene, r *request) { r.body = text } }

func asking(text string) cause { return func(_ *testing.T, _ *scene, r *request) { r.target += text } }

func closed(t *testing.T, s *scene, _ *request) { require.NoError(t, s.options.Letters.Close()) }

// replayed stands for the handler that makes replays, which has tests of its own.
func replayed(status int, answer any) cause {
	return func(_ *testing.T, s *scene, _ *request) {
		s.options.Replay = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if status != http.StatusOK {
				say(w, status, "a sentence")
				return
			}
			writeJSON(w, answer)
		})
	}
}

func damaged(t *testing.T, s *scene, _ *request) {
	require.NoError(t, os.WriteFile(filepath.Join(s.options.LettersDir, "open", s.id+".json"), []byte("{"), 0o600))
}

func gone(t *testing.T, s *scene, _ *request) { require.NoError(t, os.RemoveAll(s.options.LettersDir)) }

func unknown(_ *testing.T, s *scene, r *request) {
	r.target = strings.ReplaceAll(r.target, s.id, "0192d3c0-7a1b-7c3d-8e4f-5a6b7c8d9e0f")
}

func ambiguous(_ *testing.T, s *scene, r *request) {
	r.target = strings.ReplaceAll(r.target, s.id, s.id[:8])
}

func claimed(t *testing.T, s *scene, _ *request) {
	_, err := s.options.Letters.Claim(s.id)
	require.NoError(t, err)
}

// pruning keeps a prune at work until the test ends: it waits for a letter that is being written.
func pruning(t *testing.T, s *scene) {
	t.Helper()
	body, end := io.Pipe()
	var hands sync.WaitGroup
	hands.Go(func() {
		_, _ = s.options.Letters.Put(context.Background(), &dlq.Envelope{Provider: "a", Outcome: "permanent"}, body)
	})
	_, err := end.Write([]byte("x")) // now it is being written
	require.NoError(t, err)
	refused := make(chan error, 2)
	for range 2 { // one of them has to wait
		hands.Go(func() {
			_, err := s.options.Letters.Prune(context.Background(), dlq.PruneOptions{DryRun: true})
			refused <- err
		})
	}
	require.ErrorIs(t, <-refused, dlq.ErrPruning)
	t.Cleanup(func() {
		require.NoError(t, end.Close())
		hands.Wait()
	})
}

func causes() map[string]cause {
	const list, one = "GET /api/v1/dead-letters ", "GET /api/v1/dead-letters/{id} "
	const resolve, discard = "POST /api/v1/dead-letters/{id}/resolve ", "POST /api/v1/dead-letters/{id}/discard "
	const again, prune = "POST /api/v1/dead-letters/{id}/replay ", "POST /api/v1/dead-letters/prune "
	tooLarge, notJSON := body(`{"note":"`+strings.Repeat("x", maxOrder)+`"}`), func(_ *testing.T, _ *scene, r *request) { r.header = "" }
	return map[string]cause{
		list + "200": asking("?status=open&provider=a&limit=1"), list + "400": asking("?limit=0"), list + "500": gone,
		one + "200": nil, one + "400": ambiguous, one + "404": unknown, one + "500": damaged,
		resolve + "200": nil, resolve + "400": ambiguous, resolve + "404": unknown, resolve + "409": claimed, resolve + "413": tooLarge,
		resolve + "415": notJSON, resolve + "500": damaged, resolve + "503": closed,
		discard + "200": nil, discard + "400": body(`{}`), discard + "404": unknown, discard + "409": claimed, discard + "413": tooLarge,
		discard + "415": notJSON, discard + "500": damaged, discard + "503": closed,
		prune + "200": nil, prune + "400": body(`{"older_than":"1"}`), prune + "413": tooLarge, prune + "415": notJSON, prune + "503": closed,
		prune + "409": func(t *testing.T, s *scene, _ *request) { pruning(t, s) },
		prune + "500": func(t *testing.T, s *scene, _ *request) {
			payloads := filepath.Join(s.options.LettersDir, "payloads")
			require.NoError(t, os.RemoveAll(payloads))
			require.NoError(t, os.WriteFile(payloads, nil, 0o600))
		},
		again + "200": replayed(200, replay.Result{ID: "x", Status: dlq.StatusResolved}), again + "404": replayed(404, nil), again + "409": replayed(409, nil),
		again + "422": replayed(422, nil), again + "425": replayed(425, nil), again + "500": replayed(500, nil), again + "503": replayed(503, nil),
		"GET /api/v1/providers 200": nil, "GET /api/v1/openapi.yaml 200": nil, "GET /metrics 200": nil, "GET /healthz 200": nil,
		"GET /readyz 200": nil, "GET /readyz 503": func(_ *testing.T, s *scene, _ *request) { s.options.Ready = func() bool { return false } },
		"POST /quitquitquit 202":         nil,
		"GET /debug/pprof/profile 200":   asking("?seconds=1"),
		"GET /debug/pprof/{profile} 200": nil,
		"GET /debug/pprof/{profile} 404": func(_ *testing.T, _ *scene, r *request) { r.target = "/debug/pprof/none" },
	}
}

// ofTheGuard are the answers that every guarded route gives.
func ofTheGuard() map[string]cause {
	return map[string]cause{
		"401": func(t *testing.T, s *scene, _ *request) {
			s.options.Listen, s.options.TokenFile = everywhere, filepath.Join(t.TempDir(), "token")
			require.NoError(t, os.WriteFile(s.options.TokenFile, []byte("t"), 0o600))
		},
		"403": func(_ *testing.T, _ *scene, r *request) { r.header += "|Sec-Fetch-Site: cross-site" },
		"421": func(_ *testing.T, _ *scene, r *request) { r.header += "|Host: evil.example" },
	}
}

func TestTheHandlersAnswerAsDescribed(t *testing.T) {
	t.Parallel()
	schemas := newSchemas(t)
	known := causes()
	for _, answer := range documentedAnswers(t) {
		method, rest, _ := strings.Cut(answer, " ")
		path, status, _ := strings.Cut(rest, " ")
		change, ok := known[answer]
		delete(known, answer)
		if !ok {
			change, ok = ofTheGuard()[status]
		}
		require.True(t, ok, "%s is documented, and nothing here brings it about", answer)
		t.Run(answer, func(t *testing.T) {
			s := newScene(t)
			r := &request{method: method, target: strings.NewReplacer("{id}", s.id, "{profile}", "heap").Replace(path), header: isJSON, body: `{"note":"n"}`}
			switch {
			case strings.HasSuffix(path, "/prune"):
				r.body = `{"dry_run":false,"older_than":"720h"}`
			case method == http.MethodGet || path == "/quitquitquit" || strings.HasSuffix(path, "/replay"):
				r.header, r.body = "", ""
			}
			if change != nil {
				change(t, s, r)
			}
			w := order(t, s.options, r.method, r.target, r.header, r.body)
			require.Equal(t, status, strconv.Itoa(w.Code), "%s", w.Body)
			at := []string{"paths", path, strings.ToLower(method)}
			schemas.check(t, append(slices.Clone(at), "responses", status), w.Header().Get("Content-Type"), w.Body.String())
			if r.body != "" && w.Code < 300 {
				schemas.check(t, append(slices.Clone(at), "requestBody"), "application/json", r.body)
			}
		})
	}
	require.Empty(t, known, "these are not documented")
}

// schemas are those of the description, ready to be compared with what is said.
type schemas struct {
	doc      map[string]any
	compiler *jsonschema.Compiler
}

func newSchemas(t *testing.T) *schemas {
	t.Helper()
	doc := described(t)
	text, err := json.Marshal(doc)
	require.NoError(t, err)
	tree, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	require.NoError(t, err)
	s := &schemas{doc, jsonschema.NewCompiler()}
	s.compiler.AssertFormat()
	require.NoError(t, s.compiler.AddResource("openapi.yaml", tree))
	return s
}

// check compares a body with what is documented at a place, to which the parts lead.
func (s *schemas) check(t *testing.T, place []string, contentType, body string) {
	t.Helper()
	at := slices.Clone(place)
	if ref, ok := s.find(t, at)["$ref"].(string); ok {
		at = nil
		for part := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
			at = append(at, part)
		}
	}
	media, _, err := mime.ParseMediaType(contentType)
	require.NoError(t, err)
	at = append(at, "content", media, "schema")
	s.find(t, at)
	if media != "application/json" {
		return
	}
	for i, part := range at {
		at[i] = strings.NewReplacer("~", "~0", "/", "~1").Replace(part)
	}
	schema, err := s.compiler.Compile("openapi.yaml#/" + strings.Join(at, "/"))
	require.NoError(t, err)
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(body))
	require.NoError(t, err)
	require.NoError(t, schema.Validate(value))
}

func (s *schemas) find(t *testing.T, at []string) map[string]any {
	t.Helper()
	here := s.doc
	for i, part := range at {
		next, ok := here[part].(map[string]any)
		require.True(t, ok, "nothing is documented at %v", at[:i+1])
		here = next
	}
	return here
}

// Fields that are missing in the description are no mistake to a validator.
func TestEveryFieldIsDescribed(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	decode(t, post(t, s.options, s.id+"/resolve", `{"note":"n"}`))
	all := described(t)["components"].(map[string]any)["schemas"].(map[string]any)
	letter := decode(t, ask(t, s.options, http.MethodGet, "/api/v1/dead-letters?provider=a", ""))["dead_letters"].([]any)[0].(map[string]any)
	letter["resolution"] = decode(t, ask(t, s.options, http.MethodGet, "/api/v1/dead-letters/"+s.id, ""))["resolution"]
	account := decode(t, ask(t, s.options, http.MethodGet, "/api/v1/providers", ""))["providers"].([]any)[0]
	require.Empty(t, undescribed(all, all["Letter"], letter, "letter"))
	require.Empty(t, undescribed(all, all["Account"], account, "account"))
	letter["request"].(map[string]any)["new"] = 1
	require.Equal(t, []string{"letter.request.new"}, undescribed(all, all["Letter"], letter, "letter"))
}

// undescribed lists the fields of a value that its schema does not name.
func undescribed(all map[string]any, schema, value any, at string) (missing []string) {
	s, _ := schema.(map[string]any)
	if ref, ok := s["$ref"].(string); ok {
		return undescribed(all, all[ref[strings.LastIndex(ref, "/")+1:]], value, at)
	}
	if choice, ok := s["anyOf"].([]any); ok && value != nil {
		return undescribed(all, choice[len(choice)-1], value, at)
	}
	switch v := value.(type) {
	case map[string]any:
		properties, _ := s["properties"].(map[string]any)
		for name, member := range v {
			described := cmp.Or(properties[name], s["additionalProperties"])
			if described == nil || described == false {
				missing = append(missing, at+"."+name)
				continue
			}
			missing = append(missing, undescribed(all, described, member, at+"."+name)...)
		}
	case []any:
		for i, item := range v {
			missing = append(missing, undescribed(all, s["items"], item, fmt.Sprintf("%s[%d]", at, i))...)
		}
	}
	return missing
}

func TestTheEstimateOfAReplayIsAsDescribed(t *testing.T) {
	t.Parallel()
	pages := 3
	for _, e := range []replay.Estimate{{ID: "x", Calls: 1}, {ID: "x", Calls: 1, Pages: &pages, Ambiguous: true}} {
		text, err := json.Marshal(e)
		require.NoError(t, err)
		newSchemas(t).check(t, []string{"paths", "/api/v1/dead-letters/{id}/replay", "post", "responses", "200"}, "application/json", string(text))
	}
}
