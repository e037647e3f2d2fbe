package proxy

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ocr-proxy/ocr-proxy/internal/breaker"
	"github.com/ocr-proxy/ocr-proxy/internal/grpcwire"
)

// paperPDF is a PDF of some pages with the same content; "": they are empty.
func paperPDF(pages int, content string) string {
	var b bytes.Buffer
	var at []int
	object := func(format string, args ...any) {
		at = append(at, b.Len())
		fmt.Fprintf(&b, strconv.Itoa(len(at))+" 0 obj\n"+format+"\nendobj\n", args...)
	}
	b.WriteString("%PDF-1.4\n")
	object("<< /Type /Catalog /Pages 2 0 R >>")
	var kids strings.Builder
	for n := range pages {
		fmt.Fprintf(&kids, "%d 0 R ", 5+n)
	}
	object("<< /Type /Pages /Count %d /Kids [ %s] /Resources << /Font << /F1 4 0 R >> >> /MediaBox [0 0 612 792] >>", pages, kids.String())
	object("<< /Length %d >>\nstream\n%s\nendstream", len(content), content)
	object("<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>")
	for range pages {
		if content == "" {
			object("<< /Type /Page /Parent 2 0 R >>")
		} else {
			object("<< /Type /Page /Parent 2 0 R /Contents 3 0 R >>")
		}
	}
	start := b.Len()
	fmt.Fprintf(&b, "xref\n0 %d\n0000000000 65535 f \n", len(at)+1)
	for _, offset := range at {
		fmt.Fprintf(&b, "%010d 00000 n \n", offset)
	}
	fmt.Fprintf(&b, "trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n", len(at)+1, start)
	return b.String()
}

const written = "BT /F1 12 Tf 72 700 Td (Rent) Tj ET"

func chat(more string) call {
	return call{target: "/v1/chat/completions", header: asJSON, body: `{"model":"m","messages":[{"role":"user","content":"read"}]` + more + `}`}
}

func completion(content string) string {
	return fmt.Sprintf(`{"choices":[{"finish_reason":"stop","message":{"content":%q}}]}`, content)
}

const wantsJSON = `,"response_format":{"type":"json_schema","json_schema":{}}`

// silentCases are answers that look good, each with what is found in it; "": nothing.
func silentCases(t *testing.T) map[string]struct {
	kind   string
	call   call
	body   string
	reason string
} {
	t.Helper()
	ink, blank := b64(scan(t, true)), b64(scan(t, false))
	image := func(document string) call {
		return call{target: "/", header: amzJSON + "|X-Amz-Target: Textract.DetectDocumentText", body: `{"Document":{"Bytes":"` + document + `"}}`}
	}
	ocr := func(document, more string) call {
		return call{target: ocrCall, header: asJSON, body: `{"model":"m"` + more + `,"document":{"type":"document_url","document_url":"data:application/pdf;base64,` + b64(document) + `"}}`}
	}
	page := func(n int, markdown string) string { return fmt.Sprintf(`{"index":%d,"markdown":%q}`, n, markdown) }
	process := func(document, more string) call {
		return call{target: "/v1/projects/p/locations/eu/processors/x:process", header: asJSON, body: `{"rawDocument":{"mimeType":"application/pdf","content":"` + b64(document) + `"}` + more + `}`}
	}
	return map[string]struct {
		kind   string
		call   call
		body   string
		reason string
	}{
		"text where JSON was asked for":      {"openai", chat(wantsJSON), completion("The rent is 950."), "malformed_output"},
		"JSON in a fence":                    {"openai", chat(`,"response_format":{"type":"json_object"}`), completion("```json\n{}\n```"), "malformed_output"},
		"JSON that breaks off":               {"mistral", chat(wantsJSON), completion(`{"rent": 950`), "malformed_output"},
		"JSON as asked for":                  {"openai", chat(wantsJSON), completion(`{"rent": 950}`), ""},
		"a refusal":                          {"openai", chat(wantsJSON), `{"choices":[{"message":{"content":null,"refusal":"no","tool_calls":[{"function":{"arguments":"{}"}}]}}]}`, ""},
		"text as asked for":                  {"openai", chat(""), completion("The rent is 950."), ""},
		"text in a response":                 {"openai", call{target: "/v1/responses", header: asJSON, body: `{"text":{"format":{"type":"json_schema"}},"input":"x"}`}, `{"status":"completed","output":[{"content":[{"type":"output_text","text":"Sure!"}]}]}`, "malformed_output"},
		"no object where one was asked for":  {"openai", chat(`,"response_format":{"type":"json_object"}`), completion(` "The rent is 950."`), "malformed_output"},
		"a list where a schema may want one": {"openai", chat(wantsJSON), completion("[950]"), ""},
		"reasons before a JSON output": {
			"openai",
			call{target: "/v1/responses", header: asJSON, body: `{"text":{"format":{"type":"json_object"}},"input":"x"}`},
			`{"status":"completed","output":[{"type":"reasoning","content":[{"text":"Let me see.","type":"reasoning_text"}]},{"type":"message","content":[{"type":"output_text","text":"{}"}]}]}`, "",
		},
		"reasons before another output": {
			"openai",
			call{target: "/v1/responses", header: asJSON, body: `{"text":{"format":{"type":"json_object"}},"input":"x"}`},
			`{"status":"completed","output":[{"type":"reasoning","content":[{"type":"reasoning_text","text":"Let me see."}]},{"type":"message","content":[{"text":"Sure!","type":"output_text"}]}]}`, "malformed_output",
		},
		"an annotation that is none":    {"mistral", ocr(paperPDF(1, written), `,"document_annotation_format":{"type":"json_schema"}`), `{"document_annotation":"Rent","pages":[` + page(0, "Rent") + `]}`, "malformed_output"},
		"more than one malformed":       {"mistral", ocr(paperPDF(1, written), `,"bbox_annotation_format":{"type":"json_schema"}`), `{"pages":[{"index":0,"markdown":"Rent","images":[{"image_annotation":"{}"},{"image_annotation":"{"}]}]}`, "malformed_output"},
		"no words":                      {"textract", image(ink), `{"DocumentMetadata":{"Pages":1},"Blocks":[{"BlockType":"PAGE"}]}`, "empty_text"},
		"no words on a blank page":      {"textract", image(blank), `{"DocumentMetadata":{"Pages":1},"Blocks":[{"BlockType":"PAGE"}]}`, ""},
		"words":                         {"textract", image(ink), `{"Blocks":[{"BlockType":"LINE","Text":"Rent","Confidence":99}]}`, ""},
		"no words, more parts to come":  {"textract", textractPoll("j"), `{"JobStatus":"SUCCEEDED","NextToken":"n","Blocks":[]}`, ""},
		"no words of a job":             {"textract", textractPoll("j"), `{"JobStatus":"SUCCEEDED","Blocks":[]}`, "empty_text"},
		"a job that goes on":            {"textract", textractPoll("j"), `{"JobStatus":"IN_PROGRESS"}`, ""},
		"pages of spaces":               {"mistral", ocr(paperPDF(2, written), ""), `{"pages":[` + page(0, " \n ") + `,` + page(1, "") + `]}`, "empty_text"},
		"a page taken for a picture":    {"mistral", ocr(paperPDF(1, written), ""), `{"pages":[` + page(0, "![img-0.jpeg](img-0.jpeg)\n") + `]}`, "empty_text"},
		"a picture and a caption":       {"mistral", ocr(paperPDF(1, written), ""), `{"pages":[` + page(0, "![a](b) Rent") + `]}`, ""},
		"empty pages, no text":          {"mistral", ocr(paperPDF(2, ""), ""), `{"pages":[` + page(0, "") + `,` + page(1, "") + `]}`, ""},
		"the last page is missing":      {"mistral", ocr(paperPDF(3, written), ""), `{"pages":[` + page(0, "a") + `,` + page(1, "b") + `]}`, "missing_pages"},
		"a page between is missing":     {"mistral", ocr(paperPDF(1, written), ""), `{"pages":[` + page(0, "a") + `,` + page(2, "c") + `]}`, "missing_pages"},
		"all pages that were asked for": {"mistral", ocr(paperPDF(3, written), `,"pages":[0,1]`), `{"pages":[` + page(0, "a") + `,` + page(1, "b") + `]}`, ""},
		"not all that were asked for":   {"mistral", ocr(paperPDF(3, written), `,"pages":[0,1,2]`), `{"pages":[` + page(0, "a") + `,` + page(1, "b") + `]}`, "missing_pages"},
		"all pages":                     {"mistral", ocr(paperPDF(2, written), ""), `{"pages":[` + page(0, "a") + `,` + page(1, "b") + `]}`, ""},
		"a document beyond our reach":   {"mistral", call{target: ocrCall, header: asJSON, body: `{"document":{"type":"document_url","document_url":"https://x/y.pdf"}}`}, `{"pages":[` + page(0, "a") + `]}`, ""},
		"a page too few":                {"documentai", process(paperPDF(2, written), ""), `{"document":{"text":"Rent","pages":[{"pageNumber":1}]}}`, "missing_pages"},
		"some pages":                    {"documentai", process(paperPDF(2, written), `,"processOptions":{"fromStart":1}`), `{"document":{"text":"Rent","pages":[{"pageNumber":1}]}}`, ""},
		"no text":                       {"documentai", process(paperPDF(1, written), ""), `{"document":{"pages":[{"pageNumber":1}]}}`, "empty_text"},
		"text that was not asked for":   {"documentai", process(paperPDF(1, written), `,"fieldMask":"pages.pageNumber"`), `{"document":{"pages":[{"pageNumber":1}]}}`, ""},
		"text masked out by the query":  {"documentai", masked(process(paperPDF(1, written), ""), "?fields=document.pages", ""), `{"document":{"pages":[{"pageNumber":1}]}}`, ""},
		"text masked out by a header":   {"documentai", masked(process(paperPDF(1, written), ""), "", "|X-Goog-FieldMask: document.pages"), `{"document":{"pages":[{"pageNumber":1}]}}`, ""},
		"a tool beside an empty text":   {"openai", chat(wantsJSON), `{"choices":[{"message":{"content":"","tool_calls":[{"function":{"arguments":"{}"}}]}}]}`, ""},
		"text that was masked in":       {"documentai", process(paperPDF(1, written), `,"fieldMask":"pages,text"`), `{"document":{"pages":[{"pageNumber":1}]}}`, "empty_text"},
		"labels only":                   {"vision", call{target: "/v1/images:annotate", header: asJSON, body: `{"requests":[{"image":{"content":"` + ink + `"},"features":[{"type":"LABEL_DETECTION"}]}]}`}, `{"responses":[{}]}`, ""},
		"an image without text":         {"vision", call{target: "/v1/images:annotate", header: asJSON, body: `{"requests":[{"image":{"content":"` + ink + `"},"features":[{"type":"DOCUMENT_TEXT_DETECTION"}]}]}`}, `{"responses":[{}]}`, "empty_text"},
		"a blank image":                 {"vision", call{target: "/v1/images:annotate", header: asJSON, body: `{"requests":[{"image":{"content":"` + blank + `"},"features":[{"type":"TEXT_DETECTION"}]}]}`}, `{"responses":[{}]}`, ""},
		"a form without text":           {"ocrspace", call{target: "/parse/image", header: "Content-Type: application/x-www-form-urlencoded", body: "base64Image=data:image/png;base64," + strings.ReplaceAll(ink, "+", "%2B")}, `{"OCRExitCode":1,"ParsedResults":[{"ParsedText":""}]}`, "empty_text"},
		"an address":                    {"generic", call{body: "scan"}, `{"result":{"type":"url","url":"https://x"}}`, "url_only"},
		"the result itself":             {"generic", call{body: "scan"}, `{"result":{"type":"full","chunks":[]}}`, ""},
		"a truncated one is no mistake": {"openai", chat(wantsJSON), `{"choices":[{"finish_reason":"length","message":{"content":"{"}}]}`, "truncated"},
	}
}

func masked(c call, query, header string) call {
	c.target += query
	c.header += header
	return c
}

// all is every silent failure with the same action.
func all(action Action) map[string]Action {
	return map[string]Action{
		"empty_text": action, "missing_pages": action, "partial": action, "truncated": action, "malformed_output": action, "url_only": action,
	}
}

func TestSilentFailures(t *testing.T) {
	t.Parallel()
	for name, c := range silentCases(t) {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				l := newLab(t, reviewingBy(c.kind, Scrutiny{Actions: all(LookAt)}), step{header: asJSON, body: c.body})
				r := l.send(t.Context(), c.call)
				require.Equal(t, []string{c.reason, c.body}, []string{r.own("Reason"), r.body})
				if c.reason == "" {
					require.Equal(t, []string{"success", "success"}, []string{r.own("Outcome"), r.own("Class")})
					require.Zero(t, l.sink.count())
					require.Zero(t, l.figure("silent_failures_total"))
				} else {
					require.Equal(t, []string{"review", "soft"}, []string{r.own("Outcome"), r.own("Class")})
					letter, _ := l.buried()
					require.Equal(t, []string{"review", "soft", c.reason}, []string{letter.Outcome, letter.FailureClass, letter.ErrorCode})
					require.Equal(t, 1, l.figure("silent_failures_total", "reason", c.reason))
				}
				require.Zero(t, l.circuit().Failures, "the provider is well")
				l.closing()
			})
		})
	}
}

func TestSilentFailuresThatAreAcceptedAreNotLookedFor(t *testing.T) {
	t.Parallel()
	for name, c := range silentCases(t) {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				l := newLab(t, reviewingBy(c.kind, Scrutiny{}), step{header: asJSON, body: c.body})
				r := l.send(t.Context(), c.call)
				require.Equal(t, []string{"success", c.body}, []string{r.own("Outcome"), r.body})
				require.Zero(t, l.sink.count())
				l.closing()
			})
		})
	}
}

// doubting is a fleet whose listener asks b where an answer is doubtful.
func doubting(t *testing.T, kind string) *fleet {
	t.Helper()
	s := travelling(kind)
	remember := s.account
	s.account = func(a *Account) {
		remember(a)
		a.Scrutiny = Scrutiny{Actions: all(Elsewhere)}
	}
	f := newFleet(t, s, "b", "c")
	f.falls("b", "c")
	return f
}

func TestAnotherAccountIsAskedOnceForABetterAnswer(t *testing.T) {
	doubtful, good := step{header: asJSON, body: completion("Sure! The rent is 950.")}, step{header: asJSON, body: completion(`{"rent":950}`)}
	for name, c := range map[string]struct {
		second  []step
		outcome string
		body    string
		asked   string
	}{
		"it has one":              {[]step{good}, "success", good.body, "b"},
		"its answer is no better": {[]step{doubtful}, "review", doubtful.body, ""},
		"it fails":                {[]step{{status: 400, body: `{"error":{"message":"no"}}`}}, "review", doubtful.body, ""},
		"it answers with a page":  {[]step{{header: "Content-Type: text/html", body: "<p>log in</p>"}}, "review", doubtful.body, ""},
		"it answers with nothing": {[]step{{status: 204}}, "review", doubtful.body, ""},
		"it answers with no JSON": {[]step{{header: asJSON}}, "review", doubtful.body, ""},
		"it does not say what it is": {[]step{{handle: func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = nil
			_, _ = io.WriteString(w, "log in")
		}}}, "review", doubtful.body, ""},
		"it sends elsewhere":         {[]step{{status: 302, header: "Location: https://login.example/"}}, "review", doubtful.body, ""},
		"it fails and is tried":      {[]step{{status: 503}, good}, "success", good.body, "b"},
		"it fails as long as it may": {[]step{{status: 503}, {status: 503}}, "review", doubtful.body, ""},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				f := doubting(t, "openai")
				f.at["acct"].script(doubtful)
				for _, s := range c.second {
					f.at["b"].script(s)
				}
				r := f.send(t.Context(), chat(wantsJSON))
				require.Equal(t, []string{c.outcome, c.body}, []string{r.own("Outcome"), r.body})
				require.Equal(t, strconv.Itoa(1+len(c.second)), r.own("Attempts"))
				require.Equal(t, map[string]int{"acct": 1, "b": len(c.second)}, f.asked())
				letters := 0
				if c.outcome == "review" {
					letters = 1
					require.Equal(t, "malformed_output", r.own("Reason"))
				}
				require.Equal(t, letters, f.sink.count())
				line := f.logs.FilterMessage("request").All()[0].ContextMap()
				if c.asked == "" {
					require.NotContains(t, line, "asked")
				} else {
					require.Equal(t, c.asked, line["asked"])
				}
				f.quiet()
			})
		})
	}
}

// Empty text and missing pages are asked for elsewhere as well as malformed output is.
func TestWhatIsAskedForElsewhere(t *testing.T) {
	for reason, c := range map[string]struct{ bad, good string }{
		"empty_text":    {`{"pages":[{"index":0,"markdown":""},{"index":1,"markdown":""}]}`, `{"pages":[{"index":0,"markdown":"a"},{"index":1,"markdown":"b"}]}`},
		"missing_pages": {`{"pages":[{"index":0,"markdown":"a"}]}`, `{"pages":[{"index":0,"markdown":"a"},{"index":1,"markdown":"b"}]}`},
	} {
		for _, better := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s better %t", reason, better), func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					f := doubting(t, "mistral")
					f.at["acct"].script(step{header: asJSON, body: c.bad})
					body, outcome := c.good, "success"
					if !better {
						body, outcome = c.bad, "review"
					}
					f.at["b"].script(step{header: asJSON, body: body})
					r := f.send(t.Context(), call{target: ocrCall, header: asJSON, body: `{"model":"m","document":{"type":"document_url","document_url":"data:application/pdf;base64,` + b64(paperPDF(2, written)) + `"}}`})
					require.Equal(t, []string{outcome, body, "2"}, []string{r.own("Outcome"), r.body, r.own("Attempts")})
					require.Equal(t, map[string]int{"acct": 1, "b": 1}, f.asked())
					f.quiet()
				})
			})
		}
	}
}

func TestWhenNobodyElseIsAsked(t *testing.T) {
	for name, c := range map[string]struct {
		change func(f *fleet)
		after  time.Duration
		asked  map[string]int
	}{
		"the next circuit is open": {func(f *fleet) {
			for range 30 {
				permit, err := f.accounts["b"].Breakers.For("").Acquire(nil, false)
				require.NoError(f.t, err)
				permit.Done(breaker.Failure)
				if f.logins["b"].circuit().State != breaker.Closed {
					break
				}
			}
			f.at["c"].script(step{header: asJSON, body: completion(`{"rent":950}`)})
		}, 0, map[string]int{"acct": 1, "c": 1}},
		"the time is over": {func(*fleet) {}, 9999 * time.Millisecond, map[string]int{"acct": 1}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				f := doubting(t, "openai")
				c.change(f)
				f.at["acct"].script(step{header: asJSON, body: completion("Sure!"), after: c.after})
				r := f.send(t.Context(), call{target: "/v1/chat/completions", header: asJSON + "|Ocr-Proxy-Timeout: 10s", body: chat(wantsJSON).body})
				require.Equal(t, 200, r.status)
				require.Equal(t, c.asked, f.asked())
			})
		})
	}
}

func TestWithoutAnotherAccountADoubtfulAnswerIsForReview(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, reviewingBy("openai", Scrutiny{Actions: all(Elsewhere)}), step{header: asJSON, body: completion("Sure!")})
		r := l.send(t.Context(), chat(wantsJSON))
		require.Equal(t, []string{"review", "malformed_output", "1"}, []string{r.own("Outcome"), r.own("Reason"), r.own("Attempts")})
		l.closing()
	})
}

// The result of a job can be asked for only where the job is.
func TestAJobsResultIsNotAskedForElsewhere(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := doubting(t, "textract")
		f.at["acct"].script(step{header: amzJSON, body: `{"JobStatus":"PARTIAL_SUCCESS","Blocks":[{"Text":"a"}]}`})
		r := f.send(t.Context(), textractPoll("j"))
		require.Equal(t, []string{"review", "partial"}, []string{r.own("Outcome"), r.own("Reason")})
		require.Equal(t, map[string]int{"acct": 1}, f.asked())
		f.quiet()
	})
}

// What the free tier does: it reads the first two pages and says nothing of the third.
func TestAJobsResultIsHeldAgainstTheDocumentOfItsStart(t *testing.T) {
	for name, c := range map[string]struct {
		pages   int
		query   string
		content string
		result  step
		reason  string
	}{
		"pages are missing":             {3, "", written, azureResult("1", "2"), "missing_pages"},
		"all are there":                 {2, "", written, azureResult("1", "2"), ""},
		"those that were asked for are": {3, "&pages=1-2", written, azureResult("1", "2"), ""},
		"one of those is not":           {3, "&pages=1-3", written, azureResult("1", "2"), "missing_pages"},
		"there is no text":              {1, "", written, step{header: asJSON, body: `{"status":"succeeded","analyzeResult":{"content":"","pages":[{"pageNumber":1}]}}`}, "empty_text"},
		"there is none to be":           {1, "", "", step{header: asJSON, body: `{"status":"succeeded","analyzeResult":{"content":"","pages":[{"pageNumber":1}]}}`}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				j := newJournaling(t, reviewingBy("azure", Scrutiny{Actions: all(LookAt)}), azureAccepted, c.result)
				start := azureStart(azureKey + "|Ocr-Proxy-Document-Id: d")
				start.target += c.query
				start.body = `{"base64Source":"` + b64(paperPDF(c.pages, c.content)) + `"}`
				require.Equal(t, 202, j.send(t.Context(), start).status)
				r := j.send(t.Context(), ownPoll("r-1"))
				require.Equal(t, []string{c.reason, c.result.body}, []string{r.own("Reason"), r.body})
				require.Equal(t, c.reason != "", r.own("Outcome") == "review")
				j.closing()
			})
		})
	}
}

func TestAnswersOverGRPCAreJudgedLikeOthers(t *testing.T) {
	token := func(confidence float32) []byte {
		return grpcwire.AppendBytes(nil, 8, grpcwire.AppendBytes(nil, 1, grpcwire.AppendFloat(nil, 2, confidence)))
	}
	entity := grpcwire.AppendFloat(grpcwire.AppendBytes(grpcwire.AppendBytes(nil, 2, []byte("Total")), 3, []byte("950")), 5, 0.5)
	document := func(tokens ...[]byte) []byte {
		return grpcwire.AppendBytes(nil, 1, grpcwire.AppendBytes(grpcwire.AppendBytes(nil, 6, bytes.Join(tokens, nil)), 7, entity))
	}
	for name, c := range map[string]struct {
		how     Scrutiny
		answer  []byte
		outcome string
		reason  string
	}{
		"sure":              {Scrutiny{Threshold: 0.8}, document(token(0.9), token(0.8)), "success", ""},
		"unsure":            {Scrutiny{Threshold: 0.8}, document(token(0.9), token(0.6)), "review", "low_confidence"},
		"a field is unsure": {Scrutiny{Fields: map[string]map[string]float64{AnyType: {"total": 0.9}}}, document(token(0.9)), "review", "low_field_confidence"},
		"a field is there":  {Scrutiny{Required: map[string][]string{"document": {"total"}}}, document(token(0.9)), "success", ""},
		"a field is not":    {Scrutiny{Required: map[string][]string{"document": {"vendor"}}}, document(token(0.9)), "review", "missing_field"},
		"nobody asks":       {Scrutiny{}, document(token(0.1)), "success", ""},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				l := newLab(t, reviewingBy("documentai", c.how), good(c.answer))
				l.speakRPC()
				r := l.send(t.Context(), rpcCall(processMethod, processing("scan")))
				require.Equal(t, []string{c.outcome, c.reason}, []string{r.own("Outcome"), r.own("Reason")})
				require.Equal(t, string(grpcwire.Frame(c.answer)), r.body, "not a byte is changed")
				require.Equal(t, c.outcome == "review", l.sink.count() == 1)
				l.closing()
			})
		})
	}
}

// A worker that goes while the other account is asked has paid for the first answer, and gets it when it comes again.
func TestADoubtfulAnswerIsKeptForAWorkerThatGoes(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := doubting(t, "mistral")
		empty := step{header: asJSON, body: `{"pages":[{"index":0,"markdown":""}]}`}
		f.at["acct"].script(empty)
		f.at["b"].script(step{after: time.Minute, header: asJSON, body: `{"pages":[]}`})
		ctx, leave := context.WithCancel(t.Context())
		same := analysis(b64(paperPDF(1, written)))
		same.header += "|Ocr-Proxy-Join: true"
		gone := f.later(ctx, same)
		time.Sleep(time.Second)
		require.Equal(t, map[string]int{"acct": 1, "b": 1}, f.asked())
		leave()
		<-gone
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		r := f.send(t.Context(), same)
		require.Equal(t, "rescued", r.own("Reason"))
		require.Equal(t, map[string]int{"acct": 1, "b": 1}, f.asked(), "nobody pays again")
		f.closing()
	})
}

func TestWhatIsAcceptedHidesNothingElse(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, reviewingBy("openai", Scrutiny{Actions: map[string]Action{"malformed_output": LookAt}}),
			step{header: asJSON, body: `{"choices":[{"finish_reason":"length","message":{"content":"{\"rent\""}}]}`})
		r := l.send(t.Context(), chat(wantsJSON))
		require.Equal(t, []string{"review", "malformed_output"}, []string{r.own("Outcome"), r.own("Reason")})
		l.closing()
	})
}
