package webhook

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func newQueue(t testing.TB, dir string, limit int64) *queue {
	t.Helper()
	q, err := openQueue(dir, limit)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, q.close()) })
	return q
}

func add(t testing.TB, q *queue, name string) {
	t.Helper()
	require.NoError(t, put(q, name))
}

func put(q *queue, name string) error {
	e, err := newEvent(LetterCreated, time.Time{}, name)
	if err != nil {
		return err
	}
	return q.append("id-"+name, time.Unix(1, 0), e)
}

// drain takes everything out of a queue.
func drain(t testing.TB, q *queue) (names []string, lost int) {
	t.Helper()
	for {
		l, n, ok, err := q.next()
		require.NoError(t, err)
		lost += int(n)
		if !ok {
			return names, lost
		}
		names = append(names, strings.TrimPrefix(l.id, "id-"))
		require.NoError(t, q.finish(l.number))
	}
}

func numbered(from, to int) (names []string) {
	for i := from; i <= to; i++ {
		names = append(names, strconv.Itoa(i))
	}
	return names
}

func TestQueueOverManySegmentsAndStarts(t *testing.T) {
	dir := t.TempDir()
	n, read := 0, 0
	for range 5 {
		q, err := openQueue(dir, 32<<10)
		require.NoError(t, err)
		for range 100 {
			n++
			add(t, q, strconv.Itoa(n))
		}
		require.Greater(t, len(files(t, dir)), 3)
		for range 60 {
			l, lost, ok, err := q.next()
			require.NoError(t, err)
			require.True(t, ok)
			require.Zero(t, lost)
			read++
			require.EqualValues(t, read, l.number)
			require.Equal(t, fmt.Sprintf("id-%d", read), l.id)
			require.Equal(t, time.Unix(1, 0), l.at)
			require.NoError(t, q.finish(l.number))
		}
		require.EqualValues(t, n-read, q.backlog())
		require.NoError(t, q.close())
	}
	q := newQueue(t, dir, 32<<10)
	names, lost := drain(t, q)
	require.Equal(t, numbered(301, 500), names)
	require.Zero(t, lost)
	require.NoError(t, q.close())
	require.Equal(t, []string{"done"}, files(t, dir), "what is done takes no room")

	q = newQueue(t, dir, 32<<10)
	add(t, q, "501")
	l, _, _, err := q.next()
	require.NoError(t, err)
	require.EqualValues(t, 501, l.number, "numbers go on")
}

func TestAFullQueueHasRoomAgainWhenEventsAreDone(t *testing.T) {
	q := newQueue(t, t.TempDir(), 8<<10)
	n := 0
	for put(q, strconv.Itoa(n)) == nil {
		n++
	}
	require.ErrorIs(t, put(q, "more"), errFull)
	require.Greater(t, n, 50)
	for range n / 2 {
		l, _, ok, err := q.next()
		require.NoError(t, err)
		require.True(t, ok)
		require.NoError(t, q.finish(l.number))
	}
	add(t, q, strconv.Itoa(n))
	names, lost := drain(t, q)
	require.Equal(t, numbered(n/2, n), names)
	require.Zero(t, lost)
}

func TestWhatIsDoneMakesRoom(t *testing.T) {
	dir := t.TempDir()
	q := newQueue(t, dir, 1<<20)
	add(t, q, "1")
	drain(t, q)
	require.Len(t, files(t, dir), 2, "a small segment is kept for what comes")
	for range 5 {
		add(t, q, strings.Repeat("x", 40_000))
	}
	drain(t, q)
	require.Len(t, files(t, dir), 1, "a big one is not")

	add(t, q, strings.Repeat("x", 450_000))
	require.ErrorIs(t, put(q, strings.Repeat("y", 200_000)), errFull)
	l, _, _, err := q.next()
	require.NoError(t, err)
	require.NoError(t, q.finish(l.number))
	again := newQueue(t, dir, 1<<20) // As after a kill: the event is done with, but lies there.
	require.Len(t, files(t, dir), 2)
	drain(t, again)
	require.NoError(t, put(again, strings.Repeat("y", 450_000)))
	names, lost := drain(t, again)
	require.Len(t, names, 1)
	require.Zero(t, lost)
}

// Damage costs the events that it hits, and no others.
func TestDamage(t *testing.T) {
	const events = 30
	for name, c := range map[string]struct {
		harm func(t *testing.T, dir string, segments []string)
		want []string
		lost int
	}{
		"nothing": {func(*testing.T, string, []string) {}, numbered(1, events), 0},
		"a bit in the middle": {func(t *testing.T, _ string, segments []string) {
			change(t, segments[0], func(text []byte) []byte { return bytes.Replace(text, []byte(`"data":"2"`), []byte(`"data":"X"`), 1) })
		}, slices.Concat(numbered(1, 1), numbered(3, events)), 1},
		"the last line": {func(t *testing.T, _ string, segments []string) {
			change(t, segments[len(segments)-1], func(text []byte) []byte {
				return bytes.Replace(text, []byte(`"data":"30"`), []byte(`"data":"XX"`), 1)
			})
		}, numbered(1, events-1), 1},
		"a torn end": {func(t *testing.T, _ string, segments []string) {
			change(t, segments[len(segments)-1], func(text []byte) []byte { return append(text, "00000000 31 1 id-3"...) })
		}, numbered(1, events), 0},
		"an end of nothing": {func(t *testing.T, _ string, segments []string) {
			change(t, segments[len(segments)-1], func(text []byte) []byte { return append(text, make([]byte, 5000)...) })
		}, numbered(1, events), 0},
		"a segment that was begun": {func(t *testing.T, dir string, _ []string) {
			require.NoError(t, os.WriteFile(segment{first: events + 1}.path(dir), []byte("0000"), 0o600))
		}, numbered(1, events), 0},
		"a line without end": {func(t *testing.T, _ string, segments []string) {
			change(t, segments[0], func(text []byte) []byte { return append(bytes.Repeat([]byte("x"), 3*maxLine), text...) })
		}, numbered(2, events), 1},
		"the first segment gone": {func(t *testing.T, _ string, segments []string) { require.NoError(t, os.Remove(segments[0])) }, nil, 0},
		"a segment gone":         {func(t *testing.T, _ string, segments []string) { require.NoError(t, os.Remove(segments[1])) }, nil, -1},
		"all gone":               {func(t *testing.T, dir string, _ []string) { require.NoError(t, os.RemoveAll(dir)) }, nil, 0},
		"no note of progress":    {func(t *testing.T, dir string, _ []string) { require.NoError(t, os.Remove(filepath.Join(dir, "done"))) }, numbered(1, events), 0},
		"a damaged note": {func(t *testing.T, dir string, _ []string) {
			require.NoError(t, os.WriteFile(filepath.Join(dir, "done"), []byte("x"), 0o600))
		}, numbered(1, events), 0},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "q")
			q := newQueue(t, dir, 8<<10)
			for i := range events {
				add(t, q, strconv.Itoa(i+1))
			}
			require.NoError(t, q.close())
			segments, err := filepath.Glob(filepath.Join(dir, "*"+segmentSuffix))
			require.NoError(t, err)
			require.Greater(t, len(segments), 2)
			c.harm(t, dir, segments)

			q = newQueue(t, dir, 64<<20)
			add(t, q, "new")
			names, lost := drain(t, q)
			require.Equal(t, "new", names[len(names)-1], "what comes after the damage is not hit by it")
			names = names[:len(names)-1]
			if c.want != nil {
				require.Equal(t, c.want, names)
			}
			if c.lost >= 0 {
				require.Equal(t, c.lost, lost)
			} else {
				require.Equal(t, events, lost+len(names))
				require.Positive(t, lost)
			}
		})
	}
}

func change(t *testing.T, path string, edit func([]byte) []byte) {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, edit(text), 0o600))
}

func TestFilesThatAreCutWhileTheyAreRead(t *testing.T) {
	dir := t.TempDir()
	q := newQueue(t, dir, 1<<20)
	for i := range 1000 {
		add(t, q, strconv.Itoa(i+1))
	}
	l, _, _, err := q.next()
	require.NoError(t, err)
	require.NoError(t, q.finish(l.number))
	for _, s := range q.segments {
		require.NoError(t, os.Truncate(s.path(dir), 10))
	}
	add(t, q, "1001")
	names, lost := drain(t, q)
	require.Equal(t, 1000, len(names)+lost)
	require.Positive(t, lost)
	add(t, q, "after")
	names, lost = drain(t, q)
	require.Equal(t, []string{"after"}, names)
	require.Zero(t, lost)
}

func TestAFolderThatIsRemovedWhileItIsUsed(t *testing.T) {
	dir := t.TempDir()
	q := newQueue(t, dir, 1<<10)
	add(t, q, "1")
	require.NoError(t, os.RemoveAll(dir))
	for i := range 3 {
		add(t, q, strconv.Itoa(i+2))
	}
	names, lost := drain(t, q)
	require.Equal(t, 4, len(names)+lost)
	add(t, q, "5")
	names, lost = drain(t, q)
	require.Equal(t, []string{"5"}, names)
	require.Zero(t, lost)
}

// A line that the disk did not take whole is no event, and the next one is not spoilt by it.
func TestAFailedWriteLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	q := newQueue(t, dir, 1<<20)
	add(t, q, "1")
	writing := q.writing
	readOnly, err := os.Open(writing.Name())
	require.NoError(t, err)
	_, err = writing.WriteAt([]byte("deadbeef 2 1 id-2 half of a li"), q.segments[0].size) // What a full disk took of it.
	require.NoError(t, err)
	q.writing = readOnly
	require.Error(t, put(q, "2"))
	require.NoError(t, readOnly.Close())
	q.writing = writing
	require.EqualValues(t, 1, q.backlog())
	add(t, q, "2")
	names, lost := drain(t, q)
	require.Equal(t, numbered(1, 2), names)
	require.Zero(t, lost)
}

func TestReadingWhileManyWrite(t *testing.T) {
	q := newQueue(t, t.TempDir(), 1<<20)
	const writers, each = 8, 300
	var writing sync.WaitGroup
	for w := range writers {
		writing.Go(func() {
			for i := range each {
				if err := put(q, fmt.Sprintf("%d-%d", w, i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { writing.Wait(); close(done) }()
	next := map[string]int{}
	for number := uint64(1); number <= writers*each; {
		l, lost, ok, err := q.next()
		require.NoError(t, err)
		require.Zero(t, lost)
		if !ok {
			<-q.arrived
			continue
		}
		require.Equal(t, number, l.number)
		number++
		w, i, _ := strings.Cut(strings.TrimPrefix(l.id, "id-"), "-")
		require.Equal(t, strconv.Itoa(next[w]), i, "what one goroutine told comes in its order")
		next[w]++
		require.NoError(t, q.finish(l.number))
	}
	<-done
}

func TestManyEventsTakeNoMemory(t *testing.T) {
	q := newQueue(t, t.TempDir(), 1<<30)
	e, err := newEvent(LetterCreated, time.Time{}, "x")
	require.NoError(t, err)
	const events = 200_000
	for range events {
		require.NoError(t, q.append("id", time.Unix(1, 0), e))
	}
	require.NoError(t, q.close())
	q = newQueue(t, q.dir, 1<<30)
	require.EqualValues(t, events, q.backlog())
	for range events / 10 {
		l, _, ok, err := q.next()
		require.NoError(t, err)
		require.True(t, ok)
		require.NoError(t, q.finish(l.number))
	}
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	require.Less(t, m.HeapAlloc, uint64(12<<20), "they have 20 MB on disk")
}

func FuzzQueueOverAnyFile(f *testing.F) {
	e, err := newEvent(LetterCreated, time.Time{}, "x")
	require.NoError(f, err)
	good := encodeLine(1, time.Unix(1, 0), "id", e)
	f.Add(good, []byte("00000000000000000001\n"))
	f.Add(append(good, good...), []byte("2"))
	f.Add(append(good, encodeLine(1<<40, time.Unix(1, 0), "id", e)...), []byte{})
	f.Add([]byte("00000000 1 1 a b\n\n\n"), []byte("18446744073709551615"))
	f.Add([]byte{0, '\n', 0}, []byte("-1"))
	f.Fuzz(func(t *testing.T, text, done []byte) {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(segment{first: 1}.path(dir), text, 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "done"), done, 0o600))
		q, err := openQueue(dir, 1<<20)
		require.NoError(t, err)
		add(t, q, "new")
		names, _ := drain(t, q)
		require.Equal(t, "new", names[len(names)-1])
		require.NoError(t, q.close())
	})
}

func TestLines(t *testing.T) {
	e, err := newEvent(LetterCreated, time.Unix(0, 0), map[string]string{"a": "line\nbreak"})
	require.NoError(t, err)
	text := encodeLine(7, time.Unix(9, 0), "id", e)
	require.Equal(t, 1, bytes.Count(text, []byte("\n")))
	l, ok := decodeLine(text[:len(text)-1])
	require.True(t, ok)
	require.Equal(t, line{number: 7, at: time.Unix(9, 0), id: "id", body: e.appendBody(nil, 7)}, l)
	for i := range text[:len(text)-1] {
		harmed := bytes.Clone(text[:len(text)-1])
		harmed[i] ^= 1
		_, ok := decodeLine(harmed)
		require.False(t, ok, "byte %d", i)
	}
}

// An event may come between the reader's last look at a segment and its leaving it.
func TestASegmentThatGrowsIsNotLeft(t *testing.T) {
	q := newQueue(t, t.TempDir(), 1<<20)
	add(t, q, "1")
	_, err := q.read()
	require.NoError(t, err)
	_, err = q.read()
	require.ErrorIs(t, err, io.EOF)
	require.NoError(t, q.finish(1))
	add(t, q, "2")
	lost, err := q.leave()
	require.NoError(t, err)
	require.Zero(t, lost)
	names, lost2 := drain(t, q)
	require.Equal(t, []string{"2"}, names)
	require.Zero(t, lost2)
}
