package proxy

import (
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
