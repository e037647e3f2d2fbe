package fingerprint

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"slices"

	"github.com/ocr-proxy/ocr-proxy/internal/grpcwire"
)

// Places says where a protobuf message carries documents. A path is the field numbers that lead to them. The zero value knows of none.
type Places struct {
	// Inline are the paths of embedded documents, which are bytes.
	Inline [][]int
	// Refs are the paths of references, which are text.
	Refs [][]int
	// Maps are the fields of the message itself that are maps, whose entries have no order.
	Maps []int
}

// The tags of what is summed for messages; see digest.go.
const (
	tagMessage = 'm'
	tagField   = 'n'
)

// Message is Compute for a gRPC body: one message in its frame. The idempotency key of a document is the same that Compute gives it. coding is
// the value of the header Grpc-Encoding. A body that cannot be read as a message counts as plain bytes.
//
// Equal requests have equal fingerprints as long as they are written with their fields in the same order, as libraries do; the order of
// entries of a map does not matter.
func Message(r Request, coding string, places Places) (Keys, error) {
	m := message{request: r, coding: coding}
	shape, err := m.shape(places.Maps)
	if err == nil {
		var document hash.Hash
		var pointed bool
		if document, pointed, err = m.documents(places); err == nil {
			keys, err := m.keys(shape, document)
			keys.Pointed = pointed
			return keys, err
		}
	}
	return Compute(r, Layout{}, nil)
}

// maxMessage bounds the bytes that a compressed message may unpack to and still be looked into; a larger one counts as plain bytes.
const maxMessage = 1 << 30

// bounded reads at most left bytes; more is an error, and not an end.
type bounded struct {
	io.Reader

	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, grpcwire.ErrMalformed
	}
	n, err := b.Reader.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

type message struct {
	request Request
	coding  string
}

// read opens the message and hands it to do.
func (m message) read(do func(r *grpcwire.Reader) error) error {
	body, err := m.request.Body()
	if err != nil {
		return err
	}
	defer body.Close() //nolint:errcheck // Nothing was written.
	plain, err := grpcwire.Message(body, m.coding)
	if err != nil {
		return err
	}
	return do(grpcwire.NewReader(&bounded{plain, maxMessage}))
}

// shape sums the message field by field: fields of the same number in their order, entries of a map in none.
func (m message) shape(maps []int) (digest, error) {
	type field struct {
		number int
		value  digest
	}
	var fields []field
	err := m.read(func(r *grpcwire.Reader) error {
		for {
			f, err := r.Next()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			if len(fields) == maxEntries {
				return grpcwire.ErrMalformed // No API takes so many; as plain bytes it has a fingerprint, too.
			}
			h := sha256.New()
			h.Write([]byte{tagField, byte(f.Type)})
			if f.Type == grpcwire.Bytes {
				if _, err := io.Copy(h, r); err != nil {
					return err
				}
			} else {
				h.Write(binary.LittleEndian.AppendUint64(nil, f.Value))
			}
			fields = append(fields, field{f.Number, final(h)})
		}
	})
	if err != nil {
		return digest{}, err
	}
	slices.SortStableFunc(fields, func(a, b field) int {
		if order := cmp.Compare(a.number, b.number); order != 0 || !slices.Contains(maps, a.number) {
			return order
		}
		return bytes.Compare(a.value[:], b.value[:])
	})
	parts := make([][]byte, 0, 2*len(fields))
	for i := range fields {
		parts = append(parts, binary.AppendUvarint(nil, uint64(fields[i].number)), fields[i].value[:]) //nolint:gosec // Numbers are positive.
	}
	return sum(tagMessage, parts...), nil
}

// documents sums the documents in their order; nil when there is none. pointed says that one of them is a reference.
func (m message) documents(places Places) (all hash.Hash, pointed bool, err error) {
	var walk func(r *grpcwire.Reader, path []int) error
	walk = func(r *grpcwire.Reader, path []int) error {
		return places.each(r, path, walk, func(use usage) error {
			all = started(all)
			if use == inline {
				_, err := io.Copy(all, r)
				return err
			}
			ref, err := r.Text(maxHead)
			pointed = true
			all.Write([]byte(location(ref)))
			return err
		})
	}
	err = m.read(func(r *grpcwire.Reader) error { return walk(r, nil) })
	return all, pointed, err
}

// each goes over the fields of a message: into those in which documents may stand, and to do with those that are documents or references.
func (p Places) each(r *grpcwire.Reader, path []int, into func(r *grpcwire.Reader, path []int) error, do func(usage) error) error {
	for {
		f, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		at := append(slices.Clip(path), f.Number)
		use, inside := p.at(at)
		switch {
		case f.Type != grpcwire.Bytes:
			continue
		case inside:
			err = into(r.Message(), at)
		case use == inline || use == reference:
			err = do(use)
		}
		if err != nil {
			return err
		}
	}
}

func started(h hash.Hash) hash.Hash {
	if h == nil {
		return sha256.New()
	}
	return h
}

// at says what stands at a path, or that documents may stand inside of it.
func (p Places) at(path []int) (use usage, inside bool) {
	for i, list := range [...][][]int{p.Inline, p.Refs} {
		for _, known := range list {
			switch {
			case !slices.Equal(path, known[:min(len(path), len(known))]):
			case len(known) > len(path):
				inside = true
			case i == 0:
				use = inline
			default:
				use = reference
			}
		}
	}
	return use, inside
}

// keys puts the two sums into the same form as those of Compute.
func (m message) keys(shape digest, document hash.Hash) (Keys, error) {
	if document == nil {
		document = sha256.New()
		body, err := m.request.Body()
		if err != nil {
			return Keys{}, err
		}
		_, err = io.Copy(document, body)
		_ = body.Close()
		if err != nil {
			return Keys{}, err
		}
	}
	document.Write([]byte(m.request.ProcessingVersion))
	fingerprint := sum(tagRequest, []byte(m.request.Kind), []byte(m.request.Operation), []byte(m.request.Method), []byte(m.request.Path), shape[:])
	return Keys{Idempotency: hex.EncodeToString(document.Sum(nil)), Fingerprint: hex.EncodeToString(fingerprint[:])}, nil
}
