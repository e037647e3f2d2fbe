package proxy

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ocr-proxy/ocr-proxy/internal/precheck"
	"github.com/ocr-proxy/ocr-proxy/internal/provider"
)

func checked(kind string, skip ...precheck.Check) setup {
	s := defaults(kind)
	s.account = func(a *Account) { a.Precheck = &Precheck{Skip: skip} }
	return s
}

// scan is a small image, with a stroke of ink or without.
func scan(t *testing.T, ink bool) string {
	t.Helper()
	m := image.NewGray(image.Rect(0, 0, 200, 200))
	for i := range m.Pix {
		m.Pix[i] = 255
	}
	for x := 50; ink && x < 150; x++ {
		m.SetGray(x, 100, color.Gray{})
	}
	var b bytes.Buffer
	require.NoError(t, png.Encode(&b, m))
	return b.String()
}

func b64(document string) string { return base64.StdEncoding.EncodeToString([]byte(document)) }

const detectText = "Content-Type: application/x-amz-json-1.1|X-Amz-Target: Textract.DetectDocumentText"

func TestAHopelessDocumentIsRefusedBeforeItIsSent(t *testing.T) {
	good, blank := scan(t, true), scan(t, false)
	for name, c := range map[string]struct {
		kind   string
		call   call
		reason string
		shape  string // that the answer has
	}{
		"textract, cut": {"textract", call{target: "/", header: detectText, body: `{"Document":{"Bytes":"` + b64(good[:len(good)-20]) + `"}}`}, "precheck_truncated", `"__type":"BadDocumentException"`},
		"textract, all pages": {
			"textract", call{
				target: "/", header: "Content-Type: application/x-amz-json-1.1|X-Amz-Target: Textract.AnalyzeID",
				body: `{"DocumentPages":[{"Bytes":"` + b64(blank) + `"},{"Bytes":""}]}`,
			}, "precheck_blank", `"__type":"BadDocumentException"`,
		},
		"azure, raw":    {"azure", call{target: "/documentintelligence/documentModels/m:analyze", header: "Content-Type: application/octet-stream", body: "Dear Sir"}, "precheck_type", `"error":{"code":`},
		"azure, base64": {"azure", call{target: "/documentintelligence/documentModels/m:analyze", header: "Content-Type: application/json", body: `{"base64Source":"` + b64(blank) + `"}`}, "precheck_blank", `"error":{"code":`},
		"documentai":    {"documentai", call{target: "/v1/projects/p/locations/us/processors/x:process", header: "Content-Type: application/json", body: `{"rawDocument":{"content":"` + b64("%PDF-1.7 cut") + `"}}`}, "precheck_truncated", `"status":`},
		"vision":        {"vision", call{target: "/v1/images:annotate", header: "Content-Type: application/json", body: `{"requests":[{"image":{"content":"` + b64(blank) + `"}}]}`}, "precheck_blank", `"status":`},
		"a data URI":    {"mistral", call{target: "/v1/ocr", header: "Content-Type: application/json", body: `{"document":{"type":"image_url","image_url":"data:image/png;base64,` + b64(blank) + `"}}`}, "precheck_blank", `"message":`},
		"a form":        {"ocrspace", call{target: "/parse/image", header: "Content-Type: multipart/form-data; boundary=x", body: "--x\r\nContent-Disposition: form-data; name=f; filename=a.png\r\n\r\n" + blank + "\r\n--x--\r\n"}, "precheck_blank", "nothing was sent"},
		"generic":       {"generic", call{header: "Content-Type: image/png", body: blank}, "precheck_blank", `"code":"precheck_blank"`},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				l := newLab(t, checked(c.kind))
				r := l.send(t.Context(), c.call)
				require.NoError(t, r.err)
				require.Equal(t, 422, r.status, r.body)
				require.Contains(t, r.body, c.shape)
				require.Equal(t, "rejected", r.own("Outcome"))
				require.Equal(t, "0", r.own("Attempts"))
				require.Empty(t, r.own("Class"))
				require.Equal(t, c.reason, r.own("Reason"))
				require.Equal(t, "letter-1", r.own("Dead-Letter-Id"))
				require.Empty(t, l.upstream.attempts())
				require.Equal(t, 1, l.requests(Rejected))
				letter := l.sink.letters[0]
				require.Equal(t, "rejected", letter.Outcome)
				require.Equal(t, "permanent", letter.ErrorClass)
				require.Equal(t, "fatal", letter.FailureClass)
				require.Equal(t, c.reason, letter.ErrorCode)
				require.NotEmpty(t, letter.ErrorMessage)
				require.Empty(t, letter.Attempts)
				require.Nil(t, letter.HTTPStatus)
				require.Equal(t, c.call.body, l.sink.bodies[0])
				require.Zero(t, l.circuit().Failures)
			})
		})
	}
}

// What is refused must be certain: whatever may be read is sent.
func TestOtherDocumentsAreSent(t *testing.T) {
	good, blank := scan(t, true), scan(t, false)
	analyze := "/documentintelligence/documentModels/m:analyze"
	for name, c := range map[string]struct {
		kind string
		call call
		skip []precheck.Check
	}{
		"a good one":               {"textract", call{target: "/", header: detectText, body: `{"Document":{"Bytes":"` + b64(good) + `"}}`}, nil},
		"one that is left unasked": {"textract", call{target: "/", header: detectText, body: `{"Document":{"Bytes":"` + b64(blank) + `"}}`}, []precheck.Check{precheck.Blank}},
		"a reference":              {"textract", call{target: "/", header: detectText, body: `{"Document":{"S3Object":{"Bucket":"b","Name":"n"}}}`}, nil},
		"what is no base64":        {"textract", call{target: "/", header: detectText, body: `{"Document":{"Bytes":"***"}}`}, nil},
		"one good of two":          {"vision", call{target: "/v1/images:annotate", header: "Content-Type: application/json", body: `{"requests":[{"image":{"content":"` + b64(blank) + `"}},{"image":{"content":"` + b64(good) + `"}}]}`}, nil},
		"a URL":                    {"azure", call{target: analyze, header: "Content-Type: application/json", body: `{"urlSource":"https://x.example/a.pdf"}`}, nil},
		"an encoded body":          {"azure", call{target: analyze, header: "Content-Type: application/pdf|Content-Encoding: gzip", body: "\x1f\x8b"}, nil},
		"another operation":        {"azure", call{target: "/documentintelligence/documentModels:build", header: "Content-Type: application/json", body: `{"base64Source":""}`}, nil},
		"an empty field":           {"generic", call{header: "Content-Type: application/json", body: `{"prompt":"x","image":""}`}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				l := newLab(t, checked(c.kind, c.skip...), step{body: "{}"})
				r := l.send(t.Context(), c.call)
				require.NoError(t, r.err)
				require.NotEqual(t, 422, r.status, r.body)
				require.Len(t, l.upstream.attempts(), 1)
			})
		})
	}
}

func TestACallThatSelectsPagesMayHaveALongDocument(t *testing.T) {
	tiff := longTIFF(31)
	process := func(options string) call {
		return call{
			target: "/v1/projects/p/locations/us/processors/x:process", header: "Content-Type: application/json",
			body: `{"rawDocument":{"content":"` + b64(tiff) + `"}` + options + `}`,
		}
	}
	inBubble(t, func(t *testing.T) {
		l := newLab(t, checked("documentai"), step{body: "{}"})
		r := l.send(t.Context(), process(""))
		require.Equal(t, "precheck_pages", r.own("Reason"))
		require.Empty(t, l.upstream.attempts())
		r = l.send(t.Context(), process(`,"processOptions":{"fromStart":2}`))
		require.Equal(t, "success", r.own("Outcome"))
		require.Len(t, l.upstream.attempts(), 1)
	})
}

// longTIFF has that many directories, which say nothing.
func longTIFF(pages int) string {
	b := []byte("II*\x00\x08\x00\x00\x00")
	for n := range pages {
		next := 8 + 6*(n+1)
		if n == pages-1 {
			next = 0
		}
		b = append(b, 0, 0, byte(next), byte(next>>8), 0, 0)
	}
	return string(b)
}

// Real documents pass for every kind and operation that reads their type.
func TestRealDocumentsPass(t *testing.T) {
	types := map[string]precheck.Type{".pdf": precheck.PDF, ".png": precheck.PNG, ".jpg": precheck.JPEG, ".tif": precheck.TIFF}
	paths, err := filepath.Glob("../../../shared/fixtures/documents/*")
	require.NoError(t, err)
	for _, path := range paths {
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, p := range provider.All() {
			for operation, checks := range p.Checks {
				read := len(checks.Types) == 0
				for _, known := range checks.Types {
					read = read || known == types[filepath.Ext(path)]
				}
				require.True(t, read, "%s %s", operation, path)
				limits := checks.Limits
				if filepath.Base(path) == "large-document.pdf" { // it is too long for some, and so it should be
					limits.Pages = 0
				}
				found, hopeless := precheck.Inspect(t.Context(), bytes.NewReader(data), int64(len(data)), limits, checks.Unsure)
				require.False(t, hopeless, "%s %s %s: %s", p.Name, operation, path, found.Message)
			}
		}
	}
}

func TestTheMessageNamesTheCheck(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, checked("textract"))
		r := l.send(t.Context(), call{target: "/", header: detectText, body: `{"Document":{"Bytes":""}}`})
		var told struct{ Message string }
		require.NoError(t, json.Unmarshal([]byte(r.body), &told))
		require.Equal(t, "the document is empty; nothing was sent, and the check is called empty", told.Message)
	})
}
