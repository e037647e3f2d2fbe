package dlq

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/uuid"
)

// maxEnvelopeBytes bounds one envelope. The payload is not in it, so a file
// that is larger was not written by this package.
const maxEnvelopeBytes = 8 << 20

// ErrInvalidID says that a string is no dead letter's id, which is a UUID in
// its canonical lower-case form.
var ErrInvalidID = errors.New("not a dead letter's id (a UUID such as 0192d3c0-7a1b-7c3d-8e4f-5a6b7c8d9e0f)")

// ErrUnreadable says that a file in the store was read to its end and is no whole dead letter.
var ErrUnreadable = errors.New("unreadable dead letter")

// ErrUnread says that a file in the store cannot be read now: the disk, too
// many open files, somebody else's permissions. What it holds is not known, so
// it stays where it is.
var ErrUnread = errors.New("cannot be read now")

// PassedOver tells whether an error of [Reader.List] is about one file, so that the list goes on.
func PassedOver(err error) bool { return errors.Is(err, ErrUnreadable) || errors.Is(err, ErrUnread) }

// Decode reads one envelope. It refuses anything but a single JSON object with
// the schema, an id, an outcome and a provider; fields that it does not know
// are allowed and dropped. Every error wraps [ErrUnreadable].
func Decode(data []byte) (*Envelope, error) {
	var e *Envelope
	if err := json.Unmarshal(data, &e); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	if e == nil {
		return nil, fmt.Errorf("%w: null instead of an object", ErrUnreadable)
	}
	if e.Schema != Schema {
		return nil, fmt.Errorf("%w: schema is %q, want %q", ErrUnreadable, e.Schema, Schema)
	}
	if err := e.check(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	e.normalize()
	return e, nil
}

// check reports what a letter cannot do without.
func (e *Envelope) check() error {
	switch {
	case !validID(e.ID):
		return fmt.Errorf("id %q is %w", e.ID, ErrInvalidID)
	case e.Outcome == "":
		return errors.New("outcome is missing")
	case e.Provider == "":
		return errors.New("provider is missing")
	}
	return nil
}

// encode is the envelope as it is stored: one line, so that line tools work on many.
func (e *Envelope) encode() ([]byte, error) {
	e.normalize()
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(e); err != nil {
		return nil, fmt.Errorf("encode dead letter: %w", err)
	}
	if b.Len() > maxEnvelopeBytes {
		return nil, fmt.Errorf("dead letter of %d bytes is larger than the allowed %d", b.Len(), maxEnvelopeBytes)
	}
	return b.Bytes(), nil
}

// validID admits one spelling per UUID, so an id can be neither a path nor a
// second name of the same letter.
func validID(id string) bool {
	u, err := uuid.Parse(id)
	return err == nil && u.String() == id
}

// readEnvelope reads the letter at path and gives its size in bytes. A letter
// whose name is not its id is unreadable too: it could be listed but not found.
func readEnvelope(path string) (*Envelope, int64, error) {
	data, err := readBounded(path)
	if err != nil {
		return nil, 0, err
	}
	e, err := Decode(data)
	if err != nil {
		return nil, 0, err
	}
	if name := filepath.Base(path); name != fileName(e.ID) {
		return nil, 0, fmt.Errorf("%w: the file named %q holds the letter %s", ErrUnreadable, name, e.ID)
	}
	return e, int64(len(data)), nil
}

// readBounded reads a file of at most maxEnvelopeBytes; a larger one is [ErrUnreadable]. A file that is not there comes as what the disk said,
// any other trouble with the disk as [ErrUnread].
func readBounded(path string) ([]byte, error) {
	f, err := os.Open(path) //nolint:gosec // Paths are built from the store's folder and a listed name, a hash or a checked id.
	if folderMissing(err) {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnread, err)
	}
	defer f.Close() //nolint:errcheck // Nothing was written.
	data, err := io.ReadAll(io.LimitReader(f, maxEnvelopeBytes+1))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnread, err)
	}
	if len(data) > maxEnvelopeBytes {
		return nil, fmt.Errorf("%w: larger than %d bytes", ErrUnreadable, maxEnvelopeBytes)
	}
	return data, nil
}

func fileName(id string) string { return id + letterSuffix }

// letterID is the id that a file's name stands for; ok is false for files that
// are not letters. The id of a letter is not checked here.
func letterID(name string) (id string, ok bool) { return strings.CutSuffix(name, letterSuffix) }
