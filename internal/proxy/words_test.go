package proxy

import (
	"crypto/sha256"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ocr-proxy/ocr-proxy/internal/retry"
)

// stopWords are the words of retry_outcomes_total for requests that did not succeed.
func stopWords() []string {
	var words []string
	for _, stop := range retry.Stops() {
		words = append(words, stop.String())
	}
	return words
}

func atoi(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	require.NoError(t, err)
	return n
}

// requireSame asserts that two texts are equal byte for byte, without writing them out when they are not.
func requireSame(t *testing.T, want, got string) {
	t.Helper()
	require.Equal(t, sha256.Sum256([]byte(want)), sha256.Sum256([]byte(got)))
}
