package trace

import (
	"context"
	"sync"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.uber.org/zap"

	"github.com/ocr-proxy/ocr-proxy/internal/classify"
	"github.com/ocr-proxy/ocr-proxy/internal/scrub"
)

const (
	// maxWaiting bounds the spans that wait to be sent, a few MB of memory.
	maxWaiting = 8192
	// maxBatch bounds the spans of one call to the collector.
	maxBatch = 512
	// batchTime is how long a span waits for others to go with it.
	batchTime = time.Second
	// exportTime bounds one batch, with all its repetitions. Meanwhile the queue takes what comes.
	exportTime = 15 * time.Second
	// maxError bounds what is logged of a collector's answer, in bytes.
	maxError = 200
)

// queue takes spans that have ended and sends them in batches. It stands in for the library's own, which tells nobody what it drops, and says
// of every batch that it failed, to a handler that is the same for the whole process.
type queue struct {
	exporter sdk.SpanExporter
	metrics  *Metrics
	log      *zap.Logger
	secrets  *scrub.Values
	spans    chan sdk.ReadOnlySpan
	ending   context.Context //nolint:containedctx // the life of the queue
	end      context.CancelFunc
	stop     chan struct{} // closed when the rest is to be sent
	stopOnce sync.Once
	done     chan struct{}
	down     bool // the collector did not take the last batch
	lost     int  // spans, since it was last there
}

func newQueue(exporter sdk.SpanExporter, metrics *Metrics, log *zap.Logger, secrets *scrub.Values) *queue {
	q := &queue{
		exporter: exporter, metrics: metrics, log: log, secrets: secrets,
		spans: make(chan sdk.ReadOnlySpan, maxWaiting), stop: make(chan struct{}), done: make(chan struct{}),
	}
	q.ending, q.end = context.WithCancel(context.Background())
	go q.run()
	return q
}

// OnStart implements sdk.SpanProcessor.
func (q *queue) OnStart(context.Context, sdk.ReadWriteSpan) {}

// OnEnd implements sdk.SpanProcessor. It never waits.
func (q *queue) OnEnd(s sdk.ReadOnlySpan) {
	select {
	case q.spans <- s:
	default:
		q.metrics.add(Dropped, 1)
	}
}

// ForceFlush implements sdk.SpanProcessor; nobody asks for it.
func (q *queue) ForceFlush(context.Context) error { return nil }

// Shutdown implements sdk.SpanProcessor: it sends the rest while the context lasts.
func (q *queue) Shutdown(ctx context.Context) error {
	q.stopOnce.Do(func() { close(q.stop) })
	select {
	case <-q.done:
	case <-ctx.Done():
	}
	q.end()
	<-q.done
	return q.exporter.Shutdown(ctx)
}

func (q *queue) run() {
	defer close(q.done)
	var due <-chan time.Time // nil while nothing waits
	batch := make([]sdk.ReadOnlySpan, 0, maxBatch)
	flush := func() {
		q.send(batch)
		clear(batch)
		batch, due = batch[:0], nil
	}
	for {
		select {
		case s := <-q.spans:
			batch = append(batch, s)
			switch len(batch) {
			case 1:
				due = time.After(batchTime)
			case maxBatch:
				flush()
			}
		case <-due:
			flush()
		case <-q.stop:
			for len(q.spans) > 0 {
				if batch = append(batch, <-q.spans); len(batch) == maxBatch {
					flush()
				}
			}
			flush()
			return
		}
	}
}

// send hands a batch to the collector. A collector that is away is told of once, and once that it is back.
func (q *queue) send(batch []sdk.ReadOnlySpan) {
	if len(batch) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(q.ending, exportTime)
	defer cancel()
	err := q.exporter.ExportSpans(ctx, batch)
	if err == nil {
		q.metrics.add(Sent, len(batch))
		if q.down {
			q.log.Info("traces are sent again", zap.Int("spans_lost", q.lost))
		}
		q.down, q.lost = false, 0
		return
	}
	q.metrics.add(Failed, len(batch))
	q.lost += len(batch)
	if !q.down {
		q.down = true
		q.log.Warn("traces cannot be sent, and are lost until they can; requests do not wait for that",
			zap.String("error", classify.Shorten(q.secrets.Text(err.Error()), maxError)))
	}
}
