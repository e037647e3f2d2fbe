package fingerprint_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"mime"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/ocr-proxy/ocr-proxy/internal/fingerprint"
)

// repeated reads a text again and again without end.
type repeated struct {
	text string
	at   int
}

func (r *repeated) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		c := copy(p[n:], r.text[r.at:])
		n += c
		r.at = (r.at + c) % len(r.text)
	}
	return n, nil
}

// stream is a request whose body holds a piece many times, up to size bytes.
func stream(contentType, before, piece, after string, size int64) (r fingerprint.Request, opened *int) {
	opened = new(int)
	r = request(contentType, "")
	r.Body = func() (io.ReadCloser, error) {
		*opened++
		size := size / int64(len(piece)) * int64(len(piece))
		middle := io.LimitReader(&repeated{text: strings.Repeat(piece, max(1, 4096/len(piece)))}, size)
		return io.NopCloser(io.MultiReader(strings.NewReader(before), middle, strings.NewReader(after))), nil
	}
	return r, opened
}

func allocated(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// Total allocation bounds what can have been held at any moment.
func TestLargeBodiesAreNotHeld(t *testing.T) {
	form := mime.FormatMediaType("multipart/form-data", map[string]string{"boundary": "bb"})
	for i, c := range []struct {
		name                        string
		layout                      fingerprint.Layout
		ctype, before, piece, after string
	}{
		{"base64 in json", azure(), jsonType, `{"base64Source":"`, "QUJDREVG", `","x":1}`},
		{"base64 with line breaks", azure(), jsonType, `{"base64Source":"`, `QUJDREVGQUJDREVG\r\n`, `"}`},
		{"data uri", mistral(), jsonType, `{"document":{"document_url":"data:application/pdf;base64,`, "QUJDREVG", `"}}`},
		{"string that is no document", azure(), jsonType, `{"other":"`, "QUJDREVG", `"}`},
		{"file in multipart", ocrSpace(), form, "--bb\r\nContent-Disposition: form-data; name=\"f\"; filename=\"a.pdf\"\r\n\r\n", "binary\x00\r\n", "\r\n--bb--\r\n"},
		{"field in multipart", ocrSpace(), form, "--bb\r\nContent-Disposition: form-data; name=\"base64Image\"\r\n\r\n", "QUJDREVG", "\r\n--bb--\r\n"},
		{"field in a form", ocrSpace(), formType, "language=eng&base64Image=data%3Aimage%2Fpng%3Bbase64%2C", "QUJD%2BkFB", "&x=1"},
		{"name in a form", ocrSpace(), formType, "", "name", ""},
		{"bytes", azure(), "application/pdf", "%PDF", "binary\x00\r\n", ""},
		{"broken json", azure(), jsonType, `{"base64Source":"`, "QUJDREVG", `"`},
		{"not base64", azure(), jsonType, `{"base64Source":"`, "QUJDREVG", `!"}`},
	} {
		size := int64(2 << 20)
		if i == 0 {
			size = 64 << 20
		}
		r, opened := stream(c.ctype, c.before, c.piece, c.after, size)
		var keys fingerprint.Keys
		used := allocated(func() { keys = compute(t, r, c.layout) })
		require.Less(t, used, uint64(1<<20), c.name)
		require.Equal(t, 1, *opened, c.name)
		require.Len(t, keys.Idempotency, 64)
	}
}

func TestSumOfALargeDocument(t *testing.T) {
	t.Parallel()
	const size = 8 << 20
	r, _ := stream(jsonType, `{"base64Source":"`, "QUJDREVG", `"}`, size)
	want := sha256.New()
	_, err := io.Copy(want, io.LimitReader(&repeated{text: "ABCDEF"}, int64(base64.StdEncoding.DecodedLen(size))))
	require.NoError(t, err)
	want.Write([]byte("v7"))
	require.Equal(t, hex.EncodeToString(want.Sum(nil)), compute(t, r, azure()).Idempotency)
}

// Structure takes memory where a string does not: names, levels, entries.
func TestHostileStructureIsBounded(t *testing.T) {
	members := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `"%d":0,`, i)
		}
		return "{" + b.String() + `"x":0}`
	}
	deep := strings.Repeat(`{"a":[`, 5000) + strings.Repeat(`]}`, 5000)
	tooDeep := "[" + deep + "]"
	for name, body := range map[string]string{
		"many members":    members(150_000),
		"deep":            deep,
		"too deep":        tooDeep,
		"many documents":  `{"requests":[` + strings.Repeat(`{"image":{"content":"QQ=="}},`, 5000) + `{}]}`,
		"many parts":      "--b\r\n",
		"control":         "{\"\x00\":1}",
		"surrogates":      `{"base64Source":"\ud800\udc00\ud800"}`,
		"bytes, not text": "{\"base64Source\":\"\xff\xfe\"}",
	} {
		var keys fingerprint.Keys
		used := allocated(func() { keys = compute(t, request(jsonType, body), vision()) })
		require.Less(t, used, uint64(40<<20), name)
		require.Len(t, keys.Fingerprint, 64, name)
	}
	require.Equal(t, key(tooDeep), compute(t, request(jsonType, tooDeep), vision()).Idempotency)

	// Beyond the limit order counts, but every member still does.
	many := members(66_000)
	differ(t, request(jsonType, many), request(jsonType, strings.Replace(many, `"7":0`, `"7":1`, 1)), azure())
	differ(t, request(jsonType, many), request(jsonType, strings.Replace(many, `"65999":0`, `"65999":1`, 1)), azure())
}

func TestReadErrors(t *testing.T) {
	t.Parallel()
	broken := errors.New("disk on fire")
	wrappedEnd := fmt.Errorf("spool: %w", io.EOF)
	for _, c := range []struct{ ctype, body string }{
		{jsonType, `{"base64Source":"QU`},
		{jsonType, `{"base64Source":"QUJD"}`},
		{jsonType, `no json at all`},
		{formType, "a=b&c"},
		{"multipart/form-data; boundary=b", "--b\r\nContent-Disposition: form-data; name=\"f\"; filename=\"a.pdf\"\r\n\r\nab"},
		{"multipart/form-data; boundary=b", "--b\r\nContent-Disposition: form-data; name=\"f\"\r\n\r\nab"},
		{"application/pdf", "%PDF"},
		{"", " {"},
		{"", ""},
	} {
		for _, want := range []error{broken, io.ErrUnexpectedEOF, wrappedEnd} {
			r := request(c.ctype, "")
			r.Body = func() (io.ReadCloser, error) {
				return io.NopCloser(io.MultiReader(strings.NewReader(c.body), iotest.ErrReader(want))), nil
			}
			keys, err := fingerprint.Compute(r, azure(), secret)
			require.ErrorIs(t, err, want, "%s %q", c.ctype, c.body)
			require.Zero(t, keys)
		}
	}
	r := request(jsonType, "")
	r.Body = func() (io.ReadCloser, error) { return nil, broken }
	_, err := fingerprint.Compute(r, azure(), nil)
	require.ErrorIs(t, err, broken)
}

type closing struct {
	io.Reader
	closed *int
}

func (c closing) Close() error {
	*c.closed++
	return nil
}

func TestBodiesAreClosed(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]int{`{"a":"QQ=="}`: 1, `nope`: 1, `{"b":"QQ==","a":"QQ=="}`: 3} {
		opened, closed := 0, 0
		r := request(jsonType, "")
		r.Body = func() (io.ReadCloser, error) {
			opened++
			return closing{strings.NewReader(body), &closed}, nil
		}
		compute(t, r, fingerprint.Layout{Inline: []string{"a", "b"}})
		require.Equal(t, want, opened, body)
		require.Equal(t, want, closed, body)
	}
}

func TestNoBodyAndNoSecrets(t *testing.T) {
	t.Parallel()
	r := fingerprint.Request{Kind: "azure", Method: "GET", Path: "/x", RawQuery: "key=1"}
	keys, err := fingerprint.Compute(r, azure(), nil)
	require.NoError(t, err)
	empty := sha256.Sum256(nil)
	require.Equal(t, hex.EncodeToString(empty[:]), keys.Idempotency)
	r.RawQuery = "key=2"
	other, err := fingerprint.Compute(r, azure(), nil)
	require.NoError(t, err)
	require.NotEqual(t, keys.Fingerprint, other.Fingerprint, "without a function nothing is a secret")
}

// Reading byte by byte or at once makes no difference, and nothing panics.
func FuzzCompute(f *testing.F) {
	f.Add(jsonType, `{"base64Source":"QU\nJD","a":{"S3Object":{"Bucket":"b","Name":"n","Version":null}},"urlSource":"https://h/?sig=1&id=2#x"}`, "a=1&key=2")
	f.Add("multipart/form-data; boundary=b", "--b\r\nContent-Disposition: form-data; name=\"url\"; filename=\"x.p\"\r\n\r\nab\r\n--b--", "%")
	f.Add(formType, "base64Image=data:,%4&apikey=x&url=%", "&&=")
	f.Add("", "[{\"a\":\"data:;base64,QQ==\",\"b\":\"QQ\"}]", "")
	layout := fingerprint.Layout{
		Inline: []string{"base64Source", "[].a", "[].b", "*.c[]"}, Refs: []string{"urlSource", "a.S3Object"}, Ignore: []string{"t"},
		Form: []string{"base64Image"}, FormRefs: []string{"url"},
	}
	f.Fuzz(func(t *testing.T, contentType, body, query string) {
		r := request(contentType, body)
		r.RawQuery = query
		keys := compute(t, r, layout)
		r.Body = func() (io.ReadCloser, error) {
			return io.NopCloser(iotest.OneByteReader(strings.NewReader(body))), nil
		}
		require.Equal(t, keys, compute(t, r, layout))
	})
}

func BenchmarkCompute(b *testing.B) {
	document := strings.Repeat("QUJDREVG", 5<<20/8)
	for name, body := range map[string]string{"json": `{"base64Source":"` + document + `"}`, "small": `{"JobId":"0123456789","MaxResults":1000}`} {
		r := request(jsonType, body)
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := fingerprint.Compute(r, azure(), secret); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
