package share

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"
)

// TestMain runs far more tests at one time than there are processors: they wait for leases, pauses and rates, and compute little.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "32"); err != nil {
		panic(err)
	}
	quiet() // before any client is made, also one of the tests' own
	goleak.VerifyTestMain(m)
}

// long is more than anything here takes; it is waited for only where a test fails.
const long = 20 * time.Second

// eventually waits for something that other goroutines bring about.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(long); !is(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			require.FailNow(t, "has not come about: "+what)
		}
	}
}

// join opens a store as another process would.
func join(t *testing.T, address string) *Store {
	t.Helper()
	return joinLogging(t, address, zap.NewNop())
}

func joinLogging(t *testing.T, address string, log *zap.Logger) *Store {
	t.Helper()
	s, err := Open(Options{Address: address, Log: log, Registerer: prometheus.NewRegistry()})
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

// connected joins and waits until the server has been seen.
func connected(t *testing.T, address string) *Store {
	t.Helper()
	s := join(t, address)
	eventually(t, "the connection", s.Connected)
	return s
}

func account(s *Store) *Account { return s.Account("invoices", "generic", "ocr.example") }

// realServer is a real Redis server, on a port of its own and without a file.
type realServer struct {
	port    int
	process *exec.Cmd
}

// startServer starts one; the test is skipped where there is none.
func startServer(t *testing.T) *realServer {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("redis-server is not installed: nothing is tested against a real server")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	port := l.Addr().(*net.TCPAddr).Port
	require.NoError(t, l.Close())
	s := &realServer{port: port}
	s.start(t)
	t.Cleanup(func() { s.kill() })
	return s
}

func (s *realServer) address() string { return "redis://127.0.0.1:" + strconv.Itoa(s.port) }

func (s *realServer) start(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	log, err := os.Create(filepath.Join(dir, "log"))
	require.NoError(t, err)
	defer log.Close()
	s.process = exec.Command("redis-server", "--port", strconv.Itoa(s.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", dir)
	s.process.Stdout, s.process.Stderr = log, log
	require.NoError(t, s.process.Start())
	client := redis.NewClient(&redis.Options{Addr: fmt.Sprintf("127.0.0.1:%d", s.port), DisableIdentity: true, MaxRetries: -1})
	defer client.Close()
	eventually(t, "the server's answer", func() bool { return client.Ping(context.Background()).Err() == nil })
}

func (s *realServer) kill() {
	if s.process != nil {
		_ = s.process.Process.Kill()
		_ = s.process.Wait()
		s.process = nil
	}
}
