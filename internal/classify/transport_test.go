package classify

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTransportErrorsByType(t *testing.T) {
	t.Parallel()
	syscallError := func(op string, errno syscall.Errno) error {
		return &url.Error{Op: "Post", URL: "http://h.example/", Err: &net.OpError{Op: op, Net: "tcp", Err: os.NewSyscallError(op, errno)}}
	}
	for _, c := range []struct {
		name  string
		err   error
		class Class
		code  string
	}{
		{"refused", syscallError("connect", syscall.ECONNREFUSED), Transient, "connection_refused"},
		{"reset", syscallError("read", syscall.ECONNRESET), Transient, "connection_reset"},
		{"broken pipe", syscallError("write", syscall.EPIPE), Transient, "connection_reset"},
		{"no route", &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.EHOSTUNREACH)}, Transient, "network"},
		{"name", &net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "h.example", IsNotFound: true}}, Transient, "name_not_resolved"},
		{"name, timed out", &net.DNSError{Err: "timeout", IsTimeout: true}, Transient, "timeout"},
		{"end of file", &url.Error{Op: "Post", URL: "/", Err: io.EOF}, Transient, "connection_closed"},
		{"unexpected end", fmt.Errorf("reading: %w", io.ErrUnexpectedEOF), Transient, "connection_closed"},
		{"broke off", &TruncatedError{Err: io.ErrUnexpectedEOF}, Transient, "truncated"},
		{"broke off, wrapped", fmt.Errorf("x: %w", &TruncatedError{Err: io.EOF}), Transient, "truncated"},
		{"broke off by a timeout", &TruncatedError{Err: os.ErrDeadlineExceeded}, Transient, "timeout"},
		{"our timeout", &TimeoutError{What: "attempt timeout", After: time.Second}, Transient, "timeout"},
		{"our timeout, wrapped", &url.Error{Op: "Post", URL: "/", Err: fmt.Errorf("x: %w", &TimeoutError{})}, Transient, "timeout"},
		{"deadline of a connection", &net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, Transient, "timeout"},
		{"deadline of a context", context.DeadlineExceeded, Transient, "timeout"},
		{"credentials", fmt.Errorf("attempt: %w", &CredentialError{Err: errors.New("no file")}), Auth, "credentials"},
		{"credentials, timed out", &CredentialError{Err: context.DeadlineExceeded}, Auth, "credentials"},
		{"certificate", &url.Error{Op: "Post", URL: "/", Err: &tls.CertificateVerificationError{Err: errors.New("unknown authority")}}, Permanent, "certificate"},
		{"anything else", errors.New("connection refused, certificate, timeout"), Transient, "transport"},
	} {
		v := Decide(Attempt{Err: c.err, Sent: true, Status: 200}, Fault{Codes: []string{"x"}, Job: true}, Table{{Class: Quota}}, Table{{Class: Quota}})
		require.Equal(t, c.class, v.Class, c.name)
		require.Equal(t, c.code, v.Code, c.name)
		require.Equal(t, c.err.Error(), v.Message, c.name)
		require.NotEmpty(t, v.Reason, c.name)
		require.Equal(t, c.code == "certificate", v.Aside, c.name)
	}
}

// What the standard library's client really returns, and not only what we believe it does.
func TestTransportErrorsFromRealConnections(t *testing.T) {
	t.Parallel()
	ask := func(t *testing.T, target string, client *http.Client) Verdict {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, target, nil)
		require.NoError(t, err)
		response, err := client.Do(r)
		if err == nil {
			_ = response.Body.Close()
		}
		require.Error(t, err)
		return Decide(Attempt{Err: err, Sent: true}, Fault{}, nil, nil)
	}
	client := func(t *testing.T) *http.Client {
		t.Helper()
		transport := &http.Transport{DisableKeepAlives: true}
		t.Cleanup(transport.CloseIdleConnections)
		return &http.Client{Transport: transport}
	}

	t.Run("refused", func(t *testing.T) {
		t.Parallel()
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		require.NoError(t, err)
		require.NoError(t, l.Close())
		require.Equal(t, "connection_refused", ask(t, "http://"+l.Addr().String(), client(t)).Code)
	})
	t.Run("certificate", func(t *testing.T) {
		t.Parallel()
		s := httptest.NewUnstartedServer(http.NotFoundHandler())
		s.Config.ErrorLog = log.New(io.Discard, "", 0)
		s.StartTLS()
		t.Cleanup(s.Close)
		v := ask(t, s.URL, client(t))
		require.Equal(t, "certificate", v.Code)
		require.Equal(t, Permanent, v.Class)
		require.Equal(t, Neutral, v.Health(), "the breaker hears nothing of it")
	})
	t.Run("closed without an answer", func(t *testing.T) {
		t.Parallel()
		s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
		t.Cleanup(s.Close)
		v := ask(t, s.URL, client(t))
		require.Contains(t, []string{"connection_closed", "connection_reset"}, v.Code)
		require.Equal(t, Sick, v.Health())
	})
	t.Run("no TLS on the other side", func(t *testing.T) {
		t.Parallel()
		s := httptest.NewServer(http.NotFoundHandler())
		t.Cleanup(s.Close)
		require.Equal(t, Transient, ask(t, "https://"+s.Listener.Addr().String(), client(t)).Class)
	})
}

// The cause of a context is what the caller sees, so that a timeout is known by the type of the cause.
func TestTimeoutAsTheCauseOfAContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cause := &TimeoutError{What: "attempt timeout", After: 500 * time.Millisecond}
		ctx, cancel := context.WithTimeoutCause(t.Context(), cause.After, cause)
		defer cancel()
		<-ctx.Done()
		v := Decide(Attempt{Err: context.Cause(ctx), Sent: true}, Fault{}, nil, nil)
		require.Equal(t, "timeout", v.Code)
		require.Equal(t, "no answer within the attempt timeout of 500ms", v.Message)
	})
	var asNet net.Error = &TimeoutError{}
	require.True(t, asNet.Timeout())
}

func TestIsTimeout(t *testing.T) {
	t.Parallel()
	require.True(t, IsTimeout(fmt.Errorf("x: %w", context.DeadlineExceeded)))
	require.True(t, IsTimeout(&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ETIMEDOUT)}))
	require.False(t, IsTimeout(context.Canceled))
	require.False(t, IsTimeout(io.EOF))
	require.False(t, IsTimeout(nil))
}

func TestErrorsUnwrap(t *testing.T) {
	t.Parallel()
	require.ErrorIs(t, &CredentialError{Err: io.EOF}, io.EOF)
	require.ErrorIs(t, &TruncatedError{Err: io.ErrUnexpectedEOF}, io.ErrUnexpectedEOF)
	require.ErrorContains(t, &CredentialError{Err: io.EOF}, "credentials")
	require.ErrorContains(t, &TruncatedError{Err: io.EOF}, "broke off")
}

func TestHealthOfAVerdict(t *testing.T) {
	t.Parallel()
	require.Equal(t, Sick, Verdict{Class: Transient}.Health())
	require.Equal(t, Neutral, Verdict{Class: Transient, Aside: true}.Health())
	require.Equal(t, Healthy, Verdict{Class: Permanent}.Health())
}
