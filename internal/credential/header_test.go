package credential

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// keyFile is an account whose key is in a file.
type keyFile struct {
	*Credential
	path  string
	reads int
	logs  *observer.ObservedLogs
}

func newKeyFile(t *testing.T, path string) *keyFile {
	t.Helper()
	core, logs := observer.New(zapcore.DebugLevel)
	k := &keyFile{path: path, logs: logs}
	c, err := HeaderFile(t.Context(), HeaderFileOptions{
		Header: "X-Own", Scheme: "Key", Path: path, Log: zap.New(core),
		Read: func() (string, error) {
			k.reads++
			data, err := os.ReadFile(path)
			switch text := strings.TrimSpace(string(data)); {
			case err != nil:
				return "", errors.New("the file is missing")
			case text == "":
				return "", errors.New("the file is empty")
			default:
				return text, nil
			}
		},
	})
	require.NoError(t, err)
	k.Credential = c
	return k
}

// sends is what the next attempt carries.
func sends(t *testing.T, c *Credential, header string) string {
	t.Helper()
	r := carried(t, query)
	require.NoError(t, c.Apply(t.Context(), Attempt{r, noSum}))
	require.Len(t, r.Header[header], 1)
	require.Equal(t, cleanQuery, r.URL.RawQuery)
	return r.Header.Get(header)
}

func refusedKey(value string) Refusal {
	return Refusal{Status: http.StatusForbidden, Sent: http.Header{"X-Own": {value}}}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

func TestAKeyFileIsReadAgainWhenItChanges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "key")
		write(t, path, "one\n")
		k := newKeyFile(t, path)
		require.Equal(t, []string{"X-Own"}, k.Headers())
		require.Equal(t, "Key one", sends(t, k.Credential, "X-Own"))
		write(t, path, "second\n")
		require.Equal(t, "Key one", sends(t, k.Credential, "X-Own"), "looked at less than a second ago")
		time.Sleep(lookEvery)
		require.Equal(t, "Key second", sends(t, k.Credential, "X-Own"))
		for range 10 {
			time.Sleep(lookEvery)
			sends(t, k.Credential, "X-Own")
		}
		require.Equal(t, 2, k.reads, "a file that does not change is not read")
	})
}

// Kubernetes puts a new folder beside the old one and switches a link; size and times may stay the same.
func TestASwitchedLinkIsAChange(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		at := time.Now()
		for _, version := range []string{"one", "two"} {
			require.NoError(t, os.Mkdir(filepath.Join(dir, version), 0o700))
			file := filepath.Join(dir, version, "key")
			write(t, file, "k-"+version)
			require.NoError(t, os.Chtimes(file, at, at))
		}
		require.NoError(t, os.Symlink("one", filepath.Join(dir, "..data")))
		require.NoError(t, os.Symlink(filepath.Join("..data", "key"), filepath.Join(dir, "key")))
		k := newKeyFile(t, filepath.Join(dir, "key"))
		require.Equal(t, "Key k-one", sends(t, k.Credential, "X-Own"))
		require.NoError(t, os.Symlink("two", filepath.Join(dir, "new")))
		require.NoError(t, os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, "..data")))
		time.Sleep(lookEvery)
		require.Equal(t, "Key k-two", sends(t, k.Credential, "X-Own"))
	})
}

func TestBrokenContentIsToldOnceAndChangesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "key")
		write(t, path, "one")
		k := newKeyFile(t, path)
		problems := func(text string, want int) {
			t.Helper()
			for range 3 {
				time.Sleep(lookEvery)
				require.Equal(t, "Key one", sends(t, k.Credential, "X-Own"))
			}
			require.False(t, k.Mend(t.Context(), refusedKey("Key one")))
			require.Len(t, k.logs.All(), want)
			require.Equal(t, text, k.logs.All()[want-1].ContextMap()["error"])
		}
		write(t, path, "\n")
		problems("the file is empty", 1)
		require.NoError(t, os.Remove(path))
		problems("the file is missing", 2)
		write(t, path, "one")
		time.Sleep(lookEvery)
		sends(t, k.Credential, "X-Own")
		write(t, path, "\n")
		problems("the file is empty", 3) // once for each time
		write(t, path, "two")
		time.Sleep(lookEvery)
		require.Equal(t, "Key two", sends(t, k.Credential, "X-Own"))
	})
	_, err := HeaderFile(t.Context(), HeaderFileOptions{Header: "X-Own", Path: "x", Read: func() (string, error) { return "", errors.New("the file is empty") }})
	require.ErrorContains(t, err, "the file is empty")
}

func TestARefusedKeyIsReadAgainAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "key")
		write(t, path, "one")
		k := newKeyFile(t, path)
		require.False(t, k.Mend(t.Context(), refusedKey("Key one")), "it is still the same")
		reads := k.reads
		require.False(t, k.Mend(t.Context(), refusedKey("Key one")))
		require.Equal(t, reads, k.reads, "and is not read for each refusal")
		write(t, path, "second")
		require.True(t, k.Mend(t.Context(), refusedKey("Key one")), "within the second")
		require.True(t, k.Mend(t.Context(), refusedKey("Key one")), "others that were sent with the old one")
		require.Equal(t, "Key second", sends(t, k.Credential, "X-Own"))
		require.False(t, k.Mend(t.Context(), refusedKey("Key second")))
	})
}

func TestOtherCredentialsCannotBeMended(t *testing.T) {
	t.Parallel()
	for _, c := range []*Credential{Passthrough(), None(), Header("X-Own", "", "value")} {
		require.False(t, c.Mend(t.Context(), refusedKey("value")))
	}
}
