// Package watch remembers what happened on a provider account over the last hour, minute by minute, and notices when it goes wrong in a way
// that people must hear of.
package watch

import (
	"time"

	"github.com/ocr-proxy/ocr-proxy/internal/classify"
)

// Kept is how far back an account is remembered, in minutes.
const Kept = 60

// classes is how many classes there are; their values are small numbers.
const classes = int(classify.Soft) + 1

// Circuit is the state of an account's circuit, from the best to the worst.
type Circuit uint8

// The states.
const (
	Closed Circuit = iota
	HalfOpen
	Open
)

// Minute is what happened on an account in one minute.
type Minute struct {
	Start time.Time
	// Requests are those of workers that came to their end, and DeadLettered those of them that ended with a dead letter.
	Requests, DeadLettered int
	// Attempts counts the upstream attempts by class.
	Attempts [classes]int
	// Circuit is the worst state of the minute.
	Circuit Circuit
}

// Of is the number of attempts of those classes.
func (m Minute) Of(some ...classify.Class) (n int) {
	for _, c := range some {
		n += m.Attempts[c]
	}
	return n
}

// Answers is the number of all attempts.
func (m Minute) Answers() (n int) {
	for _, of := range m.Attempts {
		n += of
	}
	return n
}

func (m *Minute) add(o Minute) {
	m.Requests += o.Requests
	m.DeadLettered += o.DeadLettered
	for c := range o.Attempts {
		m.Attempts[c] += o.Attempts[c]
	}
	m.Circuit = max(m.Circuit, o.Circuit)
}

// history is a ring of minutes. A minute in which nothing happened has no place of its own.
type history struct {
	ring    [Kept]slot
	circuit Circuit // as it is now
}

// slot is one minute, and the circuit's state when it began.
type slot struct {
	number int64 // minutes since 1970; 0: unused
	Minute
	first Circuit
}

func minuteOf(t time.Time) int64 { return t.Unix() / 60 }

// at is the place of the minute that now lies in.
func (h *history) at(now time.Time) *slot {
	n := minuteOf(now)
	s := &h.ring[n%Kept]
	if s.number != n {
		*s = slot{number: n, Minute: Minute{Circuit: h.circuit}, first: h.circuit}
	}
	return s
}

// turn notes a change of the circuit.
func (h *history) turn(now time.Time, to Circuit) {
	s := h.at(now)
	s.Circuit, h.circuit = max(s.Circuit, to), to
}

// sum adds up the minutes that began at most newest and at least oldest minutes ago.
func (h *history) sum(now time.Time, newest, oldest int64) (total Minute) {
	n := minuteOf(now)
	for i := range h.ring {
		if age := n - h.ring[i].number; age >= newest && age <= oldest {
			total.add(h.ring[i].Minute)
		}
	}
	return total
}

// minutes are the last hour's, the oldest first, without a gap.
func (h *history) minutes(now time.Time) []Minute {
	all := make([]Minute, Kept)
	newest := minuteOf(now)
	state := h.circuit
	for i := range all { // backwards: a minute without a slot was as the next one began
		number := newest - int64(i)
		m := Minute{Circuit: state}
		if s := h.ring[number%Kept]; s.number == number {
			m, state = s.Minute, s.first
		}
		m.Start = time.Unix(number*60, 0).UTC()
		all[Kept-1-i] = m
	}
	return all
}
