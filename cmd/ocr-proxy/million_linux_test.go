package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ocr-proxy/ocr-proxy/internal/dlq"
)

// `make million` sets these: the letters, a folder on a real disk, and the program as it is delivered. Without them the
// same story is told with few letters and this test's own program, and nothing is measured against a bar.
const (
	millionLetters = "MILLION_LETTERS"
	millionDir     = "MILLION_DIR"
	millionProgram = "MILLION_PROGRAM"
	millionKeep    = "MILLION_KEEP" // Not empty: use the letters that are there, and leave them there.

	fewLetters = 12_000
	day        = 24 * time.Hour
)

// The bars for a million letters.
const (
	listBar  = 2 * time.Second
	topBar   = 5 * time.Second
	readyBar = 2 * time.Second
	memory   = 300 << 20 // bytes
)

func TestAMillionLetters(t *testing.T) {
	m := &million{T: t, n: fewLetters, dir: os.Getenv(millionDir), program: os.Getenv(millionProgram)}
	if text := os.Getenv(millionLetters); text != "" {
		n, err := strconv.Atoi(text)
		require.NoError(t, err)
		m.n, m.long = n, true
	} else if testing.Short() {
		t.Skip("it starts processes")
	}
	if m.dir == "" {
		m.dir = t.TempDir()
	}
	m.dir = filepath.Join(m.dir, "dead-letters")
	if os.Getenv(millionKeep) == "" {
		t.Cleanup(func() { require.NoError(t, os.RemoveAll(m.dir)) })
	}
	if _, err := os.Stat(m.dir); err != nil {
		m.took("make the letters", 0, m.generate)
	}
	require.NoError(t, os.RemoveAll(filepath.Join(m.dir, "index")))

	t.Log("--- no proxy runs, and there is no index yet")
	m.list("list")
	t.Log("--- the first start makes the index")
	p := m.serve()
	m.took("list beside it", 0, func() { m.dlq("list", "--limit", "50") })
	m.counted(p)
	m.beside(p)
	p.stop()
	t.Log("--- no proxy runs")
	m.list("list")
	m.top()
	t.Log("--- the second start")
	p = m.serve()
	m.took("a letter right after the start", 0, func() {
		res, err := http.Post(p.account+"/ocr", "text/plain", strings.NewReader("a new document"))
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		id := res.Header.Get("Ocr-Proxy-Dead-Letter-Id")
		require.NotEmpty(t, id)
		t.Cleanup(func() { _ = os.Remove(filepath.Join(m.dir, "open", id+".json")) })
	})
	m.n++
	m.counted(p)
	m.beside(p)
	p.stop()
}

type million struct {
	*testing.T
	n            int
	long         bool
	dir, program string
	worked       time.Duration // By the last command.
}

// took logs how long something takes. In the long form it holds to its bar what the machine has worked for it, or how
// long it took where that is not known: the machine may have other things to do.
func (m *million) took(what string, bar time.Duration, do func()) {
	m.Helper()
	m.worked = 0
	began := time.Now()
	do()
	took := time.Since(began)
	m.Logf("%-40s %8.2f s", what, took.Seconds())
	if took = cmp.Or(m.worked, took); m.long && bar > 0 && took > bar {
		m.Errorf("%s took longer than %s", what, bar)
	}
}

// generate writes letters as the store does, but makes none of them durable.
func (m *million) generate() {
	open := filepath.Join(m.dir, "open")
	require.NoError(m, os.MkdirAll(open, 0o700))
	var wg sync.WaitGroup
	const writers = 4
	for w := range writers {
		wg.Go(func() {
			for i := w; i < m.n; i += writers {
				e := m.letter(i)
				data, err := json.Marshal(e)
				if err == nil {
					err = os.WriteFile(filepath.Join(open, e.ID+".json"), append(data, '\n'), 0o600)
				}
				if err != nil {
					m.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// letter is one of about 1.7 KB, failed within the last ten days.
func (m *million) letter(i int) *dlq.Envelope {
	var seed [8]byte
	binary.BigEndian.PutUint64(seed[:], uint64(i))
	random := sha256.Sum256(seed[:])
	failed := time.Now().Add(-10 * day).Add(time.Duration(i) * (10 * day / time.Duration(m.n))).UTC()
	var id uuid.UUID
	copy(id[:], random[:])
	binary.BigEndian.PutUint64(id[:8], uint64(failed.UnixMilli())<<16|0x7000|uint64(random[0])<<4)
	id[8] = id[8]&0x3f | 0x80
	pick := func(n int, of ...string) string { return of[int(random[n])%len(of)] }
	document := sha256.Sum256([]byte(strconv.Itoa(i % (m.n*7/10 + 1))))
	request := sha256.Sum256([]byte("request " + strconv.Itoa(i)))
	status := 400 + int(random[5])%130
	e := &dlq.Envelope{
		Schema: dlq.Schema, ID: id.String(), Outcome: pick(1, "permanent", "exhausted", "circuit_open", "exhausted"), DocumentID: hex.EncodeToString(document[:]),
		IdempotencyKey: hex.EncodeToString(document[:]), RequestFingerprint: hex.EncodeToString(request[:]), Tenant: fmt.Sprintf("tenant-%d", random[2]),
		Provider: pick(3, "textract", "azure", "vision"), Kind: "generic", Operation: pick(4, "analyze", "detect", "batch"), FailureClass: "transient",
		ErrorClass: pick(6, "transient", "throttle", "auth", "permanent"), ErrorCode: fmt.Sprintf("Code%d", random[7]%20),
		ErrorMessage: strings.Repeat("the provider said so ", 5), HTTPStatus: &status, Diagnostic: "All attempts or all the time were used up.",
		StackTrace: strings.Repeat("attempt: class transient, HTTP 503\n", 8), ClassChanged: random[8]%16 == 0,
		Request:        dlq.Request{Method: "POST", Path: "/ocr", Headers: map[string][]string{"Accept": {"*/*"}}, Credentials: []string{}, BodyBytes: 50_000 + int64(binary.BigEndian.Uint32(random[10:]))%1_000_000, BodySHA256: hex.EncodeToString(request[:])},
		FirstAttemptAt: failed.Add(-time.Minute), FailedAt: failed, Occurrences: 1 + int(random[9])%3, Replays: []dlq.Replay{},
	}
	for n := range 3 {
		e.Attempts = append(e.Attempts, dlq.Attempt{N: n + 1, StartedAt: failed, DurationMS: 12.345, HTTPStatus: &status, ErrorClass: e.ErrorClass, ErrorCode: e.ErrorCode, WaitSource: "backoff"})
	}
	return e
}

func (m *million) command(args ...string) *exec.Cmd {
	program := m.program
	if program == "" {
		program = os.Args[0]
	}
	cmd := exec.CommandContext(m.Context(), program, args...)
	cmd.Env = append(os.Environ(), asCommand+"=1")
	return cmd
}

// dlq runs a command on the letters, and checks its memory in the long form.
func (m *million) dlq(args ...string) (stdout []byte) {
	m.Helper()
	cmd := m.command(append([]string{"dlq", "--dir", m.dir}, args...)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	require.NoError(m, cmd.Run(), errs.String())
	used, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	require.True(m, ok)
	m.worked = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	m.Logf("%-40s %8d MB, %.2f s of processor time", "dlq "+strings.Join(args, " "), used.Maxrss>>10, m.worked.Seconds())
	m.bounded(used.Maxrss)
	return out.Bytes()
}

// bounded checks memory, in KiB, in the long form.
func (m *million) bounded(kilobytes int64) {
	m.Helper()
	if m.long && kilobytes<<10 > memory {
		m.Errorf("%d MB are more than they may be", kilobytes>>10)
	}
}

func (m *million) list(what string) {
	m.Helper()
	m.took(what, listBar, func() {
		require.Equal(m, 51, bytes.Count(m.dlq("list", "--limit", "50"), []byte("\n")))
	})
}

func (m *million) top() {
	m.Helper()
	m.took("list, filtered", listBar, func() {
		n := bytes.Count(m.dlq("list", "--limit", "50", "--class", "auth", "--tenant", "tenant-7"), []byte("\n"))
		require.True(m, n == 51 || !m.long && n > 1, n)
	})
	for _, by := range []string{"provider,outcome,class,code", "tenant", "provider,operation,hour"} {
		m.took("top by "+by, topBar, func() {
			var groups []dlq.Group
			require.NoError(m, json.Unmarshal(m.dlq("top", "--output", "json", "--by", by), &groups))
			sum := 0
			for _, g := range groups {
				sum += g.Letters
			}
			require.Equal(m, m.n, sum)
		})
	}
}

// beside runs everything while the proxy does.
func (m *million) beside(p *program) {
	m.list("list beside the proxy")
	m.top()
	for _, query := range []string{"?limit=50", "?limit=50&class=auth&tenant=tenant-7", "?limit=1000"} {
		m.took("the admin listener's list "+query, 0, func() { require.Contains(m, p.get("/api/v1/dead-letters"+query), `"class_changed"`) })
	}
	m.took("the page for people", 0, func() { require.Contains(m, p.get("/"), "What to do") })
	p.memory("the proxy at its most")
}

// program is a proxy that runs in a process of its own.
type program struct {
	*million
	cmd            *exec.Cmd
	log            *logLines
	account, admin string
}

func (m *million) serve() *program {
	upstream := provide(m.T, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnprocessableEntity) })
	config := filepath.Join(m.TempDir(), "config.yaml")
	require.NoError(m, os.WriteFile(config, fmt.Appendf(nil, "admin: {listen: '127.0.0.1:0'}\ndead_letters: {dir: %q, max_bytes: 100GB}\nproviders:\n  - {name: a, kind: generic, listen: '127.0.0.1:0', upstream: %q}\n", m.dir, upstream), 0o600))
	p := &program{million: m, cmd: m.command("serve", "--config", config), log: newLogLines()}
	p.cmd.Stderr = p.log
	m.took("start until ready", readyBar, func() {
		require.NoError(m, p.cmd.Start())
		m.Cleanup(func() { _ = p.cmd.Process.Kill() })
		p.admin = "http://" + p.log.find(m.T, "ready")["admin"].(string)
	})
	p.account = "http://" + p.log.find(m.T, "listening")["listen"].(string)
	p.memory("the proxy when ready")
	return p
}

func (p *program) get(path string) string {
	res, err := http.Get(p.admin + path)
	require.NoError(p, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(p, err)
	require.Equal(p, http.StatusOK, res.StatusCode, string(text))
	return string(text)
}

// counted waits until the gauge of open letters has all of them.
func (m *million) counted(p *program) {
	series := regexp.MustCompile(`(?m)^ocrproxy_dead_letters_open\{.*\} ([0-9.e+]+)$`)
	m.took("until all letters are counted", 0, func() {
		for end := time.Now().Add(15 * time.Minute); ; {
			sum := 0.0
			for _, found := range series.FindAllStringSubmatch(p.get("/metrics"), -1) {
				n, err := strconv.ParseFloat(found[1], 64)
				require.NoError(m, err)
				sum += n
			}
			if int(sum) == m.n {
				return
			}
			require.True(m, time.Now().Before(end), "%.0f of %d letters are counted", sum, m.n)
			time.Sleep(20 * time.Millisecond)
		}
	})
	p.memory("the proxy then")
}

// memory tells the most that the process has used so far.
func (p *program) memory(when string) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	require.NoError(p, err)
	found := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(status)
	require.Len(p, found, 2)
	kilobytes, err := strconv.Atoi(string(found[1]))
	require.NoError(p, err)
	p.Logf("%-40s %8d MB", when, kilobytes>>10)
	p.bounded(int64(kilobytes))
}

func (p *program) stop() {
	p.took("stop", 0, func() {
		require.NoError(p, p.cmd.Process.Signal(os.Interrupt))
		require.NoError(p, p.cmd.Wait())
	})
}
