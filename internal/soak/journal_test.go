package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAJournalSaysWhichAnswersArrived(t *testing.T) {
	var b bytes.Buffer
	j := &journal{to: &b}
	j.note("worked", "1-1", "vision", "soak00000001")
	j.note("worked", "1-1", "vision", "soak00000002")
	j.note("answered", "1-1")
	j.note("worked", "1-2", "vision", "soak00000001")
	j.note("fault", "vision", "answer lost")
	j.note("started", "1-3", "soak00000003", "token", "", "1")
	b.WriteString("answered\t1-2") // killed in the middle of a line
	r, err := readJournal(&b)
	require.NoError(t, err)
	require.Equal(t, map[string][]work{"soak00000001": {{true}, {false}}, "soak00000002": {{true}}}, r.works)
	require.Equal(t, map[string][]start{"soak00000003": {{"token", "", "1"}}}, r.starts)
	require.Equal(t, map[string]int{"answer lost": 1}, r.faults)

	_, err = readJournal(strings.NewReader("worked\t1-1\n"))
	require.ErrorContains(t, err, "has the line")
}
