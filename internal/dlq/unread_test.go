package dlq

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// troubles are ways in which a file that is there cannot be read now.
func troubles() map[string]func(path string) error {
	return map[string]func(path string) error{
		"it cannot be opened": func(path string) error { return os.Symlink(filepath.Base(path), path) }, // a loop
		"a read fails":        func(path string) error { return os.Mkdir(path, 0o700) },
	}
}

// spoil makes a file unreadable for now; heal gives it back.
func spoil(t *testing.T, trouble func(path string) error, elem ...string) (heal func()) {
	t.Helper()
	path, aside := filepath.Join(elem...), filepath.Join(t.TempDir(), "aside")
	require.NoError(t, os.Rename(path, aside))
	require.NoError(t, trouble(path))
	return func() {
		require.NoError(t, os.Remove(path))
		require.NoError(t, os.Rename(aside, path))
	}
}

func TestALetterThatCannotBeReadNowStays(t *testing.T) {
	for name, trouble := range troubles() {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s, err := Open(dir, keeping())
			require.NoError(t, err)
			id := put(t, s, letter("1"), "x")
			put(t, s, letter("2"), "y")
			require.NoError(t, s.Close())
			name := id + ".json"
			heal := spoil(t, trouble, dir, "open", name)

			core, logs := observer.New(zap.InfoLevel)
			o := keeping()
			o.Logger = zap.New(core)
			s = newStore(t, dir, o)
			lines := logs.FilterMessageSnippet("cannot be read now").All()
			require.Len(t, lines, 1)
			require.Equal(t, filepath.Join(dir, "open", name), lines[0].ContextMap()["file"])
			unchanged := func() { // The folder looks as it did long ago.
				long := time.Now().Add(-24 * time.Hour).Truncate(24 * time.Hour)
				require.NoError(t, os.Chtimes(filepath.Join(dir, "open"), long, long))
			}
			unchanged()
			require.Equal(t, []int{1, 1}, []int{int(metric(t, o, "open")), int(metric(t, o, "unread"))})

			r, err := View(dir)
			require.NoError(t, err)
			var passedOver []error
			for _, err := range r.List(Filter{}) {
				if err != nil {
					passedOver = append(passedOver, err)
				}
			}
			require.Len(t, passedOver, 1)
			require.True(t, PassedOver(passedOver[0]))
			require.ErrorContains(t, passedOver[0], name)
			_, err = r.Get(id)
			require.ErrorIs(t, err, ErrUnread)
			require.NotErrorIs(t, err, ErrUnreadable)

			_, err = s.Claim(id)
			require.ErrorIs(t, err, ErrUnread)
			_, err = os.Lstat(filepath.Join(dir, "open", name))
			require.NoError(t, err, "it is open, as before")

			report, err := Verify(dir, nil)
			require.NoError(t, err)
			require.False(t, report.OK())
			require.Empty(t, report.Quarantined)
			require.Len(t, report.Unread, 1)
			require.Equal(t, "open/"+name, report.Unread[0].Path)
			require.Empty(t, report.Orphans, "a payload may be its")
			require.Empty(t, files(t, dir, "quarantine"))

			heal()
			unchanged()
			require.Equal(t, []int{2, 0}, []int{int(metric(t, o, "open")), int(metric(t, o, "unread"))})
			c, err := s.Claim(id)
			require.NoError(t, err)
			require.NoError(t, c.Release(nil))
			require.Equal(t, id, put(t, s, letter("1"), "x"), "it is known again")
		})
	}
}

// The failure that is to raise such a letter is kept all the same, and the letter is raised again when it can be read.
func TestALetterThatCannotBeRaisedNowGetsASecondOne(t *testing.T) {
	for name, trouble := range troubles() {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := newStore(t, dir, keeping())
			id := put(t, s, letter("1"), "x")
			heal := spoil(t, trouble, dir, "open", id+".json")
			require.NotEqual(t, id, put(t, s, letter("1"), "x"))
			require.Empty(t, files(t, dir, "quarantine"))
			heal()
			require.Equal(t, id, put(t, s, letter("1"), "x"))
			require.Len(t, files(t, dir, "open"), 2)
		})
	}
}

func TestAJobsRecordThatCannotBeReadNowStays(t *testing.T) {
	for name, trouble := range troubles() {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s, err := Open(dir, keeping())
			require.NoError(t, err)
			putJob(t, s, started("j1", "1"), "x")
			record := jobFile("acct", "j1")
			heal := spoil(t, trouble, dir, "jobs", record)
			require.Nil(t, s.FindCall(keyFor("1")))
			report, err := Verify(dir, nil)
			require.NoError(t, err)
			require.Len(t, report.Unread, 1)
			require.Equal(t, "jobs/"+record, report.Unread[0].Path)
			heal()
			require.NotNil(t, s.FindCall(keyFor("1")), "it was not forgotten")
			heal = spoil(t, trouble, dir, "jobs", record)
			require.NoError(t, s.Close())
			_, err = Open(dir, keeping())
			require.ErrorIs(t, err, ErrUnread, "to start without it would be to pay for the job again")
			require.ErrorContains(t, err, record)
			require.Empty(t, files(t, dir, "quarantine"))
			heal()
			require.NotNil(t, newStore(t, dir, keeping()).FindCall(keyFor("1")))
		})
	}
}
