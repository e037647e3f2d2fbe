package fingerprint

import (
	"crypto/sha256"
	"io"
	"mime"

	"github.com/ocr-proxy/ocr-proxy/internal/grpcwire"
)

// Extract reads the body once and writes the documents that it carries at the places of the layout, decoded, each to a writer that next
// gives. It is false when there is none, when one lies elsewhere and is only named, and when one is not encoded as it should be; what was
// written then is not to be used. A body that is itself the document is none that it carries. A writer's errors are the caller's to
// remember; the only error is that of opening and reading the body.
func Extract(r Request, l Layout, next func() io.Writer) (ok bool, err error) {
	docs := newDocuments(everyRank)
	docs.place, docs.unsummed = next, true
	body, err := newComputation(r, l, func(string) bool { return false }).pass(docs)
	if err != nil {
		return false, err
	}
	mediaType, _, _ := mime.ParseMediaType(r.ContentType)
	unsure := docs.undecoded || docs.spaced && mediaType == "application/x-www-form-urlencoded"
	return body.parsed && docs.count > 0 && !docs.pointed && !unsure, nil
}

// ExtractMessage is Extract for a gRPC body: one message in its frame. coding is the value of the header Grpc-Encoding. What cannot be read as
// a message has no documents.
func ExtractMessage(r Request, coding string, places Places, next func() io.Writer) (ok bool) {
	m := message{request: r, coding: coding}
	pointed, count := false, 0
	var walk func(r *grpcwire.Reader, path []int) error
	walk = func(r *grpcwire.Reader, path []int) error {
		return places.each(r, path, walk, func(use usage) error {
			pointed = pointed || use == reference
			if use != inline {
				return nil
			}
			count++
			_, err := io.Copy(next(), r)
			return err
		})
	}
	err := m.read(func(r *grpcwire.Reader) error { return walk(r, nil) })
	return err == nil && count > 0 && !pointed
}

// Itself reports whether a body of that Content-Type is a document itself rather than a request that may carry one. Without a type nothing is
// known.
func Itself(contentType string) bool {
	mediaType, _, err := mime.ParseMediaType(contentType)
	return err == nil && !isJSON(mediaType) && mediaType != "application/x-www-form-urlencoded" && mediaType != "multipart/form-data"
}

// noSum stands where a sum would be that nobody wants to know: summing costs more than decoding.
type noSum struct{}

func (noSum) Write(p []byte) (int, error) { return len(p), nil }
func (noSum) Sum(b []byte) []byte         { return append(b, make([]byte, sha256.Size)...) }
func (noSum) Reset()                      {}
func (noSum) Size() int                   { return sha256.Size }
func (noSum) BlockSize() int              { return sha256.BlockSize }
