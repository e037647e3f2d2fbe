package proxy

import (
	"bufio"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func parsed(t testing.TB, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	require.NoError(t, err)
	return u
}

// received is a request as net/http reads it off the wire; nil when it refuses to.
func received(requestTarget string) *http.Request {
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader("GET " + requestTarget + " HTTP/1.1\r\nHost: proxy\r\n\r\n")))
	if err != nil || r.RequestURI != requestTarget || !strings.HasPrefix(requestTarget, "/") {
		return nil
	}
	return r
}

func targets() []string {
	return []string{
		"/", "/ocr", "/v1/models/prebuilt-read:analyze?api-version=2024-11-30", "/v1/models/prebuilt-read%3Aanalyze", "/a%2Fb/c%2f", "//double//slash",
		"/p/year=2020/a+b~c?a=2&a=1&b=%20x", "/?", "/x?", "/x?a;b;c=%zz", "/x?=&&", "/x??", "/x?a#b", "/a#b", "/a|b", "/a\"b", "/a<b>", "/ä/é?ö", "/a\\b", "/a^b`{}",
		"/.", "/..", "/a/../b", "/a/./b/", "/%00", "/%e4", "/*", "/a:b", "/a;b=c,d", "/~u/!$&'()*+,;=:@", "/[x]", "/a%5Bx%5D", "/%2F%2F", "/http://x/", "//x.y/z?//",
	}
}

func TestTargetsArriveByteForByte(t *testing.T) {
	t.Parallel()
	for _, base := range []string{"https://up.example", "https://up.example/", "https://up.example:8443/base", "http://up.example/a%2Fb/c/"} {
		upstream := parsed(t, base)
		for _, want := range targets() {
			r := received(want)
			require.NotNil(t, r, want)
			got := target(upstream, r.URL, r.RequestURI)
			require.Equal(t, strings.TrimSuffix(upstream.EscapedPath(), "/")+want, got.RequestURI(), "base %s", base)
			require.Equal(t, upstream.Host, got.Host)
			require.Equal(t, upstream.Scheme, got.Scheme)
		}
	}
}

func FuzzTarget(f *testing.F) {
	for _, want := range targets() {
		f.Add(want, false)
		f.Add(want, true)
	}
	plain, based := parsed(f, "https://up.example"), parsed(f, "https://up.example/a%2Fb/c")
	f.Fuzz(func(t *testing.T, want string, withBase bool) {
		r := received(want)
		if r == nil {
			t.Skip("net/http does not accept it")
		}
		upstream, base := plain, ""
		if withBase {
			upstream, base = based, "/a%2Fb/c"
		}
		got := target(upstream, r.URL, r.RequestURI)
		require.Equal(t, "up.example", got.Host)
		path, _, _ := strings.Cut(base+want, "?")
		if strings.HasPrefix(path, "//") && r.URL.EscapedPath() != path {
			t.Skip("two slashes and a character that belongs escaped: no URL of the standard library writes that")
		}
		require.Equal(t, base+want, got.RequestURI())
	})
}

func TestUnder(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		upstream, location string
		rest               string
		ok                 bool
	}{
		{"https://host.example", "https://host.example/a/b?c=%2F#d", "/a/b?c=%2F#d", true},
		{"https://host.example", "HTTPS://Host.Example/a", "/a", true},
		{"https://host.example", "https://host.example:443/a", "/a", true},
		{"https://host.example:443", "https://host.example/a", "/a", true},
		{"http://host.example", "http://host.example:80/a", "/a", true},
		{"http://host.example:8080", "http://host.example:8080/a", "/a", true},
		{"https://[::1]", "https://[::1]:443/a", "/a", true},
		{"https://host.example", "https://host.example", "/", true},
		{"https://host.example", "https://host.example?x=1", "/?x=1", true},
		{"https://host.example/base", "https://host.example/base/a", "/a", true},
		{"https://host.example/base/", "https://host.example/base/a", "/a", true},
		{"https://host.example/base", "https://host.example/base", "/", true},
		{"https://host.example/base", "https://host.example/base?x", "/?x", true},
		{"https://host.example/a%2Fb", "https://host.example/a%2Fb/c", "/c", true},

		{"https://host.example/base", "https://host.example/other", "", false},
		{"https://host.example/base", "https://host.example/baseline", "", false},
		{"https://host.example", "http://host.example/a", "", false},
		{"https://host.example", "https://host.example:8443/a", "", false},
		{"https://host.example:8443", "https://host.example/a", "", false},
		{"https://host.example", "https://evil-host.example/a", "", false},
		{"https://host.example", "https://host.example.evil.example/a", "", false},
		{"https://host.example", "https://host.example@evil.example/a", "", false},
		{"https://host.example", "https://user:password@host.example/a", "", false},
		{"https://host.example", "https://host.example\\.evil.example/a", "", false},
		{"https://host.example", "https://evil.example/https://host.example/a", "", false},
		{"https://host.example", "/relative/a", "", false},
		{"https://host.example", "relative", "", false},
		{"https://host.example", "//host.example/a", "", false},
		{"https://host.example", "", "", false},
		{"https://host.example", "://host.example/a", "", false},
	} {
		rest, ok := under(parsed(t, c.upstream), c.location)
		require.Equal(t, c.ok, ok, "%s under %s", c.location, c.upstream)
		require.Equal(t, c.rest, rest)
	}
}

func FuzzUnder(f *testing.F) {
	f.Add("https://host.example/base/a?b")
	f.Add("https://user@host.example:443/base")
	upstream := parsed(f, "https://host.example/base")
	f.Fuzz(func(t *testing.T, location string) {
		rest, ok := under(upstream, location)
		if !ok {
			return
		}
		require.True(t, strings.HasPrefix(rest, "/"), "what is left is a path of the proxy's own")
		if u, err := url.Parse(location); err == nil {
			require.Equal(t, "host.example", strings.ToLower(u.Hostname()), "only the upstream's own addresses are taken over")
			require.Nil(t, u.User)
		}
	})
}

func TestHasGzip(t *testing.T) {
	t.Parallel()
	for accept, want := range map[string]bool{
		"gzip": true, "GZIP": true, "br, gzip": true, "gzip;q=0.5": true, "*": true, "deflate, gzip ; q=1": false, "identity": false, "": false, "br": false,
		"gzip;q=0": false, "gzip; q=0": false, "*;q=0": false, "xgzip": false, "gzip;q=0, *": true,
	} {
		require.Equal(t, want, hasGzip([]string{accept}), "%q", accept)
	}
	require.True(t, hasGzip([]string{"br", "gzip"}))
	require.False(t, hasGzip(nil))
}
