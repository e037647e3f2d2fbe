package webhook

import (
	"bufio"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// childFolder is the variable that makes the test's own binary a process that fills the outbox in that folder until it is killed.
const childFolder = "OCR_PROXY_TEST_OUTBOX"

// emitUntilKilled says each event once Emit has returned.
func emitUntilKilled(dir string) {
	b, err := Open(dir, Options{URL: &url.URL{Scheme: "http", Host: "127.0.0.1:1"}, Timeout: time.Second, MaxBytes: 1 << 30})
	if err != nil {
		panic(err)
	}
	var workers sync.WaitGroup
	for w := range 4 {
		workers.Go(func() {
			for i := range 1_000_000 {
				name := fmt.Sprintf("%d-%d", w, i)
				if err := b.Emit(LetterCreated, time.Now(), name); err != nil {
					panic(err)
				}
				_, _ = os.Stdout.WriteString(name + "\n")
			}
		})
	}
	workers.Wait()
}

// What Emit answered for is delivered by the next process, whenever the one before is killed.
func TestAKilledProcessLosesNothing(t *testing.T) {
	dir := t.TempDir()
	told := map[string]bool{}
	for round := range 3 {
		child := exec.CommandContext(t.Context(), os.Args[0])
		child.Env = append(os.Environ(), childFolder+"="+dir)
		child.Stderr = os.Stderr
		out, err := child.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, child.Start())
		lines := bufio.NewScanner(out)
		for n := 0; lines.Scan(); n++ {
			told[strconv.Itoa(round)+" "+lines.Text()] = true
			if n == 200*(round+1) {
				require.NoError(t, child.Process.Kill())
			}
		}
		require.Error(t, child.Wait())
	}
	synctest.Test(t, func(t *testing.T) {
		h := receive(t, nil)
		b := openBox(t, dir, h, nil)
		settle(time.Minute)
		require.Zero(t, b.Backlog())
		require.Zero(t, b.counted(Dropped))
		arrived, ids := map[string]int{}, map[string]bool{}
		for i, d := range h.deliveries() {
			e := d.event(t)
			require.EqualValues(t, i+1, e.Sequence)
			arrived[strings.Trim(string(e.Data), `"`)]++
			ids[d.id()] = true
		}
		require.Len(t, ids, len(h.deliveries()))
		want := map[string]int{}
		for name := range told {
			_, name, _ := strings.Cut(name, " ")
			want[name]++
		}
		require.Greater(t, len(want), 600/2)
		for name, n := range want {
			require.GreaterOrEqual(t, arrived[name], n, name)
		}
	})
}
