package credential

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/oauth2"
)

func TestReasons(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		err  error
		want string
	}{
		"plain":             {errors.New("no such profile"), "no such profile"},
		"lines":             {errors.New("chain:\n\tone: missing A\n\n\ttwo: missing B"), "chain: one: missing A two: missing B"},
		"an answer":         {errors.New(`status 400: {"access_token":"short"}` + "\nsee the manual"), "status 400: see the manual"},
		"a JWT":             {errors.New("bad eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.SflKxwRJSMeKKF2QT4fwpMeJf36POk6y"), "bad [redacted].[redacted].[redacted]"},
		"a secret key":      {errors.New("got wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLE9"), "got [redacted]"},
		"a hexadecimal key": {errors.New("got 0123456789abcdef0123456789abcdef"), "got [redacted]"},
		"a path":            {errors.New("open /var/run/secrets/eks.amazonaws.com/serviceaccount/token: no such file"), "open /var/run/secrets/eks.amazonaws.com/serviceaccount/token: no such file"},
		"a path to a key":   {errors.New("open /home/ocr/Keys2026/My-Project-prod/key.json: denied"), "open /home/ocr/Keys2026/My-Project-prod/key.json: denied"},
		"a secret in it":    {errors.New("GET /v1/tokens/SflKxwRJSMeKKF2QT4fwpMeJf36POk6y/x"), "GET /v1/tokens/[redacted]/x"},
		"a request id":      {errors.New("RequestID: f092748c-1989-4659-9135-8252dec1ea47"), "RequestID: f092748c-1989-4659-9135-8252dec1ea47"},
		"a host":            {errors.New("lookup sts.us-east-1.amazonaws.com: no such host"), "lookup sts.us-east-1.amazonaws.com: no such host"},
		"a query": {
			fmt.Errorf("send: %w", &url.Error{Op: "Get", URL: "http://169.254.170.2/v2?token=short", Err: errors.New("connection refused")}),
			"send: Get 169.254.170.2: connection refused",
		},
		"a token service": {
			fmt.Errorf("wrapped: %w", &oauth2.RetrieveError{Response: &http.Response{StatusCode: http.StatusBadRequest}, Body: []byte(`{"error":"invalid_grant","refresh_token":"short"}`)}),
			"the token service answered 400 Bad Request (invalid_grant)",
		},
		"a page": {
			&oauth2.RetrieveError{Response: &http.Response{StatusCode: http.StatusBadGateway}, Body: []byte(`<html>short</html>`)}, "the token service answered 502 Bad Gateway",
		},
	} {
		require.Equal(t, tt.want, reason(tt.err), name)
	}
	require.Len(t, reason(errors.New(strings.Repeat("long ", 1000))), maxReason+len("…"))
	require.Len(t, reason(errors.New(strings.Repeat("€", 1000))), maxReason-1+len("…"), "cut between characters")
}
