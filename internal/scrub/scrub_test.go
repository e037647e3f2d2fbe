package scrub_test

import (
	"bytes"
	"io"
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

func TestLocation(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		"https://h/a?b=1": "https://h/a?b=1", "https://h/a?b=1&key=S": "https://h/a?b=1", "https://h/a?key=S": "https://h/a", "/a": "/a",
	} {
		require.Equal(t, want, scrub.Location(raw))
	}
}

func TestURLsInATextAreCleaned(t *testing.T) {
	t.Parallel()
	v := scrub.FromRequest(nil, "")
	for text, want := range map[string]string{
		"no url": "no url",
		`fetch "https://u:pw@host/a?x=1&sig=SECRET&y=2#f" failed`: `fetch "https://[redacted]@host/a?x=1&y=2[redacted]#f" failed`,
		"see https://host/a?x=1 and http://b":                     "see https://host/a?x=1 and http://b",
		"redis://:pw@host:1":                                      "redis://[redacted]@host:1",
		"odd ://":                                                 "odd ://",
	} {
		require.Equal(t, want, v.Text(text))
	}
}

// The order in which secrets were collected must not decide whether the rest of a longer one stays readable.
func TestLongerSecretsGoFirst(t *testing.T) {
	t.Parallel()
	for _, order := range [][]string{{"secret1", "secret1-and-more"}, {"secret1-and-more", "secret1"}} {
		v := scrub.FromRequest(nil, "")
		for _, s := range order {
			v.Add(s)
		}
		require.Equal(t, "[redacted] [redacted]", v.Text("secret1-and-more secret1"))
	}
}

func TestForm(t *testing.T) {
	t.Parallel()
	const urlencoded = "application/x-www-form-urlencoded"
	found, err := scrub.FormSecrets(urlencoded, strings.NewReader("apikey=K%2B1&language=eng&url=http%3A%2F%2Fx"))
	require.NoError(t, err)
	require.Equal(t, []scrub.Secret{{"apikey", "K%2B1"}, {"apikey", "K+1"}}, found)
	require.Equal(t, "language=eng&url=http%3A%2F%2Fx", cut(t, urlencoded, "apikey=K&language=eng&url=http%3A%2F%2Fx"))
	require.Equal(t, "a=1;b=2", cut(t, urlencoded+"; charset", "a=1&key=K;b=2"), "an odd label does not save a credential")

	var body bytes.Buffer
	w := multipart.NewWriter(&body)
	require.NoError(t, w.WriteField("language", "eng"))
	require.NoError(t, w.WriteField("apikey", "THE-KEY"))
	f, err := w.CreateFormFile("file", "a.png")
	require.NoError(t, err)
	_, err = f.Write([]byte("\x89PNG\r\n\r\nname=\"apikey\""))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	found, err = scrub.FormSecrets(w.FormDataContentType(), bytes.NewReader(body.Bytes()))
	require.NoError(t, err)
	require.Equal(t, []scrub.Secret{{"apikey", "THE-KEY"}}, found)
	clean := []byte(cut(t, w.FormDataContentType(), body.String()))
	require.NotContains(t, string(clean), "THE-KEY")
	form, err := multipart.NewReader(bytes.NewReader(clean), w.Boundary()).ReadForm(1 << 20)
	require.NoError(t, err, "what is left is still a form")
	require.Equal(t, map[string][]string{"language": {"eng"}}, form.Value)
	require.Len(t, form.File["file"], 1)
	require.EqualValues(t, len("\x89PNG\r\n\r\nname=\"apikey\""), form.File["file"][0].Size)

	for _, other := range []string{"application/json", "", "bad/"} {
		found, err = scrub.FormSecrets(other, strings.NewReader("apikey=K"))
		require.NoError(t, err)
		require.Empty(t, found)
	}
}

func cut(t *testing.T, contentType, body string) string {
	t.Helper()
	var out strings.Builder
	require.NoError(t, scrub.CutForm(contentType, strings.NewReader(body), &out))
	return out.String()
}

// What is labelled a form and is none may hold a credential that nobody can find: it must not be kept.
func TestUnreadableForms(t *testing.T) {
	t.Parallel()
	const part = "Content-Disposition: form-data; name=apikey\r\n\r\nK\r\n"
	for name, c := range map[string][2]string{
		"no boundary":    {"multipart/form-data", "--x\r\n" + part + "--x--\r\n"},
		"odd parameters": {"multipart/form-data; boundary=x; y", "--x\r\n" + part + "--x--\r\n"},
		"no end":         {"multipart/form-data; boundary=x", "--x\r\nContent-Disposition: form-data; name=a\r\n\r\nK"},
		"another one":    {"multipart/form-data; boundary=y", "--x\r\n" + part + "--x--\r\n"},
	} {
		_, err := scrub.FormSecrets(c[0], strings.NewReader(c[1]))
		require.ErrorIs(t, err, scrub.ErrUnreadableForm, name)
	}
	found, err := scrub.FormSecrets("multipart/form-data; boundary=x", strings.NewReader("--x\r\nContent-Disposition: attachment; name=\"apikey\"\r\n\r\nK\r\n--x--\r\n"))
	require.NoError(t, err)
	require.Equal(t, []scrub.Secret{{"apikey", "K"}}, found, "whatever the disposition is called")
}

func TestLargeFormsAreSearchedAndCutInBoundedMemory(t *testing.T) {
	t.Parallel()
	const urlencoded = "application/x-www-form-urlencoded"
	large := func() io.Reader {
		return io.MultiReader(strings.NewReader("a="), io.LimitReader(zeros{}, 8<<20), strings.NewReader("&key=K&b="), io.LimitReader(zeros{}, 1<<20))
	}
	found, err := scrub.FormSecrets(urlencoded, large())
	require.NoError(t, err)
	require.Equal(t, []scrub.Secret{{"key", "K"}}, found)
	var out strings.Builder
	require.NoError(t, scrub.CutForm(urlencoded, large(), &out))
	require.Len(t, out.String(), len("a=&b=")+(9<<20))
	require.NotContains(t, out.String(), "key")
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '0'
	}
	return len(p), nil
}

func FuzzForm(f *testing.F) {
	f.Add("multipart/form-data; boundary=x", "--x\r\nContent-Disposition: form-data; name=apikey\r\n\r\nK\r\n--x--\r\n")
	f.Add("application/x-www-form-urlencoded", "apikey=K&a=%zz")
	f.Fuzz(func(t *testing.T, contentType, body string) {
		found, err := scrub.FormSecrets(contentType, strings.NewReader(body))
		if err != nil {
			require.ErrorIs(t, err, scrub.ErrUnreadableForm)
			return
		}
		if len(found) == 0 {
			return
		}
		var clean strings.Builder
		if scrub.CutForm(contentType, strings.NewReader(body), &clean) != nil {
			return // then it is not kept at all
		}
		left, err := scrub.FormSecrets(contentType, strings.NewReader(clean.String()))
		require.NoError(t, err)
		require.Empty(t, left, "nothing is left of them in %q", clean.String())
	})
}
