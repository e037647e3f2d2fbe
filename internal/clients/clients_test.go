package clients

import (
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

const (
	one   = "token-of-worker-one"
	two   = "token-of-worker-two"
	three = "token-of-worker-three"
)

func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tokens")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func asking(target string, headers ...string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, target, http.NoBody)
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Add(name, value)
	}
	return r
}

// Each is where some client library puts its key.
func TestTokensAreShownWhereLibrariesPutTheirKeys(t *testing.T) {
	tokens, err := Open(file(t, "# ours\n"+one+"\n\n  "+two+"  \r\n"), zap.NewNop())
	require.NoError(t, err)
	for _, known := range []*http.Request{
		asking("/", "Authorization: Bearer "+one), asking("/", "authorization: bearer "+two), asking("/", "Authorization: "+one),
		asking("/", "Authorization: Token "+one),
		asking("/", "Authorization: Basic "+base64.StdEncoding.EncodeToString([]byte("any:"+one))),
		asking("/", "Authorization: AWS4-HMAC-SHA256 Credential="+one+"/20261130/us-east-1/textract/aws4_request, SignedHeaders=host, Signature=ab"),
		asking("/", "Ocp-Apim-Subscription-Key: "+one), asking("/", "X-Goog-Api-Key: "+one), asking("/", "Api-Key: "+one), asking("/", "apikey: "+one),
		asking("/?key=" + one), asking("/?a=b&apikey=" + one), asking("/", "Authorization: Bearer other", "X-Api-Key: "+one),
	} {
		_, ok := tokens.Find(known)
		require.True(t, ok, "%v %v", known.URL, known.Header)
	}
	for _, stranger := range []*http.Request{
		asking("/"), asking("/", "Authorization: Bearer "), asking("/", "Authorization: Bearer "+one[1:]), asking("/", "Authorization: Bearer "+one+"x"),
		asking("/", "X-Name: "+one), asking("/?name=" + one), asking("/", "Cookie: key="+one), asking("/", "Cookie: "+one),
		asking("/", "Authorization: Bearer # ours"), asking("/", "Authorization: AWS4-HMAC-SHA256 Credential="),
	} {
		_, ok := tokens.Find(stranger)
		require.False(t, ok, "%v %v", stranger.URL, stranger.Header)
	}
	first, _ := tokens.Find(asking("/", "Api-Key: "+one))
	again, _ := tokens.Find(asking("/?key=" + one))
	second, _ := tokens.Find(asking("/", "Api-Key: "+two))
	require.Equal(t, first, again)
	require.NotEqual(t, first, second)
}

func TestFilesThatHoldNoTokens(t *testing.T) {
	for text, says := range map[string]string{
		"": "no token", "# only\n\n": "no token", "short": "line 1: a token has 16 to 512", one + "\n" + strings.Repeat("a", 513): "line 2",
		one + " " + two: "other than space", "a/token-with-a-slash": "slash", "a-token-of-Müller-x": "printable ASCII",
		strings.Repeat(one+"\n", maxTokens+1): "more than 256", strings.Repeat("a", 1<<17): "too long",
	} {
		_, err := Open(file(t, text), zap.NewNop())
		require.ErrorContains(t, err, says)
		require.NotContains(t, err.Error(), "worker", "a token is not repeated")
	}
	_, err := Open(filepath.Join(t.TempDir(), "none"), zap.NewNop())
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestAFileThatChangesIsReadAgain(t *testing.T) {
	core, logs := observer.New(zap.DebugLevel)
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	link := filepath.Join(dir, "tokens")
	point := func(to string) {
		require.NoError(t, os.RemoveAll(link+".new"))
		require.NoError(t, os.Symlink(to, link+".new"))
		require.NoError(t, os.Rename(link+".new", link))
	}
	point(write("first", one))
	synctest.Test(t, func(t *testing.T) {
		tokens, err := Open(link, zap.New(core))
		require.NoError(t, err)
		knows := func(token string) bool {
			_, ok := tokens.Find(asking("/", "Api-Key: "+token))
			return ok
		}
		require.True(t, knows(one))
		require.False(t, knows(two))
		point(write("second", two+"\n"+three))
		require.True(t, knows(two), "at once")
		require.False(t, knows(one), "it was taken out")

		require.NoError(t, os.WriteFile(filepath.Join(dir, "second"), []byte("broken"), 0o600))
		time.Sleep(2 * lookEvery)
		require.True(t, knows(three), "what cannot be used changes nothing")
		require.False(t, knows("broken-and-unknown"))
		require.Equal(t, 1, logs.Len(), "and is told once")
		require.NotContains(t, logs.All()[0].ContextMap()["error"], "broken")
		require.NoError(t, os.WriteFile(filepath.Join(dir, "second"), []byte(three), 0o600))
		time.Sleep(2 * lookEvery)
		require.True(t, knows(three))
		require.False(t, knows(two))
		require.NoError(t, os.Remove(link))
		time.Sleep(2 * lookEvery)
		require.True(t, knows(three), "a file that has gone, too")
		require.Equal(t, 2, logs.Len())
	})
}

func FuzzShown(f *testing.F) {
	f.Add("Authorization", "Basic OnRva2Vu", "key=a")
	f.Add("Authorization", "AWS4-HMAC-SHA256 Credential=a/b", "apikey=%zz")
	f.Fuzz(func(t *testing.T, name, value, query string) {
		r := &http.Request{Header: http.Header{name: {value, value}}}
		r.URL = asking("/").URL
		r.URL.RawQuery = query
		values := Shown(r)
		require.LessOrEqual(t, len(values), maxShown)
		for _, v := range values {
			require.LessOrEqual(t, len(v), mostLength)
		}
	})
}
