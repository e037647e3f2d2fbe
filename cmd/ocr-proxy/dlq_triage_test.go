package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ocr-proxy/ocr-proxy/internal/dlq"
)

// lying is the status of a letter by the folder that it lies in.
func lying(t *testing.T, dir, id string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "*", id+".json"))
	require.NoError(t, err)
	require.Len(t, found, 1)
	return filepath.Base(filepath.Dir(found[0]))
}

func dlqCommandOK(t *testing.T, args ...string) string {
	t.Helper()
	code, stdout, stderr := command(t, "", nil, append([]string{"dlq"}, args...)...)
	require.Zero(t, code, stderr)
	return stdout
}

func TestTriageWithoutAProxy(t *testing.T) {
	t.Parallel()
	dir, ids := fillDLQ(t, deadLetter("lease-1", "permanent"), deadLetter("lease-2", "permanent"), deadLetter("lease-3", "permanent"))
	require.Equal(t, "resolved "+ids[0]+": lease-1\n", dlqCommandOK(t, "resolve", ids[0], "--dir", dir, "--note", "typed in", "--label", "handwriting"))
	require.Equal(t, "resolved", lying(t, dir, ids[0]))
	shown := dlqCommandOK(t, "show", ids[0], "--dir", dir)
	require.Contains(t, shown, "by "+person()+", label handwriting: typed in")

	var letter dlq.Letter
	require.NoError(t, json.Unmarshal([]byte(dlqCommandOK(t, "discard", ids[1][:len(ids[1])-1], "--dir", dir, "--note", "blank", "--output", "json")), &letter))
	require.Equal(t, "discarded", letter.Status)
	require.Equal(t, "blank", letter.Resolution.Note)

	for want, args := range map[string][]string{
		"not open but resolved": {"resolve", ids[0]},
		"no dead letter has":    {"resolve", unknownLetter},
		"give more of the id":   {"resolve", ids[2][:8]},
		"file does not exist":   {"discard", unknownLetter, "--note", "n"},
		"holds no dead letters": {"resolve", ids[2], "--dir", t.TempDir()},
		"does not exist: check": {"prune", "--dir", filepath.Join(dir, "missing")},
		"none.yaml":             {"prune", "--config", filepath.Join(dir, "none.yaml"), "--dir", dir},
	} {
		if !strings.Contains(strings.Join(args, " "), "--dir") {
			args = append(args, "--dir", dir)
		}
		code, stdout, stderr := command(t, "", nil, append([]string{"dlq"}, args...)...)
		require.NotZero(t, code, args)
		require.Empty(t, stdout)
		require.Contains(t, stderr, want)
	}
	require.Equal(t, "open", lying(t, dir, ids[2]))

	require.Contains(t, dlqCommandOK(t, "prune", "--dir", dir), "removed 0 letters, 0 payloads and 0 results: 0 B\nresolved and discarded letters are kept")
	require.Regexp(t, `^would remove 2 letters, 2 payloads and 0 results: \d.* KiB\n$`, dlqCommandOK(t, "prune", "--dir", dir, "--older-than", "1ns", "--dry-run"))
	require.Equal(t, "resolved", lying(t, dir, ids[0]))
	var report dlq.PruneReport
	require.NoError(t, json.Unmarshal([]byte(dlqCommandOK(t, "prune", "--dir", dir, "--older-than", "1ns", "--output", "json")), &report))
	require.Equal(t, 2, report.Letters)
	require.Contains(t, dlqCommandOK(t, "verify", "--dir", dir), "1 open, 0 claimed, 0 resolved, 0 discarded; 1 whole payloads\nnothing is wrong")
}

// asked is a configuration by which commands find a proxy at work.
func asked(t *testing.T, p *proxyProcess, more string) string {
	t.Helper()
	return file(t, "asked.yaml", fmt.Sprintf("admin: {listen: %q}\ndead_letters: {dir: %q%s}\n"+
		"providers: [{name: a, kind: generic, listen: '127.0.0.1:8081', upstream: 'http://127.0.0.1:9'}]\n", strings.TrimPrefix(p.admin, "http://"), p.letters, more))
}

func TestTriageThroughTheRunningProxy(t *testing.T) {
	t.Parallel()
	p := serving(t, provide(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnprocessableEntity) }), "")
	var ids []string
	for i := range 3 {
		_, header, _ := p.ask(http.MethodPost, p.account+"/ocr", fmt.Sprint("document ", i))
		ids = append(ids, header.Get("Ocr-Proxy-Dead-Letter-Id"))
	}
	config := asked(t, p, ", retention: 1ns")

	code, _, stderr := command(t, "", nil, "dlq", "resolve", ids[0], "--dir", p.letters)
	require.Equal(t, exitFailure, code)
	require.Contains(t, stderr, "--config FILE")
	require.Equal(t, "open", lying(t, p.letters, ids[0]))

	require.Contains(t, dlqCommandOK(t, "resolve", ids[0], "--config", config, "--label", "rotated"), "resolved "+ids[0])
	require.Contains(t, dlqCommandOK(t, "discard", ids[1], "--config", config, "--dir", p.letters, "--note", "blank"), "discarded "+ids[1])
	require.Equal(t, "resolved", lying(t, p.letters, ids[0]))
	require.Equal(t, "discarded", lying(t, p.letters, ids[1]))
	require.Equal(t, person(), p.log.find(t, "dead letter resolved")["by"])
	_, _, metrics := p.ask(http.MethodGet, p.admin+"/metrics", "")
	require.Contains(t, metrics, `ocrproxy_dead_letters_open{outcome="permanent",provider="acct"} 1`)

	code, _, stderr = command(t, "", nil, "dlq", "resolve", ids[0], "--config", config)
	require.Equal(t, exitFailure, code)
	require.Equal(t, "ocr-proxy: dead letter "+ids[0]+" is not open but resolved\n", stderr)
	code, _, _ = command(t, "", nil, "dlq", "resolve", "0192d3", "--config", config)
	require.Equal(t, exitBadConfig, code)

	require.Contains(t, dlqCommandOK(t, "prune", "--config", config, "--older-than", "100d"), "removed 0 letters")
	require.Contains(t, dlqCommandOK(t, "prune", "--config", config, "--older-than", "1ns", "--dry-run"), "would remove 2 letters, 2 payloads")
	require.Contains(t, dlqCommandOK(t, "prune", "--config", config), "removed 0 letters", "the retention is the proxy's own")
	require.Contains(t, dlqCommandOK(t, "prune", "--config", config, "--older-than", "1ns"), "removed 2 letters, 2 payloads")
	require.Equal(t, "open", lying(t, p.letters, ids[2]))

	// The list of the API holds the same letters as that of the command.
	var page struct {
		Letters json.RawMessage `json:"dead_letters"`
	}
	_, _, text := p.ask(http.MethodGet, p.admin+"/api/v1/dead-letters", "")
	require.NoError(t, json.Unmarshal([]byte(text), &page))
	require.JSONEq(t, string(page.Letters), dlqCommandOK(t, "list", "--config", config, "--output", "json"))
}

func TestAStoreThatIsHeldByNobodyWhoAnswers(t *testing.T) {
	t.Parallel()
	dir, ids := fillDLQ(t, deadLetter("1", "permanent"))
	s, err := dlq.Open(dir, dlq.Options{})
	require.NoError(t, err)
	path := file(t, "c.yaml", "admin: {listen: '127.0.0.1:1'}\ndead_letters: {dir: "+dir+"}\nproviders: [{name: a, kind: generic, listen: '127.0.0.1:8081', upstream: 'http://127.0.0.1:9'}]\n")
	done := make(chan int)
	go func() {
		code, _, _ := command(t, "", nil, "dlq", "resolve", ids[0], "--config", path)
		done <- code
	}()
	select {
	case code := <-done:
		t.Fatalf("it did not wait for the other command: exit %d", code)
	default:
	}
	require.NoError(t, s.Close()) // the other command has ended
	require.Zero(t, <-done)
	require.Equal(t, "resolved", lying(t, dir, ids[0]))
}

func TestRootDoesNotWriteAmongTheLettersOfAnother(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	dir, ids := fillDLQ(t, deadLetter("1", "permanent"))
	require.NoError(t, os.Chown(filepath.Join(dir, "open"), 65532, 65532))
	code, _, stderr := command(t, "", nil, "dlq", "resolve", ids[0], "--dir", dir)
	require.Equal(t, exitFailure, code)
	require.Contains(t, stderr, "user 65532")
}

func TestExport(t *testing.T) {
	t.Parallel()
	lost := deadLetter("lost", "permanent")
	dir, ids := fillDLQ(t, deadLetter("a", "permanent"), deadLetter("b", "transient"), lost)
	dlqCommandOK(t, "resolve", ids[0], "--dir", dir, "--label", "handwriting")
	require.NoError(t, os.Remove(filepath.Join(dir, lost.RawPayloadRef)))

	to := filepath.Join(t.TempDir(), "set")
	require.Equal(t, "no dead letters\n", dlqCommandOK(t, "export", "--dir", dir, "--to", to, "--class", "auth"))
	require.NoDirExists(t, to)
	require.Equal(t, "exported 1 letter to "+to+"\n", dlqCommandOK(t, "export", "--dir", dir, "--to", to, "--status", "resolved"))
	metadata, err := os.ReadFile(filepath.Join(to, "metadata.jsonl"))
	require.NoError(t, err)
	require.Contains(t, string(metadata), `{"file_name":"`+ids[0]+`/document.`)
	require.Contains(t, string(metadata), `"label":"handwriting"`)

	code, _, stderr := command(t, "", nil, "dlq", "export", "--dir", dir, "--to", to)
	require.Equal(t, exitFailure, code)
	require.Contains(t, stderr, "nothing is overwritten")

	to = filepath.Join(t.TempDir(), "set")
	code, stdout, stderr := command(t, "", nil, "dlq", "export", "--dir", dir, "--to", to, ids[0], ids[1][:idLeast], ids[2], unknownLetter)
	require.Equal(t, exitFailure, code)
	require.Equal(t, "exported 2 letters to "+to+"\n", stdout)
	require.Contains(t, stderr, "not exported: "+ids[2]+": payload of dead letter")
	require.Contains(t, stderr, "not exported: -: no dead letter has the id "+unknownLetter)
	require.Contains(t, stderr, "2 of 4 letters could not be exported")
	require.DirExists(t, filepath.Join(to, ids[1]))
	require.NoDirExists(t, filepath.Join(to, ids[2]))

	var said export
	code, stdout, _ = command(t, "", nil, "dlq", "export", "--dir", dir, "--to", filepath.Join(t.TempDir(), "set"), "--output", "json")
	require.Equal(t, exitFailure, code)
	require.NoError(t, json.Unmarshal([]byte(stdout), &said))
	require.Equal(t, 1, said.Exported)
	require.Equal(t, ids[2], said.Failed[0].ID)
}
