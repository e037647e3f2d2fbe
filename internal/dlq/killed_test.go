package dlq

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// toBeKilled makes this binary, as a process of its own, write letters into its folder until it is killed.
const toBeKilled = "OCR_PROXY_TEST_TO_BE_KILLED"

// writeUntilKilled tells each letter on standard output as soon as it is acknowledged, while the index is compacted all the time.
func writeUntilKilled() {
	s, err := Open(".", Options{})
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := 0; ; i++ {
				// Each document fails twice, and every fifth one is given up.
				id, err := s.Put(context.Background(), letter(fmt.Sprint(w, " ", i/2)), nil)
				if err == nil {
					fmt.Println("kept", id)
				}
				if i%10 == 9 {
					fmt.Println("gone", id)
					if c, err := s.Claim(id); err == nil {
						_ = c.Discard(Resolution{})
					}
				}
			}
		})
	}
	wg.Go(func() {
		for {
			_ = s.index.compact(0, true)
		}
	})
	wg.Wait()
}

func TestKilledAtAnyMomentNoLetterIsLostFromSight(t *testing.T) {
	dir := t.TempDir()
	kept := map[string]bool{}
	for round := range 4 {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Dir, cmd.Env = dir, append(os.Environ(), toBeKilled+"=1")
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		enough := 60 + 37*round
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			word, id, _ := strings.Cut(lines.Text(), " ")
			require.Contains(t, []string{"kept", "gone"}, word, lines.Text())
			kept[id] = word == "kept" && !isGone(kept, id)
			if enough--; enough == 0 {
				require.NoError(t, cmd.Process.Kill())
			}
		}
		require.Error(t, cmd.Wait(), "it was killed")

		s, err := Open(dir, Options{})
		require.NoError(t, err)
		settle(t, s)
		requireTruth(t, dir, s)
		all := map[string]bool{}
		for _, l := range listed(t, dir, Filter{}) {
			all[l.ID] = true
		}
		for id, open := range kept {
			require.True(t, !open || all[id], "%s of round %s", id, strconv.Itoa(round))
		}
		require.NoError(t, s.Close())
	}
}

// isGone tells whether somebody has said that the letter is given up, or is about to be.
func isGone(kept map[string]bool, id string) bool {
	open, known := kept[id]
	return known && !open
}
