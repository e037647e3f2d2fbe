package main

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/ocr-proxy/ocr-proxy/config"
	"github.com/ocr-proxy/ocr-proxy/internal/trace"
)

const (
	// leastFlush is how long the last spans may take to be sent when there is no time left to drain.
	leastFlush = time.Second
	// mostFlush is how long they may take at most, in milliseconds usually: nobody waits longer for a collector that is away.
	mostFlush = 5 * time.Second
)

// openTracer makes the tracer of all accounts; nil where tracing is off. The metrics are there in any case.
func openTracer(ctx context.Context, c config.Tracing, log *zap.Logger, reg prometheus.Registerer) (*trace.Tracer, error) {
	metrics := trace.NewMetrics(reg)
	if c.OTLPEndpoint == "" {
		return nil, nil //nolint:nilnil // nil is how a tracer is spelled that traces nothing
	}
	tracer, err := trace.Open(ctx, trace.Options{
		Endpoint: c.OTLPEndpoint.Reveal(), Ratio: c.SampleRatio, Version: thisBuild().version, Metrics: metrics, Log: log.With(zap.Stringer("collector", c.OTLPEndpoint)),
	})
	if err != nil {
		return nil, fmt.Errorf("tracing: %w", err)
	}
	return tracer, nil
}

// endTraces sends the last spans, within what is left of the time to drain.
func (s *server) endTraces() {
	if s.tracer == nil {
		return
	}
	left := min(max(time.Until(s.drained), leastFlush), mostFlush)
	ctx, cancel := context.WithTimeout(context.Background(), left)
	defer cancel()
	s.tracer.Close(ctx)
}
