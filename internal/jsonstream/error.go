package jsonstream

import "fmt"

// SyntaxError says that a text is no JSON, and where. It never quotes the text, which may be confidential.
type SyntaxError struct {
	// Offset is the number of bytes before the one that broke the rules.
	Offset int64

	msg string
	err error
}

// Error names the rule and the offset.
func (e *SyntaxError) Error() string {
	return fmt.Sprintf("no JSON: %s at offset %d", e.msg, e.Offset)
}

// Unwrap returns io.ErrUnexpectedEOF when the text is only too short, else nil.
func (e *SyntaxError) Unwrap() error { return e.err }
