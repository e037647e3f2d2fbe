package dlq

import (
	"bytes"
	"errors"
	"io"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func indexed(document string) facts {
	e := letter(document)
	e.ID, e.ClassChanged, e.Occurrences, e.Request.BodyBytes = someID, true, 7, math.MaxInt64
	id, _ := parseUID(someID)
	f := factsOf(id, e)
	f.stamp, f.first, f.failed = 99, f.first.UTC().Truncate(0), f.failed.UTC().Truncate(0)
	return f
}

// decoded reads a segment as far as it goes.
func decoded(segment []byte) (all []record, err error) {
	all = []record{}
	d, err := newDecoder(bytes.NewReader(segment))
	if err != nil {
		return all, err
	}
	for {
		var r record
		if err := d.next(&r); err != nil {
			return all, err
		}
		all = append(all, r)
	}
}

func TestLogRemembersEveryFact(t *testing.T) {
	one, two := indexed("1"), indexed("2")
	two.first = time.Time{} // The year 1.
	two.classChanged, two.named, two.hashed = false, false, true
	two.facets = &facets{"p", "o", strings.Repeat("t", 1000), "out", "class", "co\xffde"}
	c := encoder{buffer: []byte(segmentHead)}
	require.NoError(t, c.letter(&one))
	before := len(c.buffer)
	require.NoError(t, c.letter(&one))
	require.Less(t, len(c.buffer)-before, 90, "words are written once")
	require.NoError(t, c.letter(&two))
	c.gone(one.id)
	c.size(math.MaxInt64)
	all, err := decoded(c.buffer)
	require.ErrorIs(t, err, io.EOF)
	require.Equal(t, []record{{facts: one}, {facts: one}, {facts: two}, {facts: facts{id: one.id}, gone: true}, {sized: true, bytes: math.MaxInt64}}, all)

	for n := range c.buffer {
		part, err := decoded(c.buffer[:n])
		require.True(t, errors.Is(err, errTorn) || errors.Is(err, io.EOF), err)
		require.Equal(t, all[:len(part)], part, "what was written whole is read")
		spoiled := bytes.Clone(c.buffer)
		spoiled[n] ^= 0x40
		part, err = decoded(spoiled)
		require.ErrorIs(t, err, errTorn, "at %d", n)
		require.Equal(t, all[:len(part)], part, "nothing wrong is read")
	}
	zeros, err := decoded(append(bytes.Clone(c.buffer), make([]byte, 100)...))
	require.ErrorIs(t, err, errTorn, "what a file system leaves after a loss of power")
	require.Equal(t, all, zeros)
}

func TestLogForgetsWordsInTime(t *testing.T) {
	f := indexed("1")
	c := encoder{buffer: []byte(segmentHead)}
	const n = maxWords + 1000
	tenant := func(i int) string {
		if i%200 == 0 {
			return strings.Repeat("x", maxRecordBytes-100) + strconv.Itoa(i)
		}
		return strconv.Itoa(i)
	}
	for i := range n {
		f.facets = &facets{provider: "acct", tenant: tenant(i)}
		if err := c.letter(&f); err != nil || len(c.words) > maxWords || c.bytes > maxWordBytes {
			t.Fatal(err, len(c.words), c.bytes)
		}
	}
	d, err := newDecoder(bytes.NewReader(c.buffer))
	require.NoError(t, err)
	var r record
	for i := range n {
		if err := d.next(&r); err != nil || r.tenant != tenant(i) || r.provider != "acct" || len(d.facets) > maxFacets {
			t.Fatal(i, err, len(d.facets))
		}
	}
	require.ErrorIs(t, d.next(&r), io.EOF)
	f.facets = &facets{code: strings.Repeat("x", maxRecordBytes)}
	size := len(c.buffer)
	require.ErrorIs(t, c.letter(&f), errTooLong)
	require.Len(t, c.buffer, size, "nothing of it is written")
}

// FuzzIndexLog: no segment, however damaged, is read for more than it says, and what is read can be written again.
func FuzzIndexLog(f *testing.F) {
	one := indexed("1")
	c := encoder{buffer: []byte(segmentHead)}
	require.NoError(f, c.letter(&one))
	c.gone(one.id)
	c.size(1)
	f.Add(c.buffer)
	f.Add(c.buffer[:len(c.buffer)-1])
	f.Add([]byte(segmentHead))
	f.Fuzz(func(t *testing.T, segment []byte) {
		all, err := decoded(segment)
		require.True(t, errors.Is(err, errTorn) || errors.Is(err, io.EOF), err)
		again := encoder{buffer: []byte(segmentHead)}
		for i := range all {
			switch r := &all[i]; {
			case r.gone:
				again.gone(r.id)
			case r.sized:
				again.size(r.bytes)
			default:
				require.NoError(t, again.letter(&r.facts))
			}
		}
		back, err := decoded(again.buffer)
		require.ErrorIs(t, err, io.EOF)
		require.Equal(t, all, back)
	})
}

// FuzzIndexRecord gets behind the checksum.
func FuzzIndexRecord(f *testing.F) {
	one := indexed("1")
	c := encoder{}
	require.NoError(f, c.letter(&one))
	f.Add(c.buffer[1:20])
	f.Add([]byte{recordWord, 'a'})
	f.Add([]byte{recordForget})
	f.Add([]byte{recordLetter})
	f.Fuzz(func(t *testing.T, content []byte) {
		if len(content) == 0 || len(content) > maxRecordBytes {
			return
		}
		c := encoder{buffer: []byte(segmentHead)}
		require.NoError(t, c.letter(&one))
		c.frame(content)
		c.size(7)
		all, err := decoded(c.buffer)
		require.True(t, errors.Is(err, errTorn) || errors.Is(err, io.EOF), err)
		require.NotEmpty(t, all)
		require.Equal(t, one, all[0].facts)
	})
}
