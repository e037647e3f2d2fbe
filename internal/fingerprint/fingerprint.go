// Package fingerprint names requests and the documents in them: an idempotency key that is equal for equal documents, and a fingerprint
// that is equal for equal requests, however their JSON or their form was put on the wire.
//
// The body is read once and never held: a document of any size is decoded on its way into the hash.
package fingerprint

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"mime"
	"slices"
	"strings"

	"github.com/ocr-proxy/ocr-proxy/internal/jsonstream"
)

// Layout says where the requests of one provider carry their documents. Paths are those of jsonstream.Compile; of documents that a "*"
// finds under several members the order is that of the text. The zero value means that only the file parts of multipart forms are
// documents, and else the body itself is.
type Layout struct {
	// Inline are the JSON paths of embedded documents: base64 text or a data: URI ("Document.Bytes", "requests[].image.content"). An
	// http, https, gs or s3 URL found there counts as a reference.
	Inline []string
	// Refs are the JSON paths of references: a string that is a location (a data: URI counts as embedded), or an object with the members
	// Bucket, Name and perhaps Version ("DocumentLocation.S3Object").
	Refs []string
	// Ignore are the JSON paths of values that are no part of the fingerprint, because they name the call and not what it asks for
	// ("ClientRequestToken").
	Ignore []string
	// Form and FormRefs are for fields of forms, urlencoded or multipart, what Inline and Refs are for JSON.
	Form, FormRefs []string
}

// Request is what the keys are computed of.
type Request struct {
	Kind      string // The provider's kind, such as "textract".
	Operation string
	Method    string
	Path      string // As it stands in the request line.
	RawQuery  string // Without the question mark.
	// ContentType is the header's value. Without one, a body that is a JSON object or array is taken for JSON.
	ContentType string
	// ProcessingVersion follows the document in the idempotency key, and may be empty.
	ProcessingVersion string
	// Body opens the body from its start. It is called once, except for requests that carry documents under several members of one JSON
	// object, which no provider's API provides for. Nil means no body.
	Body func() (io.ReadCloser, error)
}

// Keys are two SHA-256 sums in lower-case hexadecimal.
type Keys struct {
	// Idempotency is the sum of the bytes of all documents, one after the other, and the processing version.
	//
	// Documents follow each other as in the text: arrays and forms have an order. The members of a JSON object have none, so when one
	// object holds documents under several members, the documents of the whole body are sorted by their paths in the layout instead.
	// A location counts by its text, an http or https URL without query and fragment, an S3 object as s3://Bucket/Name and
	// ?versionId=Version when there is one. A body without any document at a known place is a document as a whole.
	Idempotency string
	// Fingerprint is the sum of everything that makes the request what it is: kind, operation, method, path, query, options, documents.
	// It depends neither on the order of JSON members, query parameters and differently named form fields, nor on white space, nor on
	// the boundary of a multipart body, nor on credentials and the signatures of signed URLs. (Of objects and forms with more than 65,536
	// entries the order is kept.)
	Fingerprint string
	// Pointed says that the body names where a document lies instead of carrying it: what lies there may change, and the fingerprint does not.
	Pointed bool
}

// Compute reads the body and returns its keys. What cannot be parsed as its Content-Type says counts as plain bytes; the only errors are
// those of opening and reading the body.
//
// The function secret says which query parameters, form fields and strings directly in a JSON body's top object are credentials, by their
// names; they are left out of the fingerprint, so that a rotated key does not make another request. Nil means none.
func Compute(r Request, l Layout, secret func(name string) bool) (Keys, error) {
	if secret == nil {
		secret = func(string) bool { return false }
	}
	c := newComputation(r, l, secret)
	docs := newDocuments(everyRank)
	body, err := c.pass(docs)
	if err != nil {
		return Keys{}, err
	}
	if body.parsed && docs.unordered {
		if docs, err = c.sorted(docs.ranks); err != nil {
			return Keys{}, err
		}
	}

	document := body.raw
	shape := sum(tagBytes, []byte(c.mediaType), body.raw.Sum(nil))
	if body.parsed {
		shape = body.shape
		if docs.whole != nil {
			document = docs.whole
		}
	}
	query := newForm(nil, nil, newDocuments(everyRank), secret)
	query.urlencoded(strings.NewReader(r.RawQuery))
	queryShape := query.sum()
	fingerprint := sum(tagRequest, []byte(r.Kind), []byte(r.Operation), []byte(r.Method), []byte(r.Path), queryShape[:], shape[:])

	document.Write([]byte(r.ProcessingVersion))
	return Keys{Idempotency: hex.EncodeToString(document.Sum(nil)), Fingerprint: hex.EncodeToString(fingerprint[:]), Pointed: body.parsed && docs.pointed}, nil
}

// computation is what stays the same over the passes of one Compute.
type computation struct {
	request   Request
	layout    Layout
	secret    func(string) bool
	mediaType string
	boundary  string
	places    *jsonstream.Node
	roles     []role // By index of path in places.
}

func newComputation(r Request, l Layout, secret func(string) bool) *computation {
	c := &computation{request: r, layout: l, secret: secret}
	mediaType, params, err := mime.ParseMediaType(r.ContentType)
	if err != nil {
		mediaType, _, _ = strings.Cut(r.ContentType, ";")
		mediaType = strings.ToLower(strings.TrimSpace(mediaType))
	}
	c.mediaType, c.boundary = mediaType, params["boundary"]

	ranks := slices.Concat(l.Inline, l.Refs)
	slices.Sort(ranks)
	paths := slices.Concat(l.Ignore, l.Inline, l.Refs)
	c.places = jsonstream.Compile(paths...)
	for i, path := range paths {
		at := role{use: ignored}
		if i >= len(l.Ignore) {
			at.use = inline
			at.rank, _ = slices.BinarySearch(ranks, path)
		}
		if i >= len(l.Ignore)+len(l.Inline) {
			at.use = reference
		}
		c.roles = append(c.roles, at)
	}
	return c
}

// content is what one pass over the body finds.
type content struct {
	raw    hash.Hash
	parsed bool // The body is what its Content-Type says, and shape is its canonical form.
	shape  digest
}

// pass reads the body once, from its first byte to its last.
func (c *computation) pass(docs *documents) (content, error) {
	found := content{raw: sha256.New()}
	if docs.unsummed {
		found.raw = noSum{}
	}
	if c.request.Body == nil {
		found.shape, found.parsed = c.parse(strings.NewReader(""), docs)
		return found, nil
	}
	body, err := c.request.Body()
	if err != nil {
		return content{}, fmt.Errorf("open the request body: %w", err)
	}
	defer body.Close() //nolint:errcheck // Nothing was written.
	src := &source{body: body, sum: found.raw}
	found.shape, found.parsed = c.parse(src, docs)
	// Parsers stop at the first mistake, and multipart at the last boundary; the sum is of all bytes.
	_, _ = io.Copy(io.Discard, src)
	if src.err != nil {
		return content{}, fmt.Errorf("read the request body: %w", src.err)
	}
	return found, nil
}

// sorted sums the documents path by path. A hash cannot take bytes out of order and a document may be too large to hold, so there is one
// pass for each path that has documents; the layout bounds their number, not the body.
func (c *computation) sorted(ranks map[int]bool) (*documents, error) {
	var whole hash.Hash
	docs := newDocuments(everyRank)
	for rank := range len(c.roles) {
		if !ranks[rank] {
			continue
		}
		docs = newDocuments(rank)
		docs.whole = whole
		if _, err := c.pass(docs); err != nil {
			return nil, err
		}
		whole = docs.whole
	}
	return docs, nil
}

func (c *computation) parse(r io.Reader, docs *documents) (shape digest, ok bool) {
	switch {
	case isJSON(c.mediaType):
		return c.json(r, docs)
	case c.mediaType == "application/x-www-form-urlencoded":
		f := newForm(c.layout.Form, c.layout.FormRefs, docs, c.secret)
		f.urlencoded(r)
		return f.sum(), true
	case c.mediaType == "multipart/form-data":
		f := newForm(c.layout.Form, c.layout.FormRefs, docs, c.secret)
		ok := f.multipart(r, c.boundary)
		return f.sum(), ok
	case c.mediaType == "":
		ahead := bufio.NewReader(r)
		start, _ := ahead.Peek(512)
		if start = bytes.TrimLeft(start, " \t\r\n"); len(start) > 0 && (start[0] == '{' || start[0] == '[') {
			return c.json(ahead, docs)
		}
	}
	return digest{}, false
}

func (c *computation) json(r io.Reader, docs *documents) (shape digest, ok bool) {
	t := newTree(c.places, c.roles, docs, c.secret)
	if err := jsonstream.Walk(r, t); err != nil {
		return digest{}, false
	}
	return t.result, true
}

func isJSON(mediaType string) bool {
	return mediaType == "application/json" || mediaType == "text/json" || strings.HasSuffix(mediaType, "+json") ||
		strings.HasPrefix(mediaType, "application/x-amz-json-")
}

// source sums the bytes that are read of a body, and keeps the error that a parser would take for malformed input.
type source struct {
	body io.Reader
	sum  hash.Hash
	err  error
}

func (s *source) Read(p []byte) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	n, err := s.body.Read(p)
	s.sum.Write(p[:n])
	if err != nil && err != io.EOF { // Not errors.Is: what wraps io.EOF is a read error.
		s.err = err
	}
	return n, err
}
