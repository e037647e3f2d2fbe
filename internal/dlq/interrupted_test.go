package dlq

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestClaimsOfADeadProcess(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir, keeping())
	require.NoError(t, err)
	sent, answered, waiting := put(t, s, letter("sent"), "1"), put(t, s, letter("answered"), "2"), put(t, s, letter("waiting"), "3")
	for _, id := range []string{sent, answered} {
		_, err := s.Claim(id)
		require.NoError(t, err)
	}
	write(t, "HTTP/1.1 200 OK\r\n\r\n", dir, "results", answered)
	require.NoError(t, s.Close()) // nothing is put back: as after a kill

	for n := range 2 { // a second start changes nothing more
		h, o := &heard{t: t}, keeping()
		o.Observer = h
		s, err = Open(dir, o)
		require.NoError(t, err)
		require.Empty(t, h.all, "an observer may not be ready")
		h.store = s
		s.Announce()
		s.Announce()
		require.Len(t, h.all, 1-n)
		r, err := View(dir)
		require.NoError(t, err)
		l, err := r.Get(sent)
		require.NoError(t, err)
		require.Equal(t, StatusOpen, l.Status)
		require.True(t, l.Ambiguous, "the call may have been made")
		require.Len(t, l.Replays, 1)
		require.Equal(t, ReplayInterrupted, l.Replays[0].Outcome)
		require.WithinDuration(t, time.Now(), l.Replays[0].At, time.Minute)
		l, err = r.Get(answered)
		require.NoError(t, err)
		require.Equal(t, StatusResolved, l.Status, "it is never sent again")
		require.Equal(t, "replay", l.Resolution.By)
		require.Empty(t, l.Replays)
		l, err = r.Get(waiting)
		require.NoError(t, err)
		require.Equal(t, StatusOpen, l.Status)
		require.False(t, l.Ambiguous)
		require.Equal(t, sent, put(t, s, letter("sent"), "1"), "it is found again")
		require.NoError(t, s.Close())
	}
}

func TestReplayedKeepsWhatIsKnown(t *testing.T) {
	e, again := letter("1"), letter("1")
	e.Ambiguous, e.Occurrences = true, 3
	status := 422
	again.Outcome, again.ErrorClass, again.HTTPStatus, again.Request.Token = "permanent", "permanent", &status, "token-2"
	shared := e.Replays
	for n := range maxReplays + 5 {
		e.Replayed(again)
		require.Len(t, e.Replays, min(n+1, maxReplays))
	}
	require.Empty(t, shared)
	require.True(t, e.Ambiguous, "a call that may have been done stays one")
	require.Equal(t, 3, e.Occurrences, "a replay is no failure of a worker's")
	require.Equal(t, "permanent", e.Outcome)
	require.Equal(t, "token-2", e.Request.Token)
	require.Equal(t, 422, *e.Replays[0].HTTPStatus)
}

func TestOpenLetters(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir, keeping())
	letters := s.OpenLetters("acct")
	require.False(t, letters.May("ocr", 3))
	id := put(t, s, letter("1"), "abc")
	require.True(t, letters.May("ocr", 3))
	require.False(t, letters.May("ocr", 4))
	require.False(t, letters.May("scan", 3))
	require.False(t, s.OpenLetters("other").May("ocr", 3))
	e := letter("1")
	require.Equal(t, id, put(t, s, letter("1"), "abc"), "raised")

	c, err := s.Claim(id)
	require.NoError(t, err)
	require.False(t, letters.May("ocr", 3), "it is in somebody's hands")
	ids, err := letters.Resolve(t.Context(), Done{RequestFingerprint: e.RequestFingerprint, DocumentID: e.DocumentID, IdempotencyKey: e.IdempotencyKey}, Resolution{By: "proxy"})
	require.NoError(t, err)
	require.Empty(t, ids)
	second := put(t, s, letter("1"), "abc") // failed again meanwhile
	require.NoError(t, c.Release(nil))

	ids, err = letters.Resolve(t.Context(), Done{RequestFingerprint: e.RequestFingerprint, DocumentID: "another", IdempotencyKey: e.IdempotencyKey}, Resolution{By: "proxy"})
	require.NoError(t, err)
	require.Empty(t, ids)
	ids, err = letters.Resolve(t.Context(), Done{RequestFingerprint: e.RequestFingerprint, DocumentID: e.DocumentID, IdempotencyKey: e.IdempotencyKey}, Resolution{By: "proxy"})
	require.NoError(t, err)
	require.ElementsMatch(t, []string{id, second}, ids)
	require.False(t, letters.May("ocr", 3))
	require.Zero(t, letters.calls.letters.Load())
	require.Empty(t, letters.calls.calls)

	cut := letter("2")
	cut.Request.Credentials = []string{"form:apikey"}
	put(t, s, cut, "abc")
	require.True(t, letters.May("ocr", 99), "its payload is not as long as its request")
	none := letter("3")
	none.RequestFingerprint = ""
	put(t, s, none, "abcdef")
	require.EqualValues(t, 1, letters.calls.letters.Load(), "one that is never merged is never looked for")
}

func BenchmarkMay(b *testing.B) {
	dir := b.TempDir()
	s := newStore(b, dir, keeping())
	letters := s.OpenLetters("acct")
	for name, n := range map[string]int{"none": 0, "some": 100} {
		for i := range n {
			put(b, s, letter(string(rune('a'+i))), "abc")
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					if letters.May("ocr", 4) {
						b.Fail()
					}
				}
			})
		})
	}
}

func TestAnOldResultDoesNotResolveALetterThatWasOpenedAgain(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir, keeping())
	require.NoError(t, err)
	id := put(t, s, letter("1"), "1")
	c, err := s.Claim(id)
	require.NoError(t, err)
	require.NoError(t, c.Resolve(strings.NewReader("HTTP/1.1 200 OK\r\n\r\nread wrongly"), Resolution{By: "replay"}))
	require.NoError(t, os.Rename(filepath.Join(dir, StatusResolved, fileName(id)), filepath.Join(dir, StatusOpen, fileName(id))), "by hand")
	_, err = s.Claim(id)
	require.NoError(t, err)
	require.NoError(t, s.Close()) // killed while the call is out

	s, err = Open(dir, keeping())
	require.NoError(t, err)
	r, err := View(dir)
	require.NoError(t, err)
	l, err := r.Get(id)
	require.NoError(t, err)
	require.Equal(t, StatusOpen, l.Status)
	require.True(t, l.Ambiguous)
	require.Equal(t, ReplayInterrupted, l.Replays[0].Outcome)

	_, err = s.Claim(id)
	require.NoError(t, err)
	time.Sleep(10 * time.Millisecond)
	write(t, "HTTP/1.1 200 OK\r\n\r\nread well", dir, "results", id)
	require.NoError(t, s.Close())
	newStore(t, dir, keeping())
	l, err = r.Get(id)
	require.NoError(t, err)
	require.Equal(t, StatusResolved, l.Status, "a new result does")
	require.Empty(t, files(t, dir, StatusOpen))
}

func TestAFullDiskHidesNoInterruptedCall(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir, keeping())
	id := put(t, s, letter("1"), "1")
	_, err := s.Claim(id)
	require.NoError(t, err)
	tmp := filepath.Join(dir, tmpFolder)
	require.NoError(t, os.Remove(tmp))
	require.NoError(t, os.WriteFile(tmp, nil, 0o600)) // nothing can be written
	require.NoError(t, s.settleInterrupted(fileName(id)))
	require.Equal(t, []string{StatusClaimed + "/" + fileName(id)}, files(t, dir, StatusClaimed))
	require.NoError(t, os.Remove(tmp))
	require.NoError(t, s.settleInterrupted(fileName(id)))
	require.Equal(t, []string{StatusOpen + "/" + fileName(id)}, files(t, dir, StatusOpen))
}

func TestAKeptResultResolvesItsLetterWithoutWords(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir, keeping())
	id := put(t, s, letter("1"), "1")
	c, err := s.Claim(id)
	require.NoError(t, err)
	require.Error(t, c.ResolveKept(Resolution{By: "replay"}), "nothing is kept yet")
	c.envelope.ErrorMessage = strings.Repeat("x", maxEnvelopeBytes) // its words find no room
	require.Error(t, c.Resolve(strings.NewReader("HTTP/1.1 200 OK\r\n\r\n"), Resolution{By: "replay"}))
	require.Equal(t, []string{StatusClaimed + "/" + fileName(id)}, files(t, dir, StatusClaimed))
	require.NoError(t, c.ResolveKept(Resolution{By: "replay"}))
	require.Equal(t, []string{StatusResolved + "/" + fileName(id)}, files(t, dir, StatusResolved))
	require.ErrorIs(t, c.ResolveKept(Resolution{By: "replay"}), ErrSettled)
}

func TestLettersOfTwoTenantsAreTwo(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir, keeping())
	of := func(tenant string) *Envelope {
		e := letter("1")
		e.Tenant = tenant
		return e
	}
	a, b, nobody := put(t, s, of("a"), "1"), put(t, s, of("b"), "1"), put(t, s, of(""), "1")
	require.NotEqual(t, a, b)
	require.NotEqual(t, a, nobody)
	require.Equal(t, b, put(t, s, of("b"), "1"), "raised")
	e := of("b")
	done := Done{RequestFingerprint: e.RequestFingerprint, DocumentID: e.DocumentID, IdempotencyKey: e.IdempotencyKey, Tenant: "b"}
	ids, err := s.OpenLetters("acct").Resolve(t.Context(), done, Resolution{By: "proxy"})
	require.NoError(t, err)
	require.Equal(t, []string{b}, ids, "the others were given nothing")
}
