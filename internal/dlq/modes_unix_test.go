//go:build unix

package dlq

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestModesUnderAnyUmask(t *testing.T) {
	for _, mask := range []int{0, 0o022, 0o277} {
		dir := filepath.Join(t.TempDir(), "store") // Before the mask, which would lock us out of it.
		before := syscall.Umask(mask)
		t.Cleanup(func() { syscall.Umask(before) })
		if mask == 0 { // A folder that was there with a mode of its own.
			require.NoError(t, os.MkdirAll(filepath.Join(dir, "open"), 0o777))
		}
		s := newStore(t, dir, keeping())
		put(t, s, letter("resolved"), "x")
		id := put(t, s, letter("resolved"), "x")
		put(t, s, letter("open"), "y")
		c, err := s.Claim(id)
		require.NoError(t, err)
		require.NoError(t, c.Resolve(strings.NewReader("result"), Resolution{}))
		checkModes(t, dir)
		syscall.Umask(before)
	}
}
