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

func TestQueuesAreToldOfOnlyWhereAThrottleTaughtThem(t *testing.T) {
	const throttled, limited = `ocrproxy_throttles_total{provider="textract",operation="op"} 1
`, `ocrproxy_pacing_rate{provider="textract",operation="op"} 2.54
`
	const waiting, paused = `ocrproxy_queue_depth{provider="textract",priority="normal"} 5
`, `ocrproxy_throttle_pause_seconds{provider="textract",operation="op"} 1
`
	for text, want := range map[string]string{
		limited + waiting:                      "", // a circuit that has closed again
		throttled + waiting:                    "",
		throttled + limited:                    "",
		throttled + paused + waiting:           ", textract paused",
		throttled + limited + waiting:          ", textract 2.5/s (5 wait)",
		throttled + limited + waiting + paused: ", textract paused (5 wait)",
	} {
		require.Equal(t, "retries 0, dead letters 0"+want, status(parse(t, text)), text)
	}
	var out bytes.Buffer
	w := &watcher{display: newDisplay(&out, false, 20)}
	learned := parse(t, throttled+limited)
	w.news(parse(t, limited), parse(t, limited))
	w.news(nil, parse(t, limited))
	require.Empty(t, out.String())
	w.news(parse(t, limited), learned)
	w.news(learned, learned)
	require.Equal(t, "   0.0s  textract: from now on its documents wait in a queue, which lets them go at 2.5 calls/s to begin with\n", out.String())
}
