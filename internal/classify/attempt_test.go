package classify

import (
	"io"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// Whether the provider may have done the work is decided from what happened on the connection and from the status, never from text.
func TestAmbiguous(t *testing.T) {
	t.Parallel()
	for _, lasting := range []bool{false, true} {
		require.False(t, Attempt{Err: io.EOF}.Ambiguous(lasting), "not sent")
		require.True(t, Attempt{Err: io.EOF, Sent: true}.Ambiguous(lasting), "sent and not answered")
		require.True(t, Attempt{Err: io.EOF, Sent: true, Status: 200}.Ambiguous(lasting), "an answer that broke off")
		unknown := []int{502, 504, 520, 522, 524}
		if lasting {
			unknown = append(unknown, 500) // the provider may have begun before it failed
		}
		for status := 100; status < 600; status++ {
			a := Attempt{Sent: true, Status: status, Body: []byte("timeout, bad gateway")}
			require.Equal(t, slices.Contains(unknown, status), a.Ambiguous(lasting), status)
		}
	}
}

func TestAnswered(t *testing.T) {
	t.Parallel()
	require.True(t, Attempt{Status: 500}.Answered())
	require.False(t, Attempt{Status: 200, Err: io.EOF}.Answered())
}
