package trace

import (
	"context"
	"crypto/rand"

	otel "go.opentelemetry.io/otel/trace"
)

// ids makes the ids of traces and spans at random, but for the first span of a trace, which has half of the trace's id. So a trace that began
// here tells its first span, and a dead letter that knows the one leads to the other.
type ids struct{}

// NewIDs is for the first span of a trace.
func (ids) NewIDs(context.Context) (id otel.TraceID, root otel.SpanID) {
	_, _ = rand.Read(id[:]) // it never fails
	return id, rootOf(id)
}

// NewSpanID is for every other span.
func (ids) NewSpanID(context.Context, otel.TraceID) (id otel.SpanID) {
	_, _ = rand.Read(id[:]) // it never fails
	return id
}

// rootOf is the id of the first span of a trace that began here.
func rootOf(id otel.TraceID) (root otel.SpanID) {
	copy(root[:], id[len(id)-len(root):])
	return root
}
