package dlq

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

func TestPutKeepsLetterAndPayload(t *testing.T) {
	dir, o := t.TempDir(), keeping()
	s := newStore(t, dir, o)
	e := letter("1")
	id := put(t, s, e, "the body")

	u, err := uuid.Parse(id)
	require.NoError(t, err)
	require.Equal(t, uuid.Version(7), u.Version())
	got, _, err := readEnvelope(filepath.Join(dir, "open", id+".json"))
	require.NoError(t, err)
	require.Equal(t, "payloads/"+hexSum("the body")[:2]+"/"+hexSum("the body"), got.RawPayloadRef)
	require.Equal(t, hexSum("the body"), got.Request.BodySHA256)
	require.Equal(t, int64(8), got.Request.BodyBytes)
	require.Equal(t, "the body", read(t, dir, got.RawPayloadRef))
	require.Equal(t, 1, got.Occurrences)
	require.Equal(t, got.RawPayloadRef, e.RawPayloadRef)
	require.Empty(t, files(t, dir, "tmp"))
	require.InDelta(t, 1, metric(t, o, "written_total", "provider=acct", "outcome=exhausted", "class=transient"), 0)
	require.InDelta(t, float64(8+len(read(t, dir, "open", id+".json"))), metric(t, o, "bytes"), 0)
}

func TestPutWithoutPayload(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir, Options{})
	hashed := letter("hashed")
	put(t, s, hashed, "the body")
	bare := letter("bare")
	_, err := s.Put(t.Context(), bare, nil)
	require.NoError(t, err)

	require.Empty(t, files(t, dir, "payloads"))
	require.Empty(t, hashed.RawPayloadRef)
	require.Equal(t, hexSum("the body"), hashed.Request.BodySHA256)
	require.Equal(t, int64(8), hashed.Request.BodyBytes)
	require.Empty(t, bare.Request.BodySHA256)
}

func TestPutRefusesBadEnvelopes(t *testing.T) {
	dir, o := t.TempDir(), keeping()
	s := newStore(t, dir, o)
	taken := put(t, s, letter("taken"), "x")
	for name, spoil := range map[string]func(*Envelope){
		"no provider": func(e *Envelope) { e.Provider = "" },
		"no outcome":  func(e *Envelope) { e.Outcome = "" },
		"path as id":  func(e *Envelope) { e.ID = "../../x" },
		"id in use":   func(e *Envelope) { e.ID = taken },
		"too large":   func(e *Envelope) { e.StackTrace = strings.Repeat("x", maxEnvelopeBytes) },
	} {
		e := letter(name)
		spoil(e)
		_, err := s.Put(t.Context(), e, strings.NewReader(name))
		require.Error(t, err, name)
	}
	require.Len(t, files(t, dir, "open"), 1)
	require.Len(t, files(t, dir, "payloads"), 1)
	require.Empty(t, files(t, dir, "tmp"))
	require.InDelta(t, 5, metric(t, o, "write_errors_total"), 0)
}

func TestPutRaisesTheOpenLetter(t *testing.T) {
	dir, o := t.TempDir(), keeping()
	s := newStore(t, dir, o)
	first := letter("1")
	id := put(t, s, first, "boundary A")

	again := letter("1")
	again.Outcome, again.ErrorClass, again.ErrorCode, again.HTTPStatus = "permanent", "permanent", "BadDocument", nil
	again.Attempts = []Attempt{{N: 1, ErrorClass: "permanent"}, {N: 2, ErrorClass: "permanent"}}
	again.FirstAttemptAt, again.FailedAt = time.Now(), time.Now().Add(time.Hour)
	later := time.Now().Add(2 * time.Hour)
	again.RetryNotBefore, again.Request.Token, again.Request.ContentType = &later, "token-2", "multipart/form-data; boundary=B"
	require.Equal(t, id, put(t, s, again, "boundary B"))

	all := listed(t, dir, Filter{})
	require.Len(t, all, 1)
	got := all[0].Envelope
	require.Equal(t, got, again, "Put must leave the caller with what is stored")
	require.Equal(t, 2, got.Occurrences)
	require.Equal(t, "permanent", got.Outcome)
	require.Equal(t, "BadDocument", got.ErrorCode)
	require.Nil(t, got.HTTPStatus)
	require.Len(t, got.Attempts, 2)
	require.True(t, got.FailedAt.Equal(again.FailedAt))
	require.True(t, got.RetryNotBefore.Equal(later))
	require.True(t, got.FirstAttemptAt.Equal(first.FirstAttemptAt))
	require.Equal(t, "token-2", got.Request.Token)
	require.Equal(t, "application/pdf", got.Request.ContentType, "type and body belong together")
	require.Equal(t, "boundary A", read(t, dir, got.RawPayloadRef))
	require.Equal(t, hexSum("boundary A"), got.Request.BodySHA256)
	require.Len(t, files(t, dir, "payloads"), 1)
	require.InDelta(t, 1, metric(t, o, "written_total"), 0)
	require.InDelta(t, 0, metric(t, o, "open", "outcome=exhausted"), 0)
	require.InDelta(t, 1, metric(t, o, "open", "outcome=permanent"), 0)
	require.InDelta(t, float64(folderBytes(dir)), metric(t, o, "bytes"), 0)

	// Another document, account, version or no fingerprint at all is another letter.
	for _, change := range []func(*Envelope){
		func(e *Envelope) { e.DocumentID = "2" }, func(e *Envelope) { e.Provider = "other" }, func(e *Envelope) { e.IdempotencyKey = "v2" },
		func(e *Envelope) { e.RequestFingerprint = "" }, func(e *Envelope) { e.RequestFingerprint = "" },
	} {
		e := letter("1")
		change(e)
		require.NotEqual(t, id, put(t, s, e, "boundary A"))
	}
	require.Len(t, listed(t, dir, Filter{}), 6)
}

func TestRaisingWithoutAttemptsKeepsWhatIsKnown(t *testing.T) {
	soon, late := time.Now().Add(time.Minute), time.Now().Add(time.Hour)
	turnedAway := func(outcome string, notBefore *time.Time) *Envelope {
		e := letter("1")
		e.Outcome, e.ErrorClass, e.ErrorCode, e.HTTPStatus, e.Diagnostic = outcome, "transient", "", nil, "Nobody was asked."
		e.Attempts, e.Request.Token, e.TraceID, e.RetryNotBefore, e.FailedAt = nil, "token-2", "trace-2", notBefore, time.Now().Add(time.Second)
		return e
	}
	for name, c := range map[string]struct {
		known      func(*Envelope)
		then       *Envelope
		outcome    string
		retryAfter *time.Time
	}{
		"a permanent answer, then an open circuit":          {func(e *Envelope) { e.Outcome = "permanent" }, turnedAway("circuit_open", &soon), "permanent", &soon},
		"a permanent refusal without attempts, then a gate": {func(e *Envelope) { e.Outcome, e.Attempts = "permanent", nil }, turnedAway("exhausted", nil), "permanent", nil},
		"attempts of unknown effect, then a gate":           {func(e *Envelope) { e.Ambiguous, e.RetryNotBefore = true, &soon }, turnedAway("exhausted", nil), "exhausted", &soon},
		"a long hint, then a circuit that opens sooner":     {func(e *Envelope) { e.RetryNotBefore = &late }, turnedAway("circuit_open", &soon), "exhausted", &late},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := newStore(t, dir, keeping())
			first := letter("1")
			c.known(first)
			put(t, s, first, "x")
			want := *first
			put(t, s, c.then, "x")

			got := listed(t, dir, Filter{})[0].Envelope
			require.Equal(t, c.outcome, got.Outcome)
			require.Equal(t, 2, got.Occurrences)
			require.True(t, got.FailedAt.After(first.FailedAt))
			if c.retryAfter == nil {
				require.Nil(t, got.RetryNotBefore)
			} else {
				require.True(t, c.retryAfter.Equal(*got.RetryNotBefore), got.RetryNotBefore)
			}
			want.Occurrences, want.FailedAt, want.RetryNotBefore = got.Occurrences, got.FailedAt, got.RetryNotBefore
			data, err := want.encode()
			require.NoError(t, err)
			require.Equal(t, string(data), read(t, dir, "open", got.ID+".json"), "everything else is as it was")
		})
	}
	t.Run("where nothing is known the last word counts", func(t *testing.T) {
		dir := t.TempDir()
		s := newStore(t, dir, keeping())
		put(t, s, turnedAway("circuit_open", &late), "x")
		put(t, s, turnedAway("exhausted", nil), "x")
		got := listed(t, dir, Filter{})[0].Envelope
		require.Equal(t, "exhausted", got.Outcome)
		require.Nil(t, got.RetryNotBefore)
	})
}

func TestRaisingBringsALostPayloadBack(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir, keeping())
	e := letter("1")
	put(t, s, e, "body A")
	require.NoError(t, os.Remove(filepath.Join(dir, e.RawPayloadRef)))
	again := letter("1")
	put(t, s, again, "body B")
	require.Equal(t, "body B", read(t, dir, again.RawPayloadRef))
	require.Equal(t, hexSum("body B"), again.Request.BodySHA256)
	require.Equal(t, 2, again.Occurrences)
}

func TestRaisingSurvivesRestartAndLoss(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir, keeping())
	require.NoError(t, err)
	id := put(t, s, letter("1"), "x")
	require.NoError(t, s.Close())

	s = newStore(t, dir, keeping())
	require.Equal(t, id, put(t, s, letter("1"), "x"), "the index is rebuilt from the folder")
	require.NoError(t, os.Remove(filepath.Join(dir, "open", id+".json")))
	other := put(t, s, letter("1"), "x")
	require.NotEqual(t, id, other, "a letter that somebody removed is not raised from the dead")
	write(t, "{", dir, "open", other+".json")
	third := put(t, s, letter("1"), "x")
	require.NotEqual(t, other, third)
	require.Equal(t, []string{"quarantine/" + other + ".json"}, files(t, dir, "quarantine"))
	require.Equal(t, 1, listed(t, dir, Filter{})[0].Occurrences)
}

func TestConcurrentPuts(t *testing.T) {
	dir, o := t.TempDir(), keeping()
	s := newStore(t, dir, o)
	const writers, each = 16, 5
	var wg sync.WaitGroup
	ids := make([]string, writers)
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				id, err := s.Put(t.Context(), letter("same"), strings.NewReader("same"))
				if err != nil {
					t.Error(err)
				}
				ids[w] = id
				if _, err := s.Put(t.Context(), letter(fmt.Sprint(w, i)), strings.NewReader(fmt.Sprint("body ", i))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for _, id := range ids {
		require.Equal(t, ids[0], id)
	}
	all := listed(t, dir, Filter{})
	require.Len(t, all, 1+writers*each)
	for _, l := range all {
		want := 1
		if l.DocumentID == "same" {
			want = writers * each
		}
		require.Equal(t, want, l.Occurrences, l.DocumentID)
	}
	require.Len(t, files(t, dir, "payloads"), 1+each, "one payload per content")
	require.InDelta(t, float64(folderBytes(dir)), metric(t, o, "bytes"), 0, "nothing is counted twice")
	require.Empty(t, s.requests.held)
	require.Empty(t, s.contents.held)
	report, err := Verify(dir, nil)
	require.NoError(t, err)
	require.True(t, report.OK(), report)
	require.Empty(t, report.Orphans)
}

func TestFullStore(t *testing.T) {
	const limit, size = 100_000, 9_000
	dir, o := t.TempDir(), keeping()
	o.MaxBytes = limit
	s := newStore(t, dir, o)
	var wg sync.WaitGroup
	var mu sync.Mutex
	kept, full := 0, 0
	for i := range 30 {
		wg.Go(func() {
			_, err := s.Put(t.Context(), letter(strconv.Itoa(i)), bytes.NewReader(bytes.Repeat([]byte{byte(i)}, size)))
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				kept++
			case errors.Is(err, ErrFull):
				full++
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	require.Equal(t, 30, kept+full)
	require.Positive(t, kept)
	require.Positive(t, full)
	require.LessOrEqual(t, folderBytes(dir), int64(limit))
	require.Len(t, files(t, dir, "open"), kept)
	require.Len(t, files(t, dir, "payloads"), kept, "a dropped letter leaves no payload")
	require.Empty(t, files(t, dir, "tmp"))
	require.InDelta(t, float64(full), metric(t, o, "dropped_total", "reason=full"), 0)
	require.InDelta(t, 0, metric(t, o, "write_errors_total"), 0)
	require.Zero(t, s.usage.reserved)

	// Somebody makes room: the store notices by itself.
	for _, f := range files(t, dir, "payloads") {
		require.NoError(t, os.Remove(filepath.Join(dir, f)))
	}
	s.usage.next = time.Time{}
	put(t, s, letter("after"), strings.Repeat("x", 2*size))
}

func TestBodyThatFails(t *testing.T) {
	dir, o := t.TempDir(), keeping()
	s := newStore(t, dir, o)
	broken := errors.New("spool is broken")
	_, err := s.Put(t.Context(), letter("1"), io.MultiReader(strings.NewReader(strings.Repeat("x", 300_000)), iotest.ErrReader(broken)))
	require.ErrorIs(t, err, broken)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = s.Put(ctx, letter("2"), strings.NewReader("x"))
	require.ErrorIs(t, err, context.Canceled)

	for _, folder := range []string{"open", "payloads", "tmp"} {
		require.Empty(t, files(t, dir, folder), folder)
	}
	require.InDelta(t, 2, metric(t, o, "write_errors_total"), 0)
	require.InDelta(t, 0, metric(t, o, "bytes"), 0)
	require.Zero(t, s.usage.reserved)
}

func TestStoreRecoversWhenTheDiskDoes(t *testing.T) {
	dir, o := filepath.Join(t.TempDir(), "store"), keeping()
	s := newStore(t, dir, o)
	put(t, s, letter("lost"), "x")
	require.NoError(t, os.RemoveAll(dir))
	write(t, "", dir) // A file in the store's place: no folder can be made.
	_, err := s.Put(t.Context(), letter("1"), strings.NewReader("x"))
	require.ErrorContains(t, err, dir)
	require.InDelta(t, 1, metric(t, o, "write_errors_total"), 0)
	require.InDelta(t, 0, metric(t, o, "open"), 0, "letters that are gone are not open")

	require.NoError(t, os.Remove(dir))
	e := letter("1")
	put(t, s, e, "x")
	require.Equal(t, "x", read(t, dir, e.RawPayloadRef))
	require.Len(t, listed(t, dir, Filter{}), 1)
	require.InDelta(t, 1, metric(t, o, "open"), 0)
	require.InDelta(t, float64(folderBytes(dir)), metric(t, o, "bytes"), 0)
	_, err = Open(dir, Options{})
	require.ErrorContains(t, err, "another process", "the new folder is locked as well")

	for _, folder := range []string{"open", "payloads", "tmp"} {
		require.NoError(t, os.RemoveAll(filepath.Join(dir, folder)))
		put(t, s, letter("without "+folder), "without "+folder)
	}
	shard := filepath.Dir(filepath.Join(dir, e.RawPayloadRef))
	put(t, s, letter("2"), "x")
	require.NoError(t, os.RemoveAll(shard))
	again := letter("3")
	put(t, s, again, "x")
	require.Equal(t, "x", read(t, dir, again.RawPayloadRef))
}

func TestPutAfterClose(t *testing.T) {
	s, err := Open(t.TempDir(), keeping())
	require.NoError(t, err)
	id := put(t, s, letter("1"), "x")
	require.NoError(t, s.Close())
	require.NoError(t, s.Close())
	_, err = s.Put(t.Context(), letter("2"), nil)
	require.ErrorIs(t, err, fs.ErrClosed)
	_, err = s.Claim(id)
	require.ErrorIs(t, err, fs.ErrClosed)
}

func BenchmarkPut16Writers(b *testing.B) {
	s := newStore(b, b.TempDir(), keeping())
	body := bytes.Repeat([]byte("p"), 100_000)
	var mu sync.Mutex
	n := 0
	var wg sync.WaitGroup
	b.ResetTimer()
	for range 16 {
		wg.Go(func() {
			own := bytes.Clone(body)
			for {
				mu.Lock()
				n++
				i := n
				mu.Unlock()
				if i > b.N {
					return
				}
				copy(own, fmt.Sprintf("%d ", i))
				if _, err := s.Put(b.Context(), letter(strconv.Itoa(i)), bytes.NewReader(own)); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "letters/s")
}
