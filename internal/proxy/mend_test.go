package proxy

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ocr-proxy/ocr-proxy/internal/breaker"
	"github.com/ocr-proxy/ocr-proxy/internal/credential"
)

// rotating is an account whose key lies in a file.
func rotating(t *testing.T, change func(s *setup)) (s setup, rotate func(key string)) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "key")
	rotate = func(key string) { require.NoError(t, os.WriteFile(path, []byte(key), 0o600)) }
	rotate("planted-old-key")
	s = defaults("generic")
	key, err := credential.HeaderFile(t.Context(), credential.HeaderFileOptions{Header: "X-Key", Path: path, Read: func() (string, error) {
		data, err := os.ReadFile(path)
		return strings.TrimSpace(string(data)), err
	}})
	require.NoError(t, err)
	s.account = func(a *Account) { a.Credential = key }
	if change != nil {
		change(&s)
	}
	return s, rotate
}

func sentKeys(l *lab) (keys []string) {
	for _, a := range l.upstream.attempts() {
		keys = append(keys, a.header.Get("X-Key"))
	}
	return keys
}

func TestARefusedCredentialIsMendedOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s, rotate := rotating(t, func(s *setup) { s.breaker.AuthThreshold = 1 })
		l := newLab(t, s, step{status: 401, header: "Retry-After: 3600", body: "old"}, step{body: "text"})
		rotate("planted-new-key")
		r := l.send(t.Context(), call{body: "doc"})
		require.Equal(t, 200, r.status)
		require.Equal(t, "text", r.body)
		require.Equal(t, "2", r.own("Attempts"))
		require.Zero(t, r.took, "there is nothing to wait for")
		require.Equal(t, []string{"planted-old-key", "planted-new-key"}, sentKeys(l))
		require.Equal(t, 1, l.attempts("auth"))
		require.Equal(t, 1, l.attempts("success"))
		require.Equal(t, breaker.Closed, l.circuit().State, "a key that was rotated is not held against the account")
		require.Zero(t, l.sink.count())
		l.quiet()
	})
}

func TestACredentialThatIsRefusedAgainIsFinal(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s, rotate := rotating(t, nil)
		l := newLab(t, s)
		l.upstream.script(step{status: 403, body: `{"error":{"code":"first"}}`}, step{status: 403, body: `{"error":{"code":"planted-new-key"}}`})
		rotate("planted-new-key")
		r := l.send(t.Context(), call{body: "doc"})
		require.Equal(t, 403, r.status)
		require.Equal(t, "2", r.own("Attempts"))
		require.Equal(t, "auth", r.own("Class"))
		require.Equal(t, string(Permanent), r.own("Outcome"))
		require.Equal(t, 1, l.sink.count())
		letter := l.sink.letters[0]
		require.Len(t, letter.Attempts, 2)
		require.Equal(t, "none", letter.Attempts[1].WaitSource)
		require.Zero(t, letter.Attempts[1].WaitedMS)
		require.Equal(t, 1, letter.RetryCount)
		require.NotContains(t, letter.ErrorCode+letter.StackTrace, "planted", "the provider echoed it")
		l.quiet()
	})
}

func TestNothingIsMendedBeyondWhatARequestMayDo(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(s *setup)
		rotate bool
		step   step
	}{
		"the key is the same":     {step: step{status: 401}},
		"one attempt":             {rotate: true, change: func(s *setup) { s.policy.MaxAttempts = 1 }, step: step{status: 401}},
		"no time":                 {rotate: true, change: func(s *setup) { s.policy.Total = 5 * time.Second }, step: step{status: 401, after: 4800 * time.Millisecond}},
		"the worker's credential": {rotate: true, change: func(s *setup) { s.account = nil }, step: step{status: 401}},
		"another class":           {rotate: true, step: step{status: 400}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s, rotate := rotating(t, tt.change)
				l := newLab(t, s, tt.step)
				if tt.rotate {
					rotate("planted-new-key")
				}
				r := l.send(t.Context(), call{body: "doc"})
				require.Equal(t, tt.step.status, r.status)
				require.Equal(t, "1", r.own("Attempts"))
				require.Equal(t, string(Permanent), r.own("Outcome"))
				l.quiet()
			})
		})
	}
}

// Mending is one attempt among the others: what was transient before and after is retried as ever.
func TestMendingIsOneAttemptAmongOthers(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s, rotate := rotating(t, nil)
		refuse := func(w http.ResponseWriter, _ *http.Request) {
			rotate("planted-new-key")
			w.WriteHeader(http.StatusUnauthorized)
		}
		l := newLab(t, s, step{status: 503}, step{handle: refuse}, step{status: 503}, step{body: "text"})
		r := l.send(t.Context(), call{body: "doc"})
		require.Equal(t, 200, r.status)
		require.Equal(t, "4", r.own("Attempts"))
		require.Len(t, l.upstream.gaps(), 3)
		require.Zero(t, l.upstream.gaps()[1])
		require.Equal(t, 1, l.ended(succeeded))
		l.quiet()
	})
}

// The provider's codes and its clock reach the credential that signs.
func TestARefusedDateIsSignedAgain(t *testing.T) {
	dir := t.TempDir()
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "very-secret-key", "AWS_SESSION_TOKEN": "", "AWS_PROFILE": "", "AWS_EC2_METADATA_DISABLED": "true",
		"AWS_CONFIG_FILE": filepath.Join(dir, "config"), "AWS_SHARED_CREDENTIALS_FILE": filepath.Join(dir, "credentials"),
	} {
		t.Setenv(name, value)
	}
	synctest.Test(t, func(t *testing.T) {
		signer, err := credential.SigV4(t.Context(), credential.SigV4Options{Region: "us-east-1", Service: "textract"})
		require.NoError(t, err)
		s := defaults("textract")
		s.account = func(a *Account) { a.Credential = signer }
		date := func(ahead time.Duration) string {
			return "Date: " + time.Now().Add(ahead).UTC().Format(http.TimeFormat)
		}
		old := step{status: 400, body: `{"__type":"InvalidSignatureException","message":"Signature expired"}`, header: date(10 * time.Minute)}
		l := newLab(t, s, old, step{body: "{}"}, step{body: "{}"})
		r := l.send(t.Context(), call{target: "/", header: startJob, body: `{"DocumentLocation":{}}`})
		require.Equal(t, 200, r.status)
		require.Equal(t, "2", r.own("Attempts"))
		require.Equal(t, "1", l.send(t.Context(), call{target: "/", header: startJob, body: `{"DocumentLocation":{"x":1}}`}).own("Attempts"), "the clock is known now")
		for i, want := range []time.Duration{0, 10 * time.Minute, 10 * time.Minute} {
			sent := l.upstream.attempts()[i]
			require.Equal(t, sent.at.Add(want).UTC().Format("20060102T150405Z"), sent.header.Get("X-Amz-Date"))
		}

		l.upstream.script(step{status: 400, body: `{"__type":"InvalidSignatureException","message":"does not match"}`, header: date(10 * time.Minute)})
		r = l.send(t.Context(), call{target: "/", header: startJob, body: `{"DocumentLocation":{"x":2}}`})
		require.Equal(t, "1", r.own("Attempts"), "a plain mismatch is final")
		l.quiet()
	})
}
