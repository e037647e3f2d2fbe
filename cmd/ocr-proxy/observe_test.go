package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ocr-proxy/ocr-proxy/config"
)

// The folder of the dead letters is as it was, however much fails, and nobody is told; what would be is counted, logged and shown.
func TestAnAccountThatObserves(t *testing.T) {
	t.Parallel()
	calls := 0
	p := serving(t, provide(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		calls++
		w.WriteHeader(http.StatusServiceUnavailable)
	}), "dead_letters: webhook: {url: 'http://127.0.0.1:9/'}\nbreaker: {failure_threshold: 2, reset_timeout: 1h}", "mode: observe")
	require.Equal(t, true, p.log.find(t, "listening")["observes"])
	files := func() (all []string) {
		require.NoError(t, filepath.WalkDir(p.letters, func(path string, entry os.DirEntry, err error) error {
			if err == nil && !entry.IsDir() && filepath.Base(filepath.Dir(path)) != "index" { // a cache, which reading renews
				info, err := entry.Info()
				all = append(all, fmt.Sprint(path, " ", info.Size()))
				return err
			}
			return err
		}))
		return all
	}
	before := files()
	for n := range 5 {
		status, header, _ := p.ask(http.MethodPost, p.account+"/ocr", "document")
		require.Equal(t, http.StatusServiceUnavailable, status)
		require.Equal(t, n+1, calls, "one call each")
		require.Empty(t, header.Get("Ocr-Proxy-Outcome"))
	}
	opened := p.log.find(t, "breaker")
	require.Equal(t, []any{"open", true}, []any{opened["to"], opened["observed"]})
	_, _, text := p.ask(http.MethodGet, p.admin+"/api/v1/providers", "")
	require.Contains(t, text, `"observes": true`)
	_, _, text = p.ask(http.MethodGet, p.admin+"/", "")
	require.Contains(t, text, "observes, changes nothing")
	require.Contains(t, text, "circuit would be open")
	p.signal()
	require.Zero(t, p.end(), "everything was judged: a clean end")
	require.Equal(t, before, files())
}

// What is observed is in progress until its answer has gone and its line is written.
func TestADrainWaitsForWhatIsObserved(t *testing.T) {
	t.Parallel()
	upstream, arrived, release := held(t)
	p := serving(t, upstream, "", "mode: observe")
	call := p.later("document")
	<-arrived
	p.signal()
	p.log.find(t, "draining")
	release <- struct{}{}
	require.Equal(t, "document", (<-call).text)
	require.Zero(t, p.end())
	require.Equal(t, []any{"passed"}, p.log.find(t, "request")["would"])
}

func TestCheckSaysWhichAccountsObserve(t *testing.T) {
	t.Parallel()
	cfg := &config.Config{Providers: []config.Provider{{Name: "a", Mode: "enforce"}, {Name: "b", Mode: "observe"}}}
	var said strings.Builder
	require.NoError(t, sayChecked(&said, cfg))
	require.Contains(t, said.String(), "observe: b changes nothing: ")
	require.NotContains(t, said.String(), "observe: a ")
}
