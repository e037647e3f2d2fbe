package provider

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ocr-proxy/ocr-proxy/internal/fingerprint"
)

// The document of a request is found wherever the provider's workers put it: two workers that send the same page get the same key.
func TestLayoutsFindTheDocument(t *testing.T) {
	t.Parallel()
	const (
		doc     = "aGVsbG8=" // hello
		uri     = "data:application/pdf;base64," + doc
		js      = "application/json"
		form    = "application/x-www-form-urlencoded"
		hello   = "hello"
		address = "https://h.example/a.pdf"
	)
	for _, c := range []struct{ kind, contentType, body, document string }{
		{"textract", "application/x-amz-json-1.1", `{"Document":{"Bytes":"` + doc + `"}}`, hello},
		{"textract", "application/x-amz-json-1.1", `{"DocumentPages":[{"Bytes":"` + doc + `"},{"Bytes":"` + doc + `"}]}`, hello + hello},
		{"azure", js, `{"base64Source":"` + doc + `"}`, hello},
		{"azure", js, `{"urlSource":"` + address + `?sig=secret"}`, address},
		{"azure", js, `{"source":"` + address + `"}`, address},
		{"azure", js, `{"url":"` + address + `"}`, address},
		{"azure", "application/pdf", hello, hello},
		{"documentai", js, `{"rawDocument":{"content":"` + doc + `","mimeType":"application/pdf"}}`, hello},
		{"documentai", js, `{"raw_document":{"content":"` + doc + `"}}`, hello},
		{"documentai", js, `{"inlineDocument":{"content":"` + doc + `"}}`, hello},
		{"documentai", js, `{"gcsDocument":{"gcsUri":"gs://b/a.pdf","mimeType":"application/pdf"}}`, "gs://b/a.pdf"},
		{"vision", js, `{"requests":[{"image":{"content":"` + doc + `"}},{"image":{"content":"` + doc + `"}}]}`, hello + hello},
		{"vision", js, `{"requests":[{"image":{"source":{"imageUri":"` + address + `"}}}]}`, address},
		{"vision", js, `{"requests":[{"inputConfig":{"content":"` + doc + `","mimeType":"application/pdf"}}]}`, hello},
		{"mistral", js, `{"document":{"type":"document_url","document_url":"` + uri + `"}}`, hello},
		{"mistral", js, `{"document":{"type":"document_url","document_url":"` + address + `?x=1"}}`, address},
		{"mistral", js, `{"document":{"type":"image_url","image_url":{"url":"` + uri + `"}}}`, hello},
		{"ocrspace", form, "base64Image=data%3Aapplication%2Fpdf%3Bbase64%2CaGVsbG8%3D&apikey=k", hello},
		{"ocrspace", form, "url=https%3A%2F%2Fh.example%2Fa.pdf", address},
		{"openai", js, `{"messages":[{"content":[{"type":"text","text":"read"},{"type":"image_url","image_url":{"url":"` + uri + `"}}]}]}`, hello},
		{"openai", js, `{"input":[{"content":[{"type":"input_file","file_data":"` + uri + `"}]}]}`, hello},
		{"tika", "", hello, hello},
		{"tika", "application/pdf", hello, hello},
		{"generic", js, `{"image":"` + doc + `"}`, hello},
	} {
		p, err := Find(c.kind)
		require.NoError(t, err)
		keys, err := fingerprint.Compute(fingerprint.Request{
			Kind: c.kind, Method: "POST", Path: "/", ContentType: c.contentType,
			Body: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(c.body)), nil },
		}, p.Layout, func(name string) bool { return name == "apikey" })
		require.NoError(t, err)
		want := sha256.Sum256([]byte(c.document))
		require.Equal(t, hex.EncodeToString(want[:]), keys.Idempotency, "%s: %s", c.kind, c.body)
	}
}
