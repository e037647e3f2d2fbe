package jsonstream

import "io"

const (
	minBuffer = 512
	maxBuffer = 32 << 10
	// maxEmptyReads is how many reads in a row may bring neither bytes nor an error.
	maxEmptyReads = 100
)

// input is a window on what is read: buf[pos:end] is not consumed yet.
type input struct {
	src      io.Reader
	buf      []byte
	pos, end int
	base     int64 // The offset of buf[0] in the text.
	err      error // What ended reading; io.EOF at the end of the text.
}

// bufferFor keeps small bodies cheap: a reader that knows how much it has left gets a buffer of that size.
func bufferFor(r io.Reader) int {
	if sized, ok := r.(interface{ Len() int }); ok {
		return min(max(sized.Len()+1, minBuffer), maxBuffer)
	}
	return maxBuffer
}

// fill reads on after everything in the buffer was consumed. It is false at the end of the text or after a read error.
func (in *input) fill() bool { return in.need(1) }

// need makes at least n bytes available, moving those not consumed yet to the front. It is false when the text ends before.
func (in *input) need(n int) bool {
	if in.end-in.pos >= n {
		return true
	}
	in.base += int64(in.pos)
	in.end = copy(in.buf, in.buf[in.pos:in.end])
	in.pos = 0
	for empty := 0; in.end < n && in.err == nil; {
		var got int
		got, in.err = in.src.Read(in.buf[in.end:])
		in.end += got
		if got > 0 {
			empty = 0
		} else if empty++; empty == maxEmptyReads && in.err == nil {
			in.err = io.ErrNoProgress
		}
	}
	return in.end >= n
}

// token returns the next byte that is no white space, without consuming it. It is false at the end of the text.
func (in *input) token() (byte, bool) {
	for {
		for i, c := range in.buf[in.pos:in.end] {
			if c > ' ' || c != ' ' && c != '\n' && c != '\r' && c != '\t' {
				in.pos += i
				return c, true
			}
		}
		in.pos = in.end
		if !in.fill() {
			return 0, false
		}
	}
}

// ended is the error for a text that stops where it must not: a read error as it is, else a syntax error.
func (in *input) ended() error {
	if in.err != io.EOF { //nolint:errorlint // An error that wraps io.EOF is a read error.
		return in.err
	}
	return &SyntaxError{Offset: in.base + int64(in.end), msg: "unexpected end", err: io.ErrUnexpectedEOF}
}

// fault is a syntax error at the next byte.
func (in *input) fault(msg string) error {
	return &SyntaxError{Offset: in.base + int64(in.pos), msg: msg}
}
