package testset

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ocr-proxy/ocr-proxy/internal/scrub"
)

// What an ordinary decoder finds in a body, a set must not carry.
func FuzzClean(f *testing.F) {
	for _, body := range []string{
		`{"api_key":"x"}`, `{"a":{"api_key":"x"}}`, `{"\u0061pi_key":"x","b":[{"c":1}]}`, `{"token":"","key":"k"}`, ` {"KEY":"a","key":1}`, `[{"key":"x"}]`, `{"sig":null}`, `{`,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		clean, err := item("id", "application/json", string(body)).clean()
		require.NoError(t, err)
		if !json.Valid(body) {
			require.False(t, clean)
			return
		}
		var members map[string]json.RawMessage
		if json.Unmarshal(body, &members) != nil {
			return
		}
		for name, value := range members {
			var text string
			if scrub.Param(name) && json.Unmarshal(value, &text) == nil && text != "" {
				require.False(t, clean, "%q", name)
			}
		}
	})
}
