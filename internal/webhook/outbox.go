// Package webhook tells a receiver about events, as the Standard Webhooks specification has it. An event is written to an outbox on disk
// before [Outbox.Emit] returns, and sent from there by the outbox's own goroutines: whoever has something to tell never waits for the
// receiver, and what was told survives the end of the process, however it ends.
//
// Delivery is at least once: after a crash the last delivery may be repeated, under the same id.
package webhook

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/ocr-proxy/ocr-proxy/internal/retry"
)

// grace is how long deliveries that are due may go on while the outbox is closed.
const grace = 2 * time.Second

// Options tell [Open] where events go.
type Options struct {
	// URL is the receiver's address. Only its scheme and host are ever written down.
	URL *url.URL
	// Key reads the signing key, anew for each attempt so that the key may be changed; nil: nothing is signed.
	Key func() ([]byte, error)
	// Timeout bounds one attempt, the answer included. More than 0.
	Timeout time.Duration
	// MaxBytes bounds what waits on disk, in bytes, for letters and for everything else separately; events beyond are dropped. More than 0.
	MaxBytes int64
	// UserAgent is how the sender introduces itself.
	UserAgent string
	// Transport makes the calls; nil: [NewTransport].
	Transport http.RoundTripper
	// Jitter draws a wait from [0, ceiling]; nil draws uniformly at random.
	Jitter func(ceiling time.Duration) time.Duration
	// Logger is told what needs people; nil: nobody is.
	Logger *zap.Logger
	// Metrics counts deliveries; nil: nobody does.
	Metrics *Metrics
}

// Outbox keeps events until the receiver has them. Its methods may be called by any number of goroutines.
//
// Letters and all other events are two streams: each is delivered in order, one event at a time, and an alert never waits for a thousand letters.
type Outbox struct {
	letters, alerts *queue
	receiver        atomic.Pointer[receiver]
	turning         sync.Mutex // held while the receiver changes, and while one that has gone ends the sending
	policy          retry.Policy
	log             *zap.Logger
	metrics         *Metrics

	sending sync.WaitGroup
	stop    func()        // Ends the senders when what they are doing is done; may be called again.
	stopped chan struct{} // Closed by stop.
	cancel  context.CancelFunc

	complaint complaint
}

// Open makes the outbox in dir ready and begins to send what a former process left in it. The folder must belong to this process alone.
// It fails when the folder cannot be used or the key cannot be read.
func Open(dir string, o Options) (*Outbox, error) {
	b := &Outbox{
		policy: retry.Policy{Base: baseDelay, Cap: capDelay, Jitter: o.Jitter}, // For its waits alone: the bounds are the sender's.
		log:    o.Logger, metrics: o.Metrics, stopped: make(chan struct{}),
	}
	r := &receiver{url: o.URL, key: o.Key, timeout: o.Timeout, agent: o.UserAgent, transport: o.Transport}
	if r.transport == nil {
		r.transport = NewTransport()
	}
	b.receiver.Store(r)
	if b.log == nil {
		b.log = zap.NewNop()
	}
	if b.metrics == nil {
		b.metrics = NewMetrics(nil)
	}
	if o.Key != nil {
		if _, err := o.Key(); err != nil {
			return nil, err
		}
	}
	var err error
	if b.letters, err = openQueue(filepath.Join(dir, "letters"), o.MaxBytes); err != nil {
		return nil, fmt.Errorf("open the outbox: %w", err)
	}
	if b.alerts, err = openQueue(filepath.Join(dir, "alerts"), o.MaxBytes); err != nil {
		return nil, errors.Join(fmt.Errorf("open the outbox: %w", err), b.letters.close())
	}
	var once sync.Once
	b.stop = func() { once.Do(func() { close(b.stopped) }) }
	ctx, cancel := context.WithCancel(context.Background())
	b.cancel = cancel
	b.metrics.watch(b)
	for _, q := range b.queues() {
		s := &sender{outbox: b, queue: q, log: b.log.With(zap.String("stream", filepath.Base(q.dir)))}
		b.sending.Go(func() { s.run(ctx) })
	}
	return b, nil
}

// Redirect sends what is not delivered yet, and all that follows, to another receiver, or to the same one in another way: the address, the key and
// the timeout of the options count. It reports false where the receiver has said that it is gone, so that nothing is sent any more: close the
// outbox and open it again.
func (b *Outbox) Redirect(o Options) bool {
	r := &receiver{url: o.URL, key: o.Key, timeout: o.Timeout, agent: o.UserAgent, transport: b.receiver.Load().transport}
	b.turning.Lock()
	defer b.turning.Unlock()
	b.receiver.Store(r)
	select {
	case <-b.stopped:
		return false
	default:
		return true
	}
}

// end stops the sending for a receiver that has gone; false: there is another by now. First reports whether nobody had noticed.
func (b *Outbox) end(gone *receiver) (ended, first bool) {
	b.turning.Lock()
	defer b.turning.Unlock()
	if b.receiver.Load() != gone {
		return false, false
	}
	b.stop()
	return true, gone.gone.CompareAndSwap(false, true)
}

func (b *Outbox) queues() []*queue { return []*queue{b.letters, b.alerts} }

// Emit writes an event. Kind names what happened, such as "breaker.opened"; data is anything that encoding/json can write. When Emit returns
// without an error, the event outlives this process, even one that is killed, and will be sent.
//
// It waits for a write to the page cache and for nothing else. An error means that the event is lost: the outbox or the disk is full, or the
// outbox closed. It has been counted and logged by then; callers need not.
func (b *Outbox) Emit(kind string, at time.Time, data any) error {
	err := b.emit(kind, at, data)
	if err != nil {
		b.drop(1, fmt.Errorf("%s: %w", kind, err))
	}
	return err
}

func (b *Outbox) emit(kind string, at time.Time, data any) error {
	e, err := newEvent(kind, at, data)
	if err != nil {
		return err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return err
	}
	q := b.alerts
	if strings.HasPrefix(kind, letterKinds) {
		q = b.letters
	}
	return q.append("msg_"+id.String(), time.Now(), e)
}

// Backlog is how many events wait to be delivered.
func (b *Outbox) Backlog() (n uint64) {
	for _, q := range b.queues() {
		n += q.backlog()
	}
	return n
}

// drop counts events that are lost before they could be sent, and says so now and then.
func (b *Outbox) drop(n uint64, reason error) {
	b.metrics.deliveries.WithLabelValues(Dropped).Add(float64(n))
	if n, say := b.complaint.add(n, time.Now()); say {
		b.log.Error("webhook events are dropped", zap.Uint64("events", n), zap.Error(reason))
	}
}

// Close gives deliveries that are due two seconds and ends the sending. The rest stays on disk for the next Open.
func (b *Outbox) Close() error {
	b.stop()
	hurry := time.AfterFunc(grace, b.cancel)
	b.sending.Wait()
	hurry.Stop()
	b.cancel()
	b.metrics.watch(nil)
	if t, ok := b.receiver.Load().transport.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
	return errors.Join(b.letters.close(), b.alerts.close())
}

// complaint keeps a log from being flooded: of a run of losses it says one a minute, with their number.
type complaint struct {
	mu     sync.Mutex
	unsaid uint64
	last   time.Time
}

func (c *complaint) add(n uint64, now time.Time) (sum uint64, say bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unsaid += n
	if !c.last.IsZero() && now.Sub(c.last) < time.Minute {
		return 0, false
	}
	sum, c.unsaid, c.last = c.unsaid, 0, now
	return sum, true
}
