package webhook

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"time"
)

// The kinds of events about letters and circuits. Those about accounts in trouble are named by package watch.
const (
	LetterCreated    = letterKinds + "created"  // Data: the letter.
	LetterResolved   = letterKinds + "resolved" // Data: the letter with its resolution.
	BreakerOpened    = "breaker.opened"
	BreakerSustained = "breaker.sustained"
	BreakerClosed    = "breaker.closed"
)

// letterKinds begins the kinds of events that are delivered as a stream of their own.
const letterKinds = "dead_letter."

// maxEvent bounds an event's body, in bytes. No letter comes near it.
const maxEvent = 1 << 20

// event is an event that has no number yet.
type event struct {
	head []byte // The body up to the number.
	data []byte
}

func newEvent(kind string, at time.Time, data any) (event, error) {
	text, err := marshal(data)
	if err != nil {
		return event{}, fmt.Errorf("encode the event: %w", err)
	}
	if len(text) > maxEvent {
		return event{}, fmt.Errorf("the event has %d bytes, more than the allowed %d", len(text), maxEvent)
	}
	head, err := marshal(struct {
		Type      string    `json:"type"`
		Timestamp time.Time `json:"timestamp"`
	}{kind, at.UTC()})
	if err != nil {
		return event{}, fmt.Errorf("encode the event: %w", err)
	}
	return event{head: bytes.TrimSuffix(head, []byte("}")), data: text}, nil
}

// appendBody appends the body as it is sent. The number is that of the event in its stream.
func (e event) appendBody(b []byte, number uint64) []byte {
	b = append(b, e.head...)
	b = append(b, `,"sequence":`...)
	b = strconv.AppendUint(b, number, 10)
	b = append(b, `,"data":`...)
	b = append(b, e.data...)
	return append(b, '}')
}

// marshal writes JSON in one line, which is what a line of the outbox holds.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
