package dlq

// Observer is told what becomes of letters, in the call that makes it so and before that call returns, without a lock of the store. It must
// not wait for a network, and the envelopes are only lent: neither kept nor changed.
type Observer interface {
	// Created reports a new letter, which is durable. One that is raised again is not new.
	Created(e *Envelope)
	// Resolved reports a letter that was resolved, its resolution included.
	Resolved(e *Envelope)
}

// nobody is the observer of a store that has none.
type nobody struct{}

func (nobody) Created(*Envelope)  {}
func (nobody) Resolved(*Envelope) {}
