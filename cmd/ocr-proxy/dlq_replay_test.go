package main

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ocr-proxy/ocr-proxy/internal/dlq"
)

// replayIn runs the command against a proxy.
func replayIn(t *testing.T, p *proxyProcess, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return command(t, "", nil, append([]string{"dlq", "replay", "--dir", p.letters, "--admin", strings.TrimPrefix(p.admin, "http://")}, args...)...)
}

// patient is a provider that is down until it is told otherwise.
func patient(t *testing.T) (url string, well *atomic.Bool, calls *atomic.Int32) {
	t.Helper()
	well, calls = new(atomic.Bool), new(atomic.Int32)
	return provide(t, func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		if !well.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		echo(w, r)
	}), well, calls
}

func TestReplayCommand(t *testing.T) {
	t.Parallel()
	upstream, well, calls := patient(t)
	p := serving(t, upstream, "retry: {max_attempts: 1}\nbreaker: {failure_threshold: 100}")
	code, out, _ := replayIn(t, p)
	require.Zero(t, code)
	require.Contains(t, out, "nothing to replay")
	var ids []string
	for _, document := range []string{"one", "two", "three"} {
		_, header, _ := p.ask(http.MethodPost, p.account+"/ocr", document)
		ids = append(ids, header.Get("Ocr-Proxy-Dead-Letter-Id"))
	}

	code, out, errs := replayIn(t, p, "--max", "1")
	require.Equal(t, 1, code)
	require.Contains(t, out, "failed again  "+ids[0], "the oldest first")
	require.Contains(t, out, "1 selected: 0 resolved, 1 failed again")
	require.Contains(t, errs, "failed again or were refused")
	require.EqualValues(t, 4, calls.Load())

	code, out, _ = replayIn(t, p, "--dry-run", "--output", "json")
	require.Zero(t, code)
	var cost replayCost
	require.NoError(t, json.Unmarshal([]byte(out), &cost))
	require.Equal(t, replayCost{Letters: 3, Calls: 3, Unknown: 3}, cost)
	require.EqualValues(t, 4, calls.Load())

	well.Store(true)
	code, out, _ = replayIn(t, p, ids[1][:idLeast])
	require.Zero(t, code, out)
	code, out, _ = command(t, "", nil, "dlq", "show", ids[1], "--result", "--dir", p.letters)
	require.Zero(t, code)
	require.Equal(t, "two", out, "the answer's body, byte for byte")
	set := filepath.Join(t.TempDir(), "set")
	dlqCommandOK(t, "export", ids[1], "--dir", p.letters, "--to", set)
	kept, err := filepath.Glob(filepath.Join(set, ids[1], "result.*"))
	require.NoError(t, err)
	require.Len(t, kept, 1)
	result, err := os.ReadFile(kept[0])
	require.NoError(t, err)
	require.Equal(t, "two", string(result), "the same in a test set")
	code, _, errs = command(t, "", nil, "dlq", "show", ids[2], "--result", "--dir", p.letters)
	require.Equal(t, 1, code)
	require.Contains(t, errs, "has no result")
	code, _, errs = replayIn(t, p, ids[1])
	require.Zero(t, code)
	require.Contains(t, errs, ids[1]+" is resolved already")
	code, out, _ = replayIn(t, p, "--provider", "nobody")
	require.Zero(t, code)
	require.Contains(t, out, "nothing to replay")
	code, out, _ = replayIn(t, p, "--output", "json", "--rate", "100")
	require.Zero(t, code)
	var tally replayTally
	require.NoError(t, json.Unmarshal([]byte(out), &tally))
	require.Equal(t, 2, tally.Resolved)
	require.EqualValues(t, 7, calls.Load(), "each once")
	_, _, text := p.ask(http.MethodGet, p.admin+"/metrics", "")
	require.Contains(t, text, `ocrproxy_dead_letters_replays_total{provider="acct",result="succeeded"} 3`)
	require.Contains(t, text, `ocrproxy_dead_letters_replays_total{provider="acct",result="failed"} 1`)
	require.Contains(t, text, `ocrproxy_requests_total{kind="generic",operation="other",outcome="success",provider="acct"} 0`)
}

func TestReplayCommandWaitsForTheCircuit(t *testing.T) {
	t.Parallel()
	upstream, well, calls := patient(t)
	p := serving(t, upstream, "retry: {max_attempts: 1}\nbreaker: {failure_threshold: 1, reset_timeout: 800ms}")
	for _, document := range []string{"one", "two", "three"} {
		p.ask(http.MethodPost, p.account+"/ocr", document)
	}
	require.EqualValues(t, 1, calls.Load())
	well.Store(true)
	code, out, errs := replayIn(t, p)
	require.Zero(t, code, out)
	require.Contains(t, errs, "waits until")
	require.Contains(t, out, "3 selected: 3 resolved")
}

func TestReplayCommandSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	upstream, _, calls := patient(t)
	p := serving(t, upstream, "retry: {max_attempts: 1}")
	_, header, _ := p.ask(http.MethodPost, p.account+"/ocr?key=abcdef", "document")
	id := header.Get("Ocr-Proxy-Dead-Letter-Id")
	code, out, _ := replayIn(t, p)
	require.Equal(t, 1, code)
	require.Contains(t, out, "replay_auth")
	require.EqualValues(t, 1, calls.Load())

	require.NoError(t, dlqMove(p.letters, id, dlq.StatusOpen, dlq.StatusDiscarded))
	code, _, errs := replayIn(t, p, id)
	require.Equal(t, 1, code)
	require.Contains(t, errs, "was discarded")
	code, _, errs = replayIn(t, p, "019e0000-0000-7000-8000-000000000001")
	require.Equal(t, 1, code)
	require.Contains(t, errs, "no dead letter has the id")
	require.NoError(t, dlqMove(p.letters, id, dlq.StatusDiscarded, dlq.StatusOpen))
	stranger := provide(t, func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "a bearer token is needed", http.StatusUnauthorized)
	})
	for _, more := range [][]string{nil, {"--dry-run"}} {
		code, _, errs = replayIn(t, &proxyProcess{letters: p.letters, admin: stranger}, more...)
		require.Equal(t, 1, code)
		require.Contains(t, errs, "refuses the command: a bearer token is needed")
	}
	var asked atomic.Int32
	busy := provide(t, func(w http.ResponseWriter, _ *http.Request) { // another replayer has the letter, then has dealt with it
		if asked.Add(1) == 1 {
			w.WriteHeader(http.StatusConflict)
			return
		}
		w.WriteHeader(http.StatusNotFound)
	})
	code, out, _ = replayIn(t, &proxyProcess{letters: p.letters, admin: busy})
	require.Zero(t, code)
	require.Contains(t, out, "1 dealt with elsewhere, 0 not done")
	require.EqualValues(t, 2, asked.Load())
	p.signal()
	require.Zero(t, p.end())
	code, _, errs = replayIn(t, p)
	require.Equal(t, 1, code)
	require.Contains(t, errs, "start it first")

	for says, args := range map[string][]string{
		"--config FILE or --admin": {"--dir", p.letters},
		"not both":                 {"--dir", p.letters, "--admin", "x:1", "--class", "auth", id},
		"only open letters":        {"--dir", p.letters, "--admin", "x:1", "--status", "resolved"},
		"--parallel":               {"--dir", p.letters, "--admin", "x:1", "--parallel", "0"},
		"--rate":                   {"--dir", p.letters, "--admin", "x:1", "--rate", "-1"},
	} {
		code, _, errs := command(t, "", nil, append([]string{"dlq", "replay"}, args...)...)
		require.Equal(t, exitBadConfig, code, says)
		require.Contains(t, errs, says)
	}
}

// dlqMove moves a letter by hand.
func dlqMove(dir, id, from, to string) error {
	return os.Rename(filepath.Join(dir, from, id+".json"), filepath.Join(dir, to, id+".json"))
}

func TestLettersAreReplayedWhenTheirProviderRecovers(t *testing.T) {
	t.Parallel()
	upstream, well, _ := patient(t)
	p := serving(t, upstream, "dead_letters: auto_replay: {enabled: true, rate: 1000}\nbreaker: {failure_threshold: 1, reset_timeout: 1ms}", "retry: {max_attempts: 1}")
	p.ask(http.MethodPost, p.account+"/ocr", "one")
	well.Store(true)
	p.ask(http.MethodPost, p.account+"/ocr", "two")
	p.log.find(t, "dead letters replayed after their provider's recovery")
	require.Empty(t, letterFiles(t, p))
}

func TestReplayAuthIsForReplaysAlone(t *testing.T) {
	t.Parallel()
	var seen atomic.Value
	broken := new(atomic.Bool)
	broken.Store(true)
	upstream := provide(t, func(w http.ResponseWriter, r *http.Request) {
		seen.Store(r.Header.Get("X-Api-Key"))
		if broken.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	key := file(t, "key", "of-replays-only")
	p := serving(t, upstream, "retry: {max_attempts: 1}", "replay_auth: {type: header, header: X-Api-Key, value_file: "+key+"}")
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.account+"/ocr", strings.NewReader("document"))
	require.NoError(t, err)
	req.Header.Set("X-Api-Key", "of-the-worker")
	resp, err := p.client.Do(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, "of-the-worker", seen.Load())
	broken.Store(false)
	code, out, _ := replayIn(t, p)
	require.Zero(t, code, out)
	require.Equal(t, "of-replays-only", seen.Load())
}
