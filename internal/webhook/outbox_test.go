package webhook

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
)

func TestAnEventAsItArrives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := receive(t, nil)
		key := []byte("0123456789abcdef")
		b := openBox(t, t.TempDir(), h, func(o *Options) { o.Key = func() ([]byte, error) { return key, nil } })
		at := time.Date(2026, 11, 30, 12, 0, 0, 123e6, time.FixedZone("", 3600))
		require.NoError(t, b.Emit(LetterCreated, at, map[string]any{"b": "<é>\n", "a": 1}))
		settle(0)
		got := h.deliveries()
		require.Len(t, got, 1)
		require.Equal(t, `{"type":"dead_letter.created","timestamp":"2026-11-30T11:00:00.123Z","sequence":1,"data":{"a":1,"b":"<é>\n"}}`, string(got[0].body))
		require.Equal(t, "/hunter2/in?token=hunter2", got[0].path)
		require.Equal(t, "application/json", got[0].header.Get("Content-Type"))
		require.Equal(t, "ocr-proxy/test", got[0].header.Get("User-Agent"))
		user, password, _ := (&http.Request{Header: got[0].header}).BasicAuth()
		require.Equal(t, "user:hunter2", user+":"+password)
		verifier, err := standardwebhooks.NewWebhookRaw(key)
		require.NoError(t, err)
		require.NoError(t, verifier.Verify(got[0].body, got[0].header))
		require.Error(t, verifier.Verify(append(got[0].body, ' '), got[0].header))
		require.Equal(t, 1, b.counted(Delivered))
		require.Zero(t, b.Backlog())
	})
}

func TestWithoutAKeyNothingIsSigned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := receive(t, nil)
		openBox(t, t.TempDir(), h, nil).emit(t, LetterCreated, 1)
		settle(0)
		require.NotContains(t, h.deliveries()[0].header, "Webhook-Signature")
	})
}

func TestWhatAnAnswerMeans(t *testing.T) {
	for status, want := range map[int]struct {
		posts            int
		delivered, given int
	}{
		200: {1, 1, 0}, 204: {1, 1, 0}, 299: {1, 1, 0},
		301: {1, 0, 1}, 302: {1, 0, 1}, 304: {1, 0, 1}, 307: {1, 0, 1}, 308: {1, 0, 1},
		400: {1, 0, 1}, 401: {1, 0, 1}, 404: {1, 0, 1}, 413: {1, 0, 1}, 422: {1, 0, 1},
		408: {2, 1, 0}, 429: {2, 1, 0}, 500: {2, 1, 0}, 502: {2, 1, 0}, 503: {2, 1, 0}, 599: {2, 1, 0},
		410: {1, 0, 0},
	} {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := receive(t, func(n int, w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Location", "http://elsewhere.example/")
					if n == 1 {
						w.WriteHeader(status)
					}
				})
				b := openBox(t, t.TempDir(), h, nil)
				b.emit(t, LetterCreated, 1)
				settle(time.Hour)
				got := h.deliveries()
				require.Len(t, got, want.posts)
				require.Equal(t, want.delivered, b.counted(Delivered))
				require.Equal(t, want.given, b.counted(Failed))
				require.Equal(t, got[0].id(), got[len(got)-1].id())
				require.Equal(t, got[0].body, got[len(got)-1].body)
				require.LessOrEqual(t, h.network.Dials(), 1, "nobody else is called")
			})
		})
	}
}

func TestWaitsGrowAndHintsAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := receive(t, func(n int, w http.ResponseWriter, _ *http.Request) {
			if n == 3 {
				w.Header().Set("Retry-After", "20")
			}
			if n < 5 {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		})
		b := openBox(t, t.TempDir(), h, func(o *Options) { o.Key = func() ([]byte, error) { return []byte("k"), nil } })
		b.emit(t, LetterCreated, 1)
		settle(time.Hour)
		var after []string
		var signatures []string
		for _, d := range h.deliveries() {
			after = append(after, d.after.String())
			signatures = append(signatures, d.header.Get("Webhook-Signature"))
			require.Equal(t, strconv.FormatInt(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Add(d.after).Unix(), 10), d.header.Get("Webhook-Timestamp"), "the time of the attempt, so that the receiver may refuse old ones")
		}
		require.Equal(t, []string{"0s", "1s", "3s", "24s", "32s"}, after, "1 s, 2 s, the hint of 20 s and a second of jitter, 8 s")
		require.NotEqual(t, signatures[0], signatures[1])
		require.Equal(t, 1, b.counted(Delivered))
		require.Equal(t, 1, b.logs.FilterMessage("the webhook's receiver takes events again").Len())
	})
}

func TestEventsArriveInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := receive(t, statuses(500, 500, 200))
		b := openBox(t, t.TempDir(), h, nil)
		for i := range 20 {
			b.emit(t, LetterCreated, i)
		}
		settle(time.Minute)
		got := h.deliveries()[2:]
		require.Len(t, got, 20)
		for i, d := range got {
			e := d.event(t)
			require.Equal(t, strconv.Itoa(i), string(e.Data))
			require.EqualValues(t, i+1, e.Sequence)
		}
		require.LessOrEqual(t, h.network.Dials(), 1, "one connection for all")
	})
}

func TestAnAlertDoesNotWaitForLetters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := receive(t, func(_ int, w http.ResponseWriter, r *http.Request) {
			if r.ContentLength > 1000 {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		})
		b := openBox(t, t.TempDir(), h, nil)
		b.emit(t, LetterCreated, strings.Repeat("x", 1000))
		b.emit(t, BreakerOpened, "down")
		settle(0)
		require.Equal(t, 1, b.counted(Delivered))
		require.EqualValues(t, 1, b.Backlog())
	})
}

func TestAnEventIsGivenUpAfterItsAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := receive(t, func(_ int, w http.ResponseWriter, r *http.Request) {
			if r.ContentLength > 1000 {
				w.WriteHeader(http.StatusInternalServerError)
			}
		})
		b := openBox(t, t.TempDir(), h, nil)
		b.emit(t, LetterCreated, strings.Repeat("poison", 1000))
		b.emit(t, LetterCreated, "good")
		settle(24 * time.Hour)
		require.Len(t, h.deliveries(), maxAttempts+1)
		require.Equal(t, 1, b.counted(Failed))
		require.Equal(t, 1, b.counted(Delivered))
		require.Equal(t, 1, b.logs.FilterMessage("webhook event given up").Len())
	})
}

func TestADeadReceiverIsNotAskedMoreOftenForMoreEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := receive(t, statuses(http.StatusBadGateway))
		dir := t.TempDir()
		b := openBox(t, dir, h, nil)
		for i := range 500 {
			b.emit(t, LetterCreated, i)
		}
		settle(maxAge)
		before := len(h.deliveries())
		require.Less(t, before, 72*7, "one attempt in ten minutes, however many events wait")
		failed := b.counted(Failed)
		settle(24 * time.Hour)
		require.InDelta(t, 24*6, len(h.deliveries())-before, 5)
		require.InDelta(t, 24*6, b.counted(Failed)-failed, 5, "what is too old gets one attempt each")
	})
}

func TestGoneStopsUntilTheNextStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := receive(t, statuses(http.StatusGone, http.StatusOK))
		dir := t.TempDir()
		b := openBox(t, dir, h, nil)
		b.emit(t, LetterCreated, "first")
		settle(0)
		b.emit(t, LetterCreated, "second")
		b.emit(t, BreakerOpened, "alert")
		settle(48 * time.Hour)
		require.Len(t, h.deliveries(), 1)
		require.EqualValues(t, 3, b.Backlog(), "nothing is thrown away")
		require.NoError(t, b.Close())
		b = openBox(t, dir, h, nil)
		settle(0)
		require.Len(t, h.deliveries(), 4)
		require.Equal(t, 3, b.counted(Delivered))
	})
}

func TestGoneStopsTheOtherStreamToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := receive(t, func(_ int, w http.ResponseWriter, r *http.Request) {
			if r.ContentLength > 1000 {
				w.WriteHeader(http.StatusGone)
				return
			}
			time.Sleep(time.Second)
		})
		b := openBox(t, t.TempDir(), h, nil)
		for i := range 3 {
			b.emit(t, BreakerOpened, i)
		}
		b.emit(t, LetterCreated, strings.Repeat("x", 1000))
		settle(time.Minute)
		require.Len(t, h.deliveries(), 2, "the alert that was under way, and the letter")
		require.EqualValues(t, 3, b.Backlog())
	})
}

func TestAHangingReceiverHoldsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := receive(t, func(_ int, _ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		b := openBox(t, t.TempDir(), h, func(o *Options) { o.Timeout = time.Second })
		start := time.Now()
		var emitting sync.WaitGroup
		for i := range 300 {
			emitting.Go(func() { b.emit(t, LetterCreated, i) })
		}
		emitting.Wait()
		require.Zero(t, time.Since(start))
		settle(time.Minute)
		require.EqualValues(t, 300, b.Backlog())
		require.Less(t, len(h.deliveries()), 10)
		require.NotEmpty(t, b.logs.FilterField(zap.String("reason", "no answer within 1s")).All())
		start = time.Now()
		require.NoError(t, b.Close())
		require.LessOrEqual(t, time.Since(start), grace)
	})
}

func TestAnAnswerWithoutEndIsNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := receive(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
			for chunk := make([]byte, 32<<10); ; {
				if _, err := w.Write(chunk); err != nil {
					return
				}
			}
		})
		b := openBox(t, t.TempDir(), h, nil)
		b.emit(t, LetterCreated, 1)
		b.emit(t, LetterCreated, 2)
		settle(time.Second)
		require.Equal(t, 2, b.counted(Delivered))
	})
}

func TestCloseSendsWhatIsDueAndKeepsTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := receive(t, func(int, http.ResponseWriter, *http.Request) { time.Sleep(900 * time.Millisecond) })
		dir := t.TempDir()
		b := openBox(t, dir, h, nil)
		for i := range 5 {
			b.emit(t, LetterCreated, i)
		}
		start := time.Now()
		require.NoError(t, b.Close())
		require.Equal(t, grace, time.Since(start))
		require.Equal(t, 2, b.counted(Delivered), "those that fit into the two seconds")
		require.ErrorIs(t, b.Emit(LetterCreated, time.Now(), 6), fs.ErrClosed)

		b = openBox(t, dir, h, nil)
		settle(time.Minute)
		require.Equal(t, 3, b.counted(Delivered))
		got := h.deliveries()
		require.Equal(t, got[2].id(), got[3].id(), "the one that was broken off comes again under its id")
	})
}

func TestALateKeyIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := receive(t, nil)
		var missing atomic.Bool
		b := openBox(t, t.TempDir(), h, func(o *Options) {
			o.Key = func() ([]byte, error) {
				if missing.Load() {
					return nil, errors.New("cannot read the file")
				}
				return []byte("k"), nil
			}
		})
		missing.Store(true)
		b.emit(t, LetterCreated, 1)
		settle(0)
		require.Empty(t, h.deliveries(), "nothing goes out unsigned")
		missing.Store(false)
		settle(time.Second)
		require.NotEmpty(t, h.deliveries()[0].header.Get("Webhook-Signature"))
	})
}

func TestOpenSaysWhatIsWrong(t *testing.T) {
	o, _ := optionsTo(t, &hook{})
	bad := errors.New("no key")
	o.Key = func() ([]byte, error) { return nil, bad }
	_, err := Open(t.TempDir(), o)
	require.ErrorIs(t, err, bad)
	o.Key = nil
	file := filepath.Join(t.TempDir(), "outbox")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err = Open(file, o)
	require.Error(t, err)
}

func TestLossesAreCountedAndNotRepeatedInTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := receive(t, statuses(http.StatusBadGateway))
		b := openBox(t, t.TempDir(), h, func(o *Options) { o.MaxBytes = 10 << 10 })
		for range 100 {
			_ = b.Emit(LetterCreated, time.Now(), strings.Repeat("x", 1000))
		}
		kept := b.Backlog()
		require.Greater(t, kept, uint64(5))
		require.Less(t, kept, uint64(10))
		require.EqualValues(t, 100-kept, b.counted(Dropped))
		require.Equal(t, 1, b.logs.FilterMessage("webhook events are dropped").Len())
		settle(time.Minute)
		require.ErrorIs(t, b.Emit(LetterCreated, time.Now(), strings.Repeat("x", 1000)), errFull)
		said := b.logs.FilterMessage("webhook events are dropped").All()
		require.Len(t, said, 2)
		require.EqualValues(t, 100-kept, said[1].ContextMap()["events"])
		require.NoError(t, b.Emit(BreakerOpened, time.Now(), 1), "alerts have room of their own")
	})
}

func TestWhatCannotBeAnEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := receive(t, nil)
		b := openBox(t, t.TempDir(), h, nil)
		require.Error(t, b.Emit(LetterCreated, time.Now(), func() {}))
		require.Error(t, b.Emit(LetterCreated, time.Now(), strings.Repeat("x", maxEvent)))
		require.Equal(t, 2, b.counted(Dropped))
		b.emit(t, LetterCreated, strings.Repeat("x", maxEvent-2))
		settle(0)
		require.Len(t, h.deliveries(), 1)
	})
}

func TestCauseTellsNoSecret(t *testing.T) {
	require.Equal(t, "broken off", cause(context.Canceled, time.Second))
	require.Equal(t, "no HTTP answer", cause(errors.New(`malformed HTTP response "hunter2"`), time.Second))
}
