package fingerprint_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"io"
	"mime/multipart"
	"net/textproto"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ocr-proxy/ocr-proxy/internal/fingerprint"
)

func textract() fingerprint.Layout {
	return fingerprint.Layout{
		Inline: []string{"Document.Bytes", "DocumentPages[].Bytes"},
		Refs:   []string{"Document.S3Object", "DocumentPages[].S3Object", "DocumentLocation.S3Object"},
		Ignore: []string{"ClientRequestToken"},
	}
}

func azure() fingerprint.Layout {
	return fingerprint.Layout{Inline: []string{"base64Source"}, Refs: []string{"urlSource"}}
}

func documentAI() fingerprint.Layout {
	return fingerprint.Layout{
		Inline: []string{"rawDocument.content", "inlineDocument.content"},
		Refs:   []string{"gcsDocument.gcsUri", "inputDocuments.gcsDocuments.documents[].gcsUri"},
	}
}

func vision() fingerprint.Layout {
	return fingerprint.Layout{
		Inline: []string{"requests[].image.content"},
		Refs:   []string{"requests[].image.source.imageUri"},
	}
}

func mistral() fingerprint.Layout {
	return fingerprint.Layout{
		Inline: []string{"document.document_url", "document.image_url", "document.image_url.url"},
		Refs:   []string{"document.file_id"},
	}
}

func ocrSpace() fingerprint.Layout {
	return fingerprint.Layout{Form: []string{"base64Image"}, FormRefs: []string{"url"}}
}

func secret(name string) bool {
	return strings.EqualFold(name, "apikey") || strings.EqualFold(name, "subscription-key") || strings.EqualFold(name, "key")
}

// request is a POST of a body with that Content-Type.
func request(contentType, body string) fingerprint.Request {
	return fingerprint.Request{
		Kind: "k", Operation: "op", Method: "POST", Path: "/p", RawQuery: "v=1", ContentType: contentType, ProcessingVersion: "v7",
		Body: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(body)), nil },
	}
}

func compute(t *testing.T, r fingerprint.Request, l fingerprint.Layout) fingerprint.Keys {
	t.Helper()
	keys, err := fingerprint.Compute(r, l, secret)
	require.NoError(t, err)
	require.Len(t, keys.Fingerprint, 64)
	return keys
}

// key is the idempotency key of documents, by its definition.
func key(documents ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(documents, "") + "v7"))
	return hex.EncodeToString(sum[:])
}

func b64(document string) string { return base64.StdEncoding.EncodeToString([]byte(document)) }

const (
	jsonType = "application/json"
	awsType  = "application/x-amz-json-1.1"
	formType = "application/x-www-form-urlencoded"
)

func TestIdempotencyKeyByProvider(t *testing.T) {
	t.Parallel()
	doc := "%PDF-1.7 \x00\xff\xfe page"
	for _, c := range []struct {
		name   string
		layout fingerprint.Layout
		ctype  string
		body   string
		want   string
	}{
		{"textract bytes", textract(), awsType, `{"Document":{"Bytes":"` + b64(doc) + `"},"FeatureTypes":["TABLES"]}`, key(doc)},
		{"textract pages", textract(), awsType, `{"DocumentPages":[{"Bytes":"` + b64("front") + `"},{"Bytes":"` + b64("back") + `"}]}`, key("front", "back")},
		{"textract s3", textract(), awsType, `{"Document":{"S3Object":{"Name":"in/a b.pdf","Bucket":"bkt"}}}`, key("s3://bkt/in/a b.pdf")},
		{"textract s3 version", textract(), awsType, `{"DocumentLocation":{"S3Object":{"Bucket":"bkt","Name":"a","Version":"v2"}}}`, key("s3://bkt/a?versionId=v2")},
		{"textract s3 without name", textract(), awsType, `{"DocumentLocation":{"S3Object":{"Bucket":"bkt"}}}`, key(`{"DocumentLocation":{"S3Object":{"Bucket":"bkt"}}}`)},
		{"textract poll", textract(), awsType, `{"JobId":"j"}`, key(`{"JobId":"j"}`)},
		{"azure base64", azure(), jsonType, `{"base64Source":"` + b64(doc) + `"}`, key(doc)},
		{"azure url with a signature", azure(), jsonType, `{"urlSource":"https://a.blob.core.windows.net/c/d.pdf?sv=1&sig=x#p"}`, key("https://a.blob.core.windows.net/c/d.pdf")},
		{"azure raw", azure(), "application/pdf", doc, key(doc)},
		{"documentai raw document", documentAI(), jsonType + "; charset=utf-8", `{"rawDocument":{"content":"` + b64(doc) + `","mimeType":"application/pdf"}}`, key(doc)},
		{"documentai gcs", documentAI(), jsonType, `{"gcsDocument":{"gcsUri":"gs://b/what?.pdf","mimeType":"application/pdf"}}`, key("gs://b/what?.pdf")},
		{"documentai batch", documentAI(), jsonType, `{"inputDocuments":{"gcsDocuments":{"documents":[{"gcsUri":"gs://b/1"},{"gcsUri":"gs://b/2"}]}}}`, key("gs://b/1", "gs://b/2")},
		{"vision batch", vision(), jsonType, `{"requests":[{"image":{"content":"` + b64(doc) + `"}},{"image":{"content":"QQ=="}}]}`, key(doc, "A")},
		{"vision mixed batch", vision(), jsonType, `{"requests":[{"image":{"source":{"imageUri":"gs://b/1"}}},{"image":{"content":"QQ=="}},{"image":{"source":{"imageUri":"https://h/2?x"}}}]}`, key("gs://b/1", "A", "https://h/2")},
		{"mistral url", mistral(), jsonType, `{"document":{"type":"document_url","document_url":"https://h/d.pdf?token=1"}}`, key("https://h/d.pdf")},
		{"mistral data uri", mistral(), jsonType, `{"document":{"document_url":"data:application/pdf;base64,` + b64(doc) + `"}}`, key(doc)},
		{"mistral image object", mistral(), jsonType, `{"document":{"image_url":{"url":"DATA:image/png;BASE64,` + b64(doc) + `"}}}`, key(doc)},
		{"mistral file id", mistral(), jsonType, `{"document":{"type":"file","file_id":"f-1"}}`, key("f-1")},
		{"ocr.space base64", ocrSpace(), formType, "language=eng&base64Image=" + url.QueryEscape("data:image/png;base64,"+b64(doc)) + "&apikey=k", key(doc)},
		{"ocr.space url", ocrSpace(), formType, "url=http%3A%2F%2Fexample.test%2Fa.png%3Fx%3D1", key("http://example.test/a.png")},
		{"ocr.space without a document", ocrSpace(), formType, "language=eng", key("language=eng")},
		{"generic", fingerprint.Layout{}, "application/pdf", doc, key(doc)},
		{"generic json", fingerprint.Layout{}, jsonType, `{"a": 1}`, key(`{"a": 1}`)},
		{"no content type, json", azure(), "", " \n{\"base64Source\":\"QQ==\"}", key("A")},
		{"no content type, no json", azure(), "", `{"base64Source":"QQ=="`, key(`{"base64Source":"QQ=="`)},
		{"no content type, bytes", azure(), "", doc, key(doc)},
		{"problem json", azure(), "application/problem+json", `{"base64Source":"QQ=="}`, key("A")},
		{"labelled json, is none", azure(), jsonType, `{"base64Source":"QQ=="} x`, key(`{"base64Source":"QQ=="} x`)},
		{"labelled json, is pdf", azure(), jsonType, doc, key(doc)},
		{"number at a document's place", azure(), jsonType, `{"base64Source":12}`, key(`{"base64Source":12}`)},
		{"null at a document's place", azure(), jsonType, `{"base64Source":null}`, key(`{"base64Source":null}`)},
		{"empty document", azure(), jsonType, `{"base64Source":""}`, key("")},
		{"empty body", azure(), jsonType, "", key("")},
		{"unreadable content type", azure(), `application/json; x="`, `{"base64Source":"QQ=="}`, key("A")},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, compute(t, request(c.ctype, c.body), c.layout).Idempotency)
		})
	}
}

func TestSpellingsOfADocument(t *testing.T) {
	t.Parallel()
	const doc = "\xfb\xff\xbe?~ some longer document, several lines of it in base64, so that it wraps"
	std := b64(doc)
	long := strings.Repeat(doc, 1000) // Beyond what is held to look at.
	for name, c := range map[string]struct{ text, want string }{
		"padded":                  {std, doc},
		"unpadded":                {strings.TrimRight(std, "="), doc},
		"url alphabet":            {base64.URLEncoding.EncodeToString([]byte(doc)), doc},
		"unpadded url alphabet":   {base64.RawURLEncoding.EncodeToString([]byte(doc)), doc},
		"lines":                   {std[:5] + `\r\n` + std[5:30] + `\n ` + std[30:], doc},
		"escaped slashes":         {strings.ReplaceAll(std, "/", `\/`), doc},
		"data uri":                {"data:image/png;base64," + std, doc},
		"data uri with a charset": {"data:text/plain;charset=utf-8;base64," + std, doc},
		"data uri, escaped":       {"data:;base64," + strings.NewReplacer("+", "%2B", "/", "%2f", "=", "%3D").Replace(std), doc},
		"data uri, percent":       {"data:,a%20b%2", "a b%2"},
		"data uri, no base64":     {"data:;base64,***", "data:;base64,***"},
		"data uri, no comma":      {"data:QQ", "data:QQ"},
		"one digit too many":      {"QQQQQ", "QQQQQ"},
		"pad too few":             {"QQ=", "QQ="},
		"pads only":               {"====", "===="},
		"text after the pad":      {"QQ==QQ==", "QQ==QQ=="},
		"no base64":               {"not/base64!", "not/base64!"},
		"http url":                {"http://h/a?b", "http://h/a"},
		"s3 url":                  {"s3://b/a#b", "s3://b/a#b"},
		"long":                    {b64(long), long},
		"long data uri":           {"data:application/pdf;base64," + b64(long), long},
		"long percent data uri":   {"data:," + strings.Repeat("%41b", 10_000), strings.Repeat("Ab", 10_000)},
		"long, broken at its end": {b64(long) + "!", b64(long) + "!"},
		"long url":                {"https://h/" + strings.Repeat("a-b.", 8000), "https://h/" + strings.Repeat("a-b.", 8000)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, key(c.want), compute(t, request(jsonType, `{"base64Source":"`+c.text+`"}`), azure()).Idempotency)
			// As the second of two documents, where the sum goes on from the first.
			two := `{"requests":[{"image":{"content":"` + b64("first") + `"}},{"image":{"content":"` + c.text + `"}},{"image":{"content":"QQ=="}}]}`
			require.Equal(t, key("first", c.want, "A"), compute(t, request(jsonType, two), vision()).Idempotency)
		})
	}
}

// multipartBody writes a form: fields whose name begins with @ are files, NAME;FILENAME;TYPE.
func multipartBody(t *testing.T, boundary string, fields ...[2]string) (contentType, body string) {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	require.NoError(t, w.SetBoundary(boundary))
	for _, field := range fields {
		file, isFile := strings.CutPrefix(field[0], "@")
		if !isFile {
			require.NoError(t, w.WriteField(field[0], field[1]))
			continue
		}
		names := strings.Split(file, ";")
		part, err := w.CreatePart(textproto.MIMEHeader{
			"Content-Disposition": {`form-data; name="` + names[0] + `"; filename="` + names[1] + `"`},
			"Content-Type":        {names[2]},
		})
		require.NoError(t, err)
		_, err = io.WriteString(part, field[1])
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return w.FormDataContentType(), b.String()
}

func TestMultipartDocuments(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("\r\n--almost", 20_000)
	ctype, body := multipartBody(t, "b1", [2]string{"language", "eng"}, [2]string{"@file;a.png;image/png", large}, [2]string{"@file;b.png;image/png", "second"})
	require.Equal(t, key(large, "second"), compute(t, request(ctype, body), ocrSpace()).Idempotency)

	ctype, body = multipartBody(t, "b1", [2]string{"base64Image", "data:image/png;base64,QQ=="}, [2]string{"apikey", "k"})
	require.Equal(t, key("A"), compute(t, request(ctype, body), ocrSpace()).Idempotency)

	ctype, body = multipartBody(t, "b1", [2]string{"url", "https://h/a?b=c"})
	require.Equal(t, key("https://h/a"), compute(t, request(ctype, body), ocrSpace()).Idempotency)

	ctype, body = multipartBody(t, "b1", [2]string{"language", "eng"})
	require.Equal(t, key(body), compute(t, request(ctype, body), ocrSpace()).Idempotency)

	for name, broken := range map[string]string{
		"cut off in a file":  body[:len(body)-1-len("--b1--\r\n")],
		"cut off at the end": strings.TrimSuffix(body, "--b1--\r\n"),
		"no form at all":     "hello",
	} {
		require.Equal(t, key(broken), compute(t, request(ctype, broken), ocrSpace()).Idempotency, name)
	}
	_, whole := multipartBody(t, "b1", [2]string{"@file;a.png;image/png", "page"})
	for n := range len(whole) - len("\r\n") {
		require.Equal(t, key(whole[:n]), compute(t, request(ctype, whole[:n]), ocrSpace()).Idempotency, "cut after %d bytes", n)
	}
	require.Equal(t, key(whole), compute(t, request("multipart/form-data", whole), ocrSpace()).Idempotency, "no boundary")
	require.Equal(t, key("page"), compute(t, request(ctype, whole+"epilogue"), ocrSpace()).Idempotency)
}

func TestDocumentsUnderSeveralMembersAreSortedByPath(t *testing.T) {
	t.Parallel()
	layout := fingerprint.Layout{Inline: []string{"z", "a", "list[].y", "list[].x"}}
	for _, c := range []struct{ one, two, want string }{
		{`{"z":"Wg==","a":"QQ=="}`, `{"a":"QQ==","z":"Wg=="}`, key("A", "Z")},
		{`{"list":[{"y":"MQ==","x":"Mg=="},{"x":"Mw=="}],"a":"QQ=="}`, `{"a":"QQ==","list":[{"x":"Mg==","y":"MQ=="},{"x":"Mw=="}]}`, key("A", "2", "3", "1")},
	} {
		one, two := compute(t, request(jsonType, c.one), layout), compute(t, request(jsonType, c.two), layout)
		require.Equal(t, c.want, one.Idempotency)
		require.Equal(t, one, two)
	}
	both := `{"Document":{"S3Object":{"Bucket":"b","Name":"n"},"Bytes":"QQ=="}}`
	require.Equal(t, key("A", "s3://b/n"), compute(t, request(awsType, both), textract()).Idempotency)
}
