package dlq

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestListFiltersNewestFirst(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir, keeping())
	now := time.Now()
	var ids []string
	for i, change := range []func(*Envelope){
		func(*Envelope) {},
		func(e *Envelope) { e.Provider = "other" },
		func(e *Envelope) { e.ErrorClass = "throttle" },
		func(e *Envelope) { e.Outcome = "review" },
		func(e *Envelope) { e.ErrorCode = "Bad" },
		func(e *Envelope) { e.Tenant = "team" },
		func(e *Envelope) { e.FailedAt = now.Add(-48 * time.Hour) },
	} {
		e := letter(string(rune('a' + i)))
		change(e)
		ids = append(ids, put(t, s, e, "x"))
	}
	done := put(t, s, letter("done"), "x")
	c, err := s.Claim(done)
	require.NoError(t, err)
	require.NoError(t, c.Discard(Resolution{}))

	at := func(i ...int) (some []string) {
		for _, n := range i {
			some = append(some, ids[n])
		}
		return some
	}
	for name, c := range map[string]struct {
		filter Filter
		want   []string
	}{
		"all open":       {Filter{}, at(6, 5, 4, 3, 2, 1, 0)},
		"provider":       {Filter{Provider: "other"}, at(1)},
		"class":          {Filter{Class: "throttle"}, at(2)},
		"outcome":        {Filter{Outcome: "review"}, at(3)},
		"code":           {Filter{Code: "Bad"}, at(4)},
		"tenant":         {Filter{Tenant: "team"}, at(5)},
		"document":       {Filter{Document: "e"}, at(4)},
		"part of a name": {Filter{Document: "d"}, at(3)}, // not "done"
		"since":          {Filter{Since: now.Add(-time.Hour)}, at(5, 4, 3, 2, 1, 0)},
		"both":           {Filter{Provider: "other", Class: "throttle"}, nil},
		"open":           {Filter{Status: StatusOpen, Code: "Bad"}, at(4)},
		"claimed":        {Filter{Status: StatusClaimed}, nil},
		"discarded":      {Filter{Status: StatusDiscarded}, []string{done}},
	} {
		var got []string
		for _, l := range listed(t, dir, c.filter) {
			got = append(got, l.ID)
		}
		require.Equal(t, c.want, got, name)
	}
	r, err := View(dir)
	require.NoError(t, err)
	for _, err := range r.List(Filter{Status: "../tmp"}) {
		require.ErrorContains(t, err, "open, claimed, resolved or discarded")
	}
	l, err := r.Get(done)
	require.NoError(t, err)
	require.Equal(t, StatusDiscarded, l.Status)
	_, err = r.Get(someID)
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = r.Get("../open/" + done)
	require.ErrorIs(t, err, ErrInvalidID)
	for range r.List(Filter{}) {
		break // Stopping early must be possible.
	}
}

func TestDocumentIsFoundByTheBeginningOfItsHash(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir, keeping())
	hash := hexSum("a document without a name")
	id := put(t, s, letter(hash), "x")
	put(t, s, letter("a-name-of-some-length"), "x")
	for document, want := range map[string]int{hash: 1, hash[:12]: 1, hash[:11]: 0, "a-name-of-some": 0, "a-name-of-some-length": 1} {
		require.Len(t, listed(t, dir, Filter{Document: document}), want, document)
	}
	require.Equal(t, id, listed(t, dir, Filter{Document: hash[:12]})[0].ID)
}

func TestFindTakesTheBeginningOfAnID(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir, keeping())
	const one, two, far = "0192d3c0-7a1b-7c3d-8e4f-5a6b7c8d9e0f", "0192d3c0-7a1b-7c3d-8e4f-5a6b7c8d9e1f", "0192d3c1-7a1b-7c3d-8e4f-5a6b7c8d9e0f"
	for _, id := range []string{one, two, far} {
		e := letter(id)
		e.ID = id
		put(t, s, e, "x")
	}
	c, err := s.Claim(far)
	require.NoError(t, err)
	require.NoError(t, c.Resolve(nil, Resolution{}))
	r, err := View(dir)
	require.NoError(t, err)
	for prefix, want := range map[string]string{one: one, one[:35]: one, two: two, far[:8]: far, far[:14]: far} {
		l, err := r.Find(prefix)
		require.NoError(t, err, prefix)
		require.Equal(t, want, l.ID, prefix)
	}
	_, err = r.Find(one[:18])
	require.ErrorContains(t, err, "2 dead letters have ids that begin with "+one[:18])
	_, err = r.Find("0192d3c2")
	require.ErrorIs(t, err, fs.ErrNotExist)
	for _, bad := range []string{"", far[:7], "../open/", "0192D3C0-7A1B", far + "0"} {
		_, err = r.Find(bad)
		require.Error(t, err, bad)
	}
}

func TestListNamesTheUnreadableAndGoesOn(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir, keeping())
	id := put(t, s, letter("1"), "x")
	write(t, "{", dir, "open", someID+".json")
	write(t, "no letter", dir, "open", "README")
	r, err := View(dir)
	require.NoError(t, err)
	var got []string
	for l, err := range r.List(Filter{}) {
		if err != nil {
			require.ErrorIs(t, err, ErrUnreadable)
			require.ErrorContains(t, err, someID)
			got = append(got, "unreadable")
			continue
		}
		got = append(got, l.ID)
	}
	require.Equal(t, []string{id, "unreadable"}, got)
	_, err = r.Get(someID)
	require.ErrorIs(t, err, ErrUnreadable)
	groups, err := r.Top(Filter{}, TopOptions{})
	require.ErrorIs(t, err, ErrUnreadable)
	require.Len(t, groups, 1)
	require.Len(t, files(t, dir, "open"), 3, "a reader changes nothing")
}

func TestTop(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir, keeping())
	for _, document := range []string{"a", "a", "b"} { // a twice: one letter, seen twice.
		put(t, s, letter(document), document)
	}
	anonymous := letter("")
	anonymous.IdempotencyKey = ""
	put(t, s, anonymous, "x")
	odd := letter("b")
	odd.ErrorCode = "Odd"
	odd.RequestFingerprint = hexSum("odd")
	put(t, s, odd, "x")
	r, err := View(dir)
	require.NoError(t, err)
	groups, err := r.Top(Filter{}, TopOptions{})
	require.NoError(t, err)
	require.Len(t, groups, 2)
	g := groups[0]
	require.True(t, g.Oldest.Before(g.Newest))
	g.Oldest, g.Newest = time.Time{}, time.Time{}
	require.Equal(t, Group{
		Provider: "acct", Outcome: "exhausted", Class: "transient", Code: "Busy", Letters: 3, Occurrences: 4, Documents: 3, BodyBytes: 3,
		NewCodes: []string{"Busy"}, Action: Action("exhausted", "transient"),
	}, g)
	require.Equal(t, "Odd", groups[1].Code)
	require.Equal(t, 1, groups[1].Letters)
}

func TestViewOfNoStore(t *testing.T) {
	dir := t.TempDir()
	_, err := View(filepath.Join(dir, "none"))
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, "does not exist")
	write(t, "", dir, "file")
	_, err = View(filepath.Join(dir, "file"))
	require.ErrorContains(t, err, "is a file")
	require.Empty(t, listed(t, dir, Filter{}), "an empty folder is an empty store")
}

func TestPayloadPath(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir, keeping())
	e := letter("1")
	put(t, s, e, "body")
	r, err := View(dir)
	require.NoError(t, err)
	path, size, err := r.PayloadPath(e)
	require.NoError(t, err)
	require.Equal(t, filepath.Join(dir, e.RawPayloadRef), path)
	require.EqualValues(t, 4, size)
	require.NoError(t, os.Remove(path))
	_, _, err = r.PayloadPath(e)
	require.ErrorIs(t, err, fs.ErrNotExist)
	path, _, err = r.PayloadPath(&Envelope{RawPayloadRef: "../../etc/passwd"})
	require.NoError(t, err)
	require.Empty(t, path)
}

func TestVerify(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir, keeping())
	good, missing, changed := letter("good"), letter("missing"), letter("changed")
	put(t, s, good, "good")
	put(t, s, missing, "missing")
	put(t, s, changed, "changed")
	report, err := Verify(dir, nil)
	require.NoError(t, err)
	require.True(t, report.OK())
	require.Equal(t, map[string]int{"open": 3}, report.Letters)
	require.Equal(t, 3, report.Payloads)
	require.Empty(t, report.Orphans)

	require.NoError(t, os.Remove(filepath.Join(dir, missing.RawPayloadRef)))
	write(t, "Changed", dir, changed.RawPayloadRef)
	nowhere := letter("nowhere")
	put(t, s, nowhere, "nowhere")
	text := read(t, dir, "open", nowhere.ID+".json")
	write(t, strings.Replace(text, "payloads/", "payloads/../", 1), dir, "open", nowhere.ID+".json")
	write(t, "{", dir, "resolved", someID+".json")
	write(t, "r", dir, "results", someID)
	write(t, "u", dir, "tmp", "put-1")
	var told []Move
	report, err = Verify(dir, func(m Move) {
		require.FileExists(t, filepath.Join(dir, m.Path), "it is told when it has happened")
		told = append(told, m)
	})
	require.NoError(t, err)
	require.False(t, report.OK())
	require.Len(t, report.Quarantined, 1)
	require.Equal(t, report.Quarantined, told)
	require.Equal(t, []string{dir, "resolved/" + someID + ".json", "quarantine/" + someID + ".json"}, []string{report.Dir, told[0].From, told[0].Path})
	require.Contains(t, told[0].Problem, "unexpected end of JSON")
	require.Equal(t, "{", read(t, dir, report.Quarantined[0].Path))
	problems := map[string]string{}
	for _, b := range report.Broken {
		problems[b.Path] = b.Problem
	}
	require.Len(t, problems, 3)
	require.Contains(t, problems["open/"+missing.ID+".json"], "missing")
	require.Contains(t, problems["open/"+changed.ID+".json"], "another content")
	require.Contains(t, problems["open/"+nowhere.ID+".json"], "leads nowhere")
	require.Equal(t, []string{"payloads/" + hexSum("nowhere")[:2] + "/" + hexSum("nowhere"), "results/" + someID}, report.Orphans)
	require.Equal(t, 1, report.Unfinished)
	require.Equal(t, 1, report.InQuarantine)
	require.Equal(t, 1, report.Payloads)

	twice := read(t, dir, "open", good.ID+".json")
	write(t, twice, dir, "discarded", good.ID+".json")
	report, err = Verify(dir, nil)
	require.NoError(t, err)
	require.Empty(t, report.Quarantined, "what is in quarantine is not found again")
	require.Len(t, report.Broken, 4)
	_, err = Verify(filepath.Join(dir, "none"), nil)
	require.ErrorIs(t, err, fs.ErrNotExist)
}
