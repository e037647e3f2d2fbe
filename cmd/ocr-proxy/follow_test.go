package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/ocr-proxy/ocr-proxy/config"
)

const anAccount = "providers: [{name: a, kind: mistral, listen: '127.0.0.1:1', upstream: 'http://127.0.0.1:2'}]\n"

// followed is a follower that takes configurations without a proxy.
type followed struct {
	*follower
	t     *testing.T
	logs  *observer.ObservedLogs
	taken []int // retry.max_attempts of each that was taken
	err   error // of whoever takes them
}

func newFollowed(t *testing.T, path string) *followed {
	t.Helper()
	core, logs := observer.New(zap.InfoLevel)
	f := &followed{t: t, logs: logs}
	f.follower = &follower{path: path, log: zap.New(core), loads: registerProcessMetrics(prometheus.NewRegistry()), apply: func(_ context.Context, c *config.Config) ([]string, error) {
		if f.err != nil {
			return nil, f.err
		}
		f.taken = append(f.taken, c.Retry.MaxAttempts)
		return nil, nil
	}}
	return f
}

// looks looks so often and tells what was taken in that time.
func (f *followed) looks(n int) []int {
	f.taken = nil
	for range n {
		f.look(f.t.Context(), false)
	}
	return f.taken
}

func (f *followed) write(text string) {
	f.t.Helper()
	require.NoError(f.t, os.WriteFile(f.path, []byte(text), 0o600))
}

func (f *followed) successful() float64 { return testutil.ToFloat64(f.loads.successful) }

func TestAFileIsTakenOnceAndOnlyWhenItRests(t *testing.T) {
	t.Parallel()
	f := newFollowed(t, file(t, "c.yaml", anAccount))
	require.Equal(t, []int{6}, f.looks(5))
	f.write(anAccount + "retry: {max_attempts: 3}\n")
	require.Empty(t, f.looks(1), "it may be half written")
	f.write(anAccount + "retry: {max_attempts: 33}\n")
	require.Empty(t, f.looks(1))
	require.Equal(t, []int{33}, f.looks(5))
	f.write(anAccount + "retry: {max_attempts: 4}\n")
	f.taken = nil
	f.look(t.Context(), true)
	f.look(t.Context(), true)
	require.Equal(t, []int{4, 4}, f.taken, "who asks is not kept waiting, and may mean what the file leads to")
	require.Empty(t, f.looks(3))
}

func TestABrokenFileIsComplainedOfOnceAndTriedAgain(t *testing.T) {
	t.Parallel()
	f := newFollowed(t, file(t, "c.yaml", anAccount))
	f.looks(2)
	at := testutil.ToFloat64(f.loads.at)
	require.Positive(t, at)

	f.write(anAccount + "retry: {max_attempts: 0, base_delay: 7}\n")
	require.Empty(t, f.looks(5))
	require.Zero(t, f.successful())
	require.InDelta(t, at, testutil.ToFloat64(f.loads.at), 0)
	told := f.logs.FilterMessage("the configuration was not taken; the one before stays in effect").All()
	require.Len(t, told, 1)
	problems := told[0].ContextMap()["problems"].([]any) //nolint:forcetypeassert // as it was logged
	require.Len(t, problems, 2, "all of them, as check prints them")

	f.write(anAccount) // what is in effect
	require.Empty(t, f.looks(1), "there is nothing to do")
	require.InDelta(t, 1, f.successful(), 0)

	// What was refused for something outside of the file is taken as soon as that is there.
	f.err = errors.New("no such key file")
	f.write(anAccount + "retry: {max_attempts: 2}\n")
	require.Empty(t, f.looks(4))
	require.Len(t, f.logs.FilterLevelExact(zap.ErrorLevel).All(), 2, "one more complaint, beside the first")
	f.err = nil
	require.Equal(t, []int{2}, f.looks(4))
	require.InDelta(t, 1, f.successful(), 0)

	require.NoError(t, os.Remove(f.path))
	require.Empty(t, f.looks(1))
	require.InDelta(t, 1, f.successful(), 0, "it may be on its way")
	require.Empty(t, f.looks(3))
	require.Zero(t, f.successful())
	require.Len(t, f.logs.FilterLevelExact(zap.ErrorLevel).All(), 3)
}

// A mounted ConfigMap is a symlink to a folder that is exchanged as a whole.
func TestWhatSymlinksLeadToIsFollowed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	version := func(name, text string) {
		require.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name, "c.yaml"), []byte(text), 0o600))
		require.NoError(t, os.Symlink(name, filepath.Join(dir, "..tmp")))
		require.NoError(t, os.Rename(filepath.Join(dir, "..tmp"), filepath.Join(dir, "..data")))
	}
	version("..1", anAccount)
	require.NoError(t, os.Symlink(filepath.Join("..data", "c.yaml"), filepath.Join(dir, "c.yaml")))
	f := newFollowed(t, filepath.Join(dir, "c.yaml"))
	require.Equal(t, []int{6}, f.looks(3))
	version("..2", anAccount+"retry: {max_attempts: 2}\n")
	require.Equal(t, []int{2}, f.looks(3))
}
