package demo

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPlainLinesCarryTheTimeAndProgressOnlyNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		d := newDisplay(&out, false, 20)
		d.progress(0, "quiet")
		time.Sleep(1500 * time.Millisecond)
		d.progress(4, "quiet") // too soon
		d.say("%s goes down", mistral)
		time.Sleep(time.Second)
		d.progress(5, "mistral open")
		d.end()
		require.Equal(t, "   0.0s  0/20 documents, quiet\n   1.5s  mistral goes down\n   2.5s  5/20 documents, mistral open\n", out.String())
	})
}

func TestBarShowsProgressAndKeepsWhatIsSaid(t *testing.T) {
	var out bytes.Buffer
	d := newDisplay(&out, true, 20)
	d.progress(5, "mistral open")
	d.say("%s goes down", mistral)
	d.end()
	require.Contains(t, out.String(), "(5/20) mistral open")
	require.Contains(t, out.String(), "s  mistral goes down\n")
}

func TestNewsTellsEachChangeOfABreakerOnce(t *testing.T) {
	var out bytes.Buffer
	w := &watcher{display: newDisplay(&out, false, 20)}
	opened := parse(t, told)
	w.news(nil, opened)
	require.Contains(t, out.String(), "mistral: the breaker opens")
	require.Contains(t, out.String(), "mistral: the probe succeeded")
	out.Reset()
	w.news(opened, opened)
	require.Empty(t, out.String())
}
