package scrub_test

import (
	"bytes"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ocr-proxy/ocr-proxy/internal/scrub"
)

func TestQuery(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		raw, clean string
		cut        []string
	}{
		{"", "", nil},
		{"a=1&b=2;c", "a=1&b=2;c", nil},
		{"api-version=2024&key=K1", "api-version=2024", []string{"key"}},
		{"key=K1&api-version=2024", "api-version=2024", []string{"key"}},
		{"a=1;sig=S&b=%zz", "a=1;b=%zz", []string{"sig"}},
		{"%6bey=K&SUBSCRIPTION-KEY=x&q=monkey", "q=monkey", []string{"key", "SUBSCRIPTION-KEY"}},
		{"token", "", []string{"token"}},
	} {
		clean, cut := scrub.Query(c.raw)
		require.Equal(t, c.clean, clean, c.raw)
		require.Equal(t, c.cut, cut, c.raw)
	}
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"Authorization", "Proxy-Authorization", "X-Goog-Api-Key", "Ocp-Apim-Subscription-Key", "apikey", "api-key", "Cookie",
		"X-Amz-Security-Token", "X-Auth-Token", "app_key", "app_id", "X-Vendor-Secret", "X-Amz-Date", "unstructured-api-key",
	} {
		require.True(t, scrub.Header(name), name)
		require.False(t, scrub.Kept(name), name)
	}
	for _, name := range []string{"Content-Type", "X-Amz-Target", "X-Mine", "Idempotency-Key", "User-Agent", "x-goog-request-params", "amz-sdk-invocation-id"} {
		require.False(t, scrub.Header(name), name)
		require.True(t, scrub.Kept(name), name)
	}
	for _, name := range []string{"X-Forwarded-For", "Connection", "Ocr-Proxy-Tenant", "Host", "Made-Up"} {
		require.False(t, scrub.Kept(name), name)
	}
}

func TestEchoedSecretsAreReplaced(t *testing.T) {
	t.Parallel()
	h := http.Header{"Authorization": {"Bearer abcdef123"}, "X-Own": {"own-secret"}, "Content-Type": {"application/pdf"}}
	v := scrub.FromRequest(h, "sig=a%2Bbcdefg&x=visible1", "x-own")
	got := v.Text(`key abcdef123 is bad, so are own-secret and a%2Bbcdefg and a+bcdefg; visible1 application/pdf`)
	require.Equal(t, `key [redacted] is bad, so are [redacted] and [redacted] and [redacted]; visible1 application/pdf`, got)
}

func TestForm(t *testing.T) {
	t.Parallel()
	clean, cut, err := scrub.Form("application/x-www-form-urlencoded", strings.NewReader("apikey=K&language=eng&url=http%3A%2F%2Fx"))
	require.NoError(t, err)
	require.Equal(t, []string{"apikey"}, cut)
	require.Equal(t, "language=eng&url=http%3A%2F%2Fx", string(clean))

	var body bytes.Buffer
	w := multipart.NewWriter(&body)
	require.NoError(t, w.WriteField("language", "eng"))
	require.NoError(t, w.WriteField("apikey", "THE-KEY"))
	f, err := w.CreateFormFile("file", "a.png")
	require.NoError(t, err)
	_, err = f.Write([]byte("\x89PNG\r\n\r\nname=\"apikey\""))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	clean, cut, err = scrub.Form(w.FormDataContentType(), bytes.NewReader(body.Bytes()))
	require.NoError(t, err)
	require.Equal(t, []string{"apikey"}, cut)
	require.NotContains(t, string(clean), "THE-KEY")
	form, err := multipart.NewReader(bytes.NewReader(clean), w.Boundary()).ReadForm(1 << 20)
	require.NoError(t, err, "what is left is still a form")
	require.Equal(t, map[string][]string{"language": {"eng"}}, form.Value)
	require.Len(t, form.File["file"], 1)
	require.EqualValues(t, len("\x89PNG\r\n\r\nname=\"apikey\""), form.File["file"][0].Size)

	for _, other := range []string{"application/json", "", "multipart/form-data", "bad/"} {
		clean, cut, err = scrub.Form(other, strings.NewReader("apikey=K"))
		require.NoError(t, err)
		require.Empty(t, cut)
		require.Nil(t, clean)
	}
}

func FuzzForm(f *testing.F) {
	f.Add("multipart/form-data; boundary=x", "--x\r\nContent-Disposition: form-data; name=apikey\r\n\r\nK\r\n--x--\r\n")
	f.Add("application/x-www-form-urlencoded", "apikey=K&a=%zz")
	f.Fuzz(func(t *testing.T, contentType, body string) {
		clean, cut, err := scrub.Form(contentType, strings.NewReader(body))
		require.NoError(t, err)
		if len(cut) == 0 {
			require.Nil(t, clean, "without a credential the body is kept as it is")
		}
		require.LessOrEqual(t, len(clean), len(body))
	})
}
