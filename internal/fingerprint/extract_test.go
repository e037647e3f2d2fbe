package fingerprint

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

func TestDocumentsAreTakenOutOfTheirRequests(t *testing.T) {
	t.Parallel()
	layout := Layout{Inline: []string{"doc", "pages[].content"}, Refs: []string{"at"}, Form: []string{"base64Image"}, FormRefs: []string{"url"}}
	long := strings.Repeat("a long document, more than is held to look at it. ", 2000)
	b64 := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	for name, c := range map[string]struct {
		contentType, body string
		want              []string
	}{
		"one in JSON":               {"application/json", `{"doc":"` + b64("short") + `","lang":"en"}`, []string{"short"}},
		"a long one":                {"application/x-amz-json-1.1", `{"doc":"` + b64(long) + `"}`, []string{long}},
		"a data URI":                {"application/json", `{"doc":"data:image/png;base64,` + b64(long) + `"}`, []string{long}},
		"several, in order":         {"application/json", `{"pages":[{"content":"` + b64("1") + `"},{"content":"` + b64(long) + `"}]}`, []string{"1", long}},
		"a file in a form":          {"multipart/form-data; boundary=x", "--x\r\nContent-Disposition: form-data; name=f; filename=a.pdf\r\n\r\n" + long + "\r\n--x--\r\n", []string{long}},
		"a form's field":            {"application/x-www-form-urlencoded", "language=en&base64Image=data%3Aimage%2Fpng%3Bbase64%2C" + b64("picture!!"), []string{"picture!!"}},
		"a plus not escaped":        {"application/x-www-form-urlencoded", "base64Image=data:image/png;base64,AAA+AAAA", nil},
		"a plus, escaped":           {"application/x-www-form-urlencoded", "base64Image=data:image/png;base64,AAA%2BAAAA", []string{"\x00\x00>\x00\x00\x00"}},
		"a long one, not escaped":   {"application/x-www-form-urlencoded", "base64Image=" + strings.Repeat("AAAA", 9000) + "+AAA+AAA+AAA+AAA", nil},
		"lines and spaces":          {"application/json", `{"doc":"AA AA\r\nBBBB"}`, []string{"\x00\x00\x00\x04\x10\x41"}},
		"one that lies elsewhere":   {"application/json", `{"at":"s3://bucket/name"}`, nil},
		"a URL where one should be": {"application/json", `{"doc":"https://x.example/a.pdf"}`, nil},
		"one and a location":        {"application/json", `{"doc":"` + b64("1") + `","at":"s3://b/n"}`, nil},
		"text that is no base64":    {"application/json", `{"doc":"***"}`, nil},
		"long text that is none":    {"application/json", `{"doc":"` + strings.Repeat("*", 20<<10) + `"}`, nil},
		"none":                      {"application/json", `{"lang":"en"}`, nil},
		"broken JSON":               {"application/json", `{"doc":"` + b64("short") + `"`, nil},
		"a body that is itself one": {"application/pdf", "%PDF-1.7", nil},
	} {
		var found []*bytes.Buffer
		ok, err := Extract(Request{ContentType: c.contentType, Body: func() (io.ReadCloser, error) {
			return io.NopCloser(iotest.HalfReader(strings.NewReader(c.body))), nil
		}}, layout, func() io.Writer {
			found = append(found, new(bytes.Buffer))
			return found[len(found)-1]
		})
		require.NoError(t, err, name)
		require.Equal(t, c.want != nil, ok, name)
		if !ok {
			continue
		}
		var got []string
		for _, b := range found {
			got = append(got, b.String())
		}
		require.Equal(t, c.want, got, name)
	}
	broken := errors.New("the disk")
	_, err := Extract(Request{ContentType: "application/json", Body: func() (io.ReadCloser, error) { return nil, broken }}, layout, nil)
	require.ErrorIs(t, err, broken)
}

func TestDocumentsAreTakenOutOfMessages(t *testing.T) {
	t.Parallel()
	places := Places{Inline: [][]int{{1, 2}}, Refs: [][]int{{3}}}
	frame := func(message string) string {
		return "\x00\x00\x00\x00" + string(rune(len(message))) + message
	}
	for name, c := range map[string]struct {
		message string
		want    []string
	}{
		"one":                 {"\x0a\x05\x12\x03abc", []string{"abc"}},
		"two":                 {"\x0a\x05\x12\x03abc\x0a\x03\x12\x01d", []string{"abc", "d"}},
		"one and a reference": {"\x0a\x05\x12\x03abc\x1a\x03gs:", nil},
		"none":                {"\x22\x01x", nil},
		"cut":                 {"\x0a\x05\x12\x03ab", nil},
	} {
		var found []*bytes.Buffer
		ok := ExtractMessage(Request{Body: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(frame(c.message))), nil }}, "", places, func() io.Writer {
			found = append(found, new(bytes.Buffer))
			return found[len(found)-1]
		})
		require.Equal(t, c.want != nil, ok, name)
		for i, want := range c.want {
			require.Equal(t, want, found[i].String(), name)
		}
	}
	require.True(t, Itself("application/pdf"))
	require.False(t, Itself("application/json; charset=utf-8"))
	require.False(t, Itself(""))
}
