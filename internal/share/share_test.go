package share

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/ocr-proxy/ocr-proxy/internal/pace"
)

func add(n int) func(int, time.Time) (int, bool) {
	return func(v int, _ time.Time) (int, bool) { return v + n, n != 0 }
}

// servers runs a test against the imitation, which is everywhere, and against the real server.
func servers(t *testing.T, test func(t *testing.T, address string)) {
	t.Run("miniredis", func(t *testing.T) {
		t.Parallel()
		test(t, "redis://"+miniredis.RunT(t).Addr())
	})
	t.Run("redis-server", func(t *testing.T) {
		t.Parallel()
		test(t, startServer(t).address())
	})
}

func TestNoChangeIsLost(t *testing.T) {
	t.Parallel()
	servers(t, func(t *testing.T, address string) {
		const processes, changes = 5, 40
		var all sync.WaitGroup
		cells := make([]*Cell[int], processes)
		for i := range cells {
			cells[i] = NewCell[int](account(connected(t, address)), "sum", time.Minute)
		}
		for _, c := range cells {
			all.Go(func() {
				for done := 0; done < changes; {
					_, _, err := c.Change(context.Background(), add(1))
					if err == nil {
						done++
						continue
					}
					if !assertBusy(t, err) {
						return
					}
				}
			})
		}
		all.Wait()
		for _, c := range cells {
			eventually(t, "the sum in every process", func() bool { v, known := c.Get(); return known && v == processes*changes })
		}
	})
}

// assertBusy allows what a crowd may meet: that others were always faster.
func assertBusy(t *testing.T, err error) bool {
	t.Helper()
	if strings.Contains(err.Error(), errConflict.Error()) {
		return true
	}
	t.Error(err)
	return false
}

func TestVersionsNeverRepeat(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	s := connected(t, "redis://"+server.Addr())
	c := NewCell[int](account(s), "x", time.Minute)
	_, _, err := c.Change(t.Context(), add(1))
	require.NoError(t, err)
	first := c.version
	server.FlushAll() // as if it had expired
	eventually(t, "the loss", func() bool { v, _ := c.Get(); return v == 0 })
	_, _, err = c.Change(t.Context(), add(1))
	require.NoError(t, err)
	require.Greater(t, c.version, first)
	require.Len(t, c.version, len(first))
}

func TestWhatMayStayAsItIsCostsNoQuestion(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	s := connected(t, "redis://"+server.Addr())
	c := NewCell[int](account(s), "x", time.Minute)
	_, _, err := c.Change(t.Context(), add(7))
	require.NoError(t, err)
	server.Close()
	v, _, err := c.Change(t.Context(), add(0))
	require.NoError(t, err)
	require.Equal(t, 7, v)
}

func TestValuesExpireAndAreBounded(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	s := connected(t, "redis://"+server.Addr())
	c := NewCell[string](account(s), "x", time.Minute)
	_, _, err := c.Change(t.Context(), func(string, time.Time) (string, bool) { return strings.Repeat("x", largestValue), true })
	require.ErrorIs(t, err, errTooLarge)
	require.False(t, server.Exists(c.key))
	_, _, err = c.Change(t.Context(), func(string, time.Time) (string, bool) { return "small", true })
	require.NoError(t, err)
	for _, key := range server.Keys() {
		require.True(t, strings.HasPrefix(key, "ocrproxy:1:invoices-"), key)
		require.Positive(t, server.TTL(key), key)
	}
}

// What others have stored in the way of a value is replaced, not believed.
func TestForeignValues(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"x", "17", "17 {", `17 {"a":true}`, " 5", "17 " + strings.Repeat(" ", largestValue) + "5"} {
		server := miniredis.RunT(t)
		s := connected(t, "redis://"+server.Addr())
		c := NewCell[int](account(s), "x", time.Minute)
		require.NoError(t, server.Set(c.key, text))
		v, _, err := c.Change(t.Context(), add(1))
		require.NoError(t, err, text)
		require.Equal(t, 1, v, text)
		stored, err := server.Get(c.key)
		require.NoError(t, err)
		require.True(t, strings.HasSuffix(stored, " 1"), stored)
	}
}

// Keys in whose place others have put something else cost nobody the connection.
func TestKeysOfAnotherType(t *testing.T) {
	t.Parallel()
	servers(t, func(t *testing.T, address string) {
		s := join(t, address)
		a := account(s)
		c := NewCell[int](a, "x", time.Minute)
		p := a.Places(func() {}, func() []pace.Job { return []pace.Job{{ID: "1", Ends: time.Now().Add(time.Hour)}} })
		for range 2 {
			eventually(t, "the connection", s.Connected)
			for _, key := range []string{c.key, a.members(), p.key, p.key + ":memory"} {
				_, err := s.client.TxPipelined(t.Context(), func(pipe redis.Pipeliner) error {
					pipe.Del(t.Context(), key)
					pipe.LPush(t.Context(), key, "x")
					return nil
				})
				require.NoError(t, err)
			}
			eventually(t, "a change", func() bool {
				_, _, err := c.Change(t.Context(), add(1))
				return err == nil
			})
			eventually(t, "the processes", func() bool { return s.client.ZCard(t.Context(), a.members()).Val() == 1 })
			eventually(t, "the jobs", func() bool { return s.client.ZCard(t.Context(), p.key).Val() == 1 })
		}
	})
}

// A server that answers with more than it was asked for, or less, is away.
func TestAServerThatAnswersAnything(t *testing.T) {
	t.Parallel()
	for _, values := range []string{"*3\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n", "*0\r\n", "+OK\r\n", "$-1\r\n", "-MOVED 1 h:1\r\n", "HTTP/1.1 400 Bad Request\r\n\r\n"} {
		s := join(t, "redis://"+answering(t, "*2\r\n$1\r\n1\r\n$1\r\n2\r\n"+values))
		a := account(s)
		NewCell[int](a, "x", time.Minute)
		eventually(t, "a failure", func() bool { return testutil.ToFloat64(s.health.errors) > 1 })
		require.False(t, s.Connected(), values)
		require.Equal(t, 1, a.Peers())
	}
}

// answering is the address of a server that says the same whenever it is asked for the cells.
func answering(t *testing.T, answer string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var conns sync.WaitGroup
	conns.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conns.Go(func() {
				defer conn.Close()
				question := make([]byte, 4<<10)
				for {
					n, err := conn.Read(question)
					if err != nil {
						return
					}
					said := answer
					if !bytes.Contains(bytes.ToLower(question[:n]), []byte("mget")) {
						said = "-ERR unknown command\r\n"
					}
					if _, err := io.WriteString(conn, said); err != nil {
						return
					}
				}
			})
		}
	})
	t.Cleanup(func() { _ = l.Close(); conns.Wait() })
	return l.Addr().String()
}

// Processes that have gone are not counted for as long as the server's clock was put back.
func TestPeersOfAClockThatIsPutBack(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	server.SetTime(time.Now().Add(time.Hour))
	first, second := join(t, "redis://"+server.Addr()), join(t, "redis://"+server.Addr())
	mine := account(first)
	account(second)
	eventually(t, "two", func() bool { return mine.Peers() == 2 })
	second.end() // as if it had been killed
	server.SetTime(time.Now())
	eventually(t, "one", func() bool { return mine.Peers() == 1 })
}

func TestTheSameAccount(t *testing.T) {
	t.Parallel()
	s := join(t, "redis://"+miniredis.RunT(t).Addr())
	key := s.Account("a", "textract", "x.example").key
	require.Equal(t, key, s.Account("a", "textract", "X.Example").key)
	for _, other := range []*Account{s.Account("b", "textract", "x.example"), s.Account("a", "azure", "x.example"), s.Account("a", "textract", "y.example")} {
		require.NotEqual(t, key, other.key)
	}
}

func TestPeers(t *testing.T) {
	t.Parallel()
	servers(t, func(t *testing.T, address string) {
		first := join(t, address)
		mine := account(first)
		require.Equal(t, 1, mine.Peers(), "before anybody was asked")
		second, third := join(t, address), join(t, address)
		account(second)
		account(third)
		eventually(t, "three", func() bool { return mine.Peers() == 3 })
		third.Close()
		eventually(t, "two, since one has left", func() bool { return mine.Peers() == 2 })
		second.end() // as if it had been killed
		eventually(t, "one, since the other is silent", func() bool { return mine.Peers() == 1 })
		require.InDelta(t, 1, testutil.ToFloat64(first.peers.WithLabelValues("invoices")), 0)
	})
}

func TestTheServersTime(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	server.SetTime(time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC))
	s := connected(t, "redis://"+server.Addr())
	now, ok := s.Now()
	require.True(t, ok)
	require.WithinDuration(t, time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC), now, long)
	c := NewCell[time.Time](account(s), "x", time.Minute)
	after, _, err := c.Change(t.Context(), func(_, now time.Time) (time.Time, bool) { return now, true })
	require.NoError(t, err)
	require.WithinDuration(t, now, after, long)
}

// A process that starts while the server is away starts all the same, and joins by itself.
func TestStartingAlone(t *testing.T) {
	t.Parallel()
	server := miniredis.NewMiniRedis()
	require.NoError(t, server.Start())
	address := server.Addr()
	server.Close()
	core, lines := observer.New(zapcore.DebugLevel)
	s := joinLogging(t, "redis://"+address, zap.New(core))
	c := NewCell[int](account(s), "x", time.Minute)
	eventually(t, "a word about it", func() bool { return lines.Len() == 1 })
	_, _, err := c.Change(t.Context(), add(1))
	require.ErrorIs(t, err, ErrAway)
	require.False(t, s.Connected())

	require.NoError(t, server.StartAddr(address))
	defer server.Close()
	eventually(t, "the connection", s.Connected)
	v, _, err := c.Change(t.Context(), add(1))
	require.NoError(t, err)
	require.Equal(t, 1, v)
	told := lines.AllUntimed()
	require.Len(t, told, 2)
	require.Contains(t, told[0].Message, "going on alone")
	require.Contains(t, told[1].Message, "connected")
}

// Killing the server costs nobody more than a moment, is told once, and is over by itself.
func TestTheServerIsKilledAndComesBack(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	core, lines := observer.New(zapcore.DebugLevel)
	s := joinLogging(t, server.address(), zap.New(core))
	c := NewCell[int](account(s), "x", time.Minute)
	eventually(t, "the connection", s.Connected)
	for range 2 {
		_, _, err := c.Change(t.Context(), add(1))
		require.NoError(t, err)
		server.kill()
		start := time.Now()
		for s.Connected() {
			_, _, err = c.Change(t.Context(), add(1))
			require.ErrorIs(t, err, ErrAway)
			time.Sleep(time.Millisecond)
		}
		require.Less(t, time.Since(start), 10*time.Second)
		require.Zero(t, testutil.ToFloat64(s.health.gauge))
		require.Positive(t, testutil.ToFloat64(s.health.errors))
		server.start(t)
		eventually(t, "the connection", s.Connected)
		require.InDelta(t, 1, testutil.ToFloat64(s.health.gauge), 0)
		eventually(t, "an empty value", func() bool { v, _ := c.Get(); return v == 0 })
	}
	require.Equal(t, 5, lines.Len(), "%v", lines.All())
}

// A server that accepts connections and never answers keeps a change for no longer than its patience, and the next ones not at all.
func TestAServerThatHangs(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	s := connected(t, server.address())
	c := NewCell[int](account(s), "x", time.Minute)
	hang(t, server)
	start := time.Now()
	_, _, err := c.Change(t.Context(), add(1))
	require.ErrorIs(t, err, ErrAway)
	require.Less(t, time.Since(start), 10*patience)
	start = time.Now()
	for range 100 {
		_, _, err = c.Change(t.Context(), add(1))
		require.ErrorIs(t, err, ErrAway)
	}
	require.Less(t, time.Since(start), 10*patience)
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"redis://h": "h:6379/0", "redis://h:1/": "h:1/0", "redis://u:p@h/3": "h:6379/3 u p", "rediss://:p@h:1": "h:1/0  p tls", "redis://[::1]:7": "[::1]:7/0",
	} {
		o, err := connection(address, nil)
		require.NoError(t, err, address)
		got := o.Addr + "/" + string(rune('0'+o.DB))
		if o.Username+o.Password != "" {
			got += " " + o.Username + " " + o.Password
		}
		if o.TLSConfig != nil {
			got += " tls"
			require.Equal(t, "h", o.TLSConfig.ServerName)
			require.False(t, o.TLSConfig.InsecureSkipVerify)
		}
		require.Equal(t, want, got)
	}
	for _, address := range []string{"", "h:1", "http://h", "redis://", "redis://:PLANTED@", "redis://u:PLANTED@h:port", "redis://u:PLANTED@h/x", "redis://u:PLANTED@h/-1", "redis://u:PLANTED@h?x=PLANTED", "redis://u:PLANTED%zz@h"} {
		_, err := Open(Options{Address: address, Log: zap.NewNop(), Registerer: prometheus.NewRegistry()})
		require.Error(t, err, address)
		require.NotContains(t, err.Error(), "PLANTED")
	}
}

func TestPasswords(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	server.RequireUserAuth("proxy", "PLANTED-right")
	s := join(t, "redis://proxy:PLANTED-right@"+server.Addr())
	eventually(t, "the connection", s.Connected)

	core, lines := observer.New(zapcore.DebugLevel)
	joinLogging(t, "redis://PLANTED-user:PLANTED-wrong@"+server.Addr(), zap.New(core))
	eventually(t, "a word about it", func() bool { return lines.Len() == 1 })
	text, err := json.Marshal(lines.All()[0].ContextMap())
	require.NoError(t, err)
	require.Contains(t, string(text), "WRONGPASS")
	require.NotContains(t, string(text), "PLANTED")
}
