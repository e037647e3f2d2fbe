package fingerprint

import (
	"bytes"
	"crypto/sha256"
	"hash"
	"io"
)

// usage says what a value is to the keys.
type usage byte

const (
	option    usage = iota // Part of the fingerprint only.
	ignored                // Part of neither.
	inline                 // An embedded document.
	reference              // A document's location.
)

// role is the usage of a place, and for documents the position of its path among the sorted paths of all documents.
type role struct {
	use  usage
	rank int
}

const (
	everyRank = -1
	// maxHead is how much of a document's text is held to see what it is: longer texts are neither a location nor the header of a data: URI.
	maxHead = 16 << 10
)

// documents sums the documents of a body, one after the other.
type documents struct {
	whole     hash.Hash    // Of the bytes of all documents so far; nil if there was none.
	count     int          // Documents so far.
	ranks     map[int]bool // Where documents were found.
	pointed   bool         // A document was named by where it lies.
	unordered bool         // The order of the text is not one that matters.
	only      int          // The rank whose documents are summed in this pass, or everyRank.

	place     func() io.Writer // Gives each document a place to be written to, decoded; nil: none is.
	keep      io.Writer        // That of the document being read.
	undecoded bool             // A document was not the base64 that it should have been.
	spaced    bool             // A document's base64 had spaces, which in a form may have been pluses: providers may read them as such.
	unsummed  bool             // Nobody wants to know the sums.

	// The document being read:
	at      role
	head    []byte
	text    tally    // The string as it stands, …
	decoded tally    // … and decoded. Which one counts is known only at its end.
	uri     string   // What a data: URI says about the document.
	decoder *decoder // Nil while all of the text is in head.
	plain   bool     // The text cannot be decoded.
}

func newDocuments(only int) *documents {
	return &documents{only: only, ranks: map[int]bool{}}
}

// tally sums one document, alone and at the end of those before it, and writes it where it is to be kept.
type tally struct {
	own, whole hash.Hash
	keep       io.Writer
}

func (t tally) write(p []byte) {
	t.own.Write(p)
	if t.keep != nil {
		_, _ = t.keep.Write(p) // Whoever keeps it remembers the error.
	}
	if t.whole != nil {
		t.whole.Write(p)
	}
}

// counts reports whether documents of that rank are summed in this pass.
func (d *documents) counts(rank int) bool { return d.only == everyRank || d.only == rank }

// next starts a document. It takes the sum over or, when there are two readings of the document to be summed, a copy of it.
func (d *documents) next(copied bool) tally {
	if d.unsummed {
		return tally{own: noSum{}}
	}
	t := tally{own: sha256.New()}
	if d.counts(d.at.rank) {
		t.whole = d.whole
		if copied {
			t.whole = clone(d.whole)
		}
	}
	return t
}

// settle makes t the document's sum and returns the sum of the document alone.
func (d *documents) settle(t tally) digest {
	own := final(t.own)
	switch {
	case d.unsummed:
	case t.whole != nil:
		d.whole = t.whole
	case d.counts(d.at.rank):
		d.whole = t.own // The first document: its own sum is that of all so far.
	}
	d.text, d.decoded = tally{}, tally{}
	return own
}

func clone(h hash.Hash) hash.Hash {
	if h == nil {
		return nil
	}
	twin, err := h.(hash.Cloner).Clone() // SHA-256 of the standard library can always be cloned.
	if err != nil {
		panic("fingerprint: clone a SHA-256 state: " + err.Error()) // Never, for the same reason.
	}
	return twin
}

// begin starts a document that is the text of a string or a field.
func (d *documents) begin(at role) {
	d.enter(at)
	d.head, d.uri, d.decoder, d.plain = d.head[:0], "", nil, false
}

func (d *documents) enter(at role) {
	d.at = at
	d.count++
	d.ranks[at.rank] = true
	if d.place != nil {
		d.keep = d.place()
	}
}

// write takes the next part of the text.
func (d *documents) write(part []byte) {
	if d.decoder == nil {
		if len(d.head)+len(part) <= maxHead {
			d.head = append(d.head, part...)
			return
		}
		// Too long to be held, and too long for a location. It is summed in both readings from here on.
		n := maxHead - len(d.head)
		d.head, part = append(d.head, part[:n]...), part[n:]
		d.text, d.decoded = d.next(true), d.next(false)
		d.decoded.keep = d.keep
		uri, payload, percent, encoded := dataURI(d.head)
		d.uri = uri
		d.decoder = newDecoder(percent, encoded, d.decoded.write)
		d.text.write(d.head)
		d.decoder.write(payload)
	}
	d.text.write(part)
	d.decoder.write(part)
}

// end returns the digest of the document for the fingerprint.
func (d *documents) end() digest {
	if d.decoder != nil {
		if d.decoder.close() {
			d.spaced = d.spaced || d.decoder.spaced()
			return d.leaf(d.settle(d.decoded))
		}
		d.uri, d.undecoded = "", true
		return d.leaf(d.settle(d.text))
	}
	if isDataURI := hasPrefixFold(d.head, "data:"); !isDataURI && (d.at.use == reference || isURL(d.head)) {
		return d.locate(string(d.head))
	}
	uri, payload, percent, encoded := dataURI(d.head)
	var plain []byte
	decoder := newDecoder(percent, encoded, func(p []byte) { plain = append(plain, p...) })
	decoder.write(payload)
	t := d.next(false)
	if decoder.close() {
		d.spaced = d.spaced || decoder.spaced()
		d.uri, t.keep = uri, d.keep
	} else {
		plain, d.undecoded = d.head, true
	}
	t.write(plain)
	return d.leaf(d.settle(t))
}

// leaf includes the media type that a data: URI gives: it is an option, not a part of the document.
func (d *documents) leaf(own digest) digest { return sum(tagDocument, []byte(d.uri), own[:]) }

// locate makes the document a location.
func (d *documents) locate(url string) digest {
	d.pointed = true
	t := d.next(false)
	t.write([]byte(location(url)))
	d.settle(t)
	return sum(tagLocation, []byte(unsigned(url)))
}

// object adds a document that lies in object storage. Its members are options for the fingerprint already.
func (d *documents) object(at role, url string) {
	d.pointed = true
	d.enter(at)
	t := d.next(false)
	t.write([]byte(url))
	d.settle(t)
}

// file starts a document that is raw bytes; it ends with settle.
func (d *documents) file() tally {
	d.enter(role{use: inline})
	t := d.next(false)
	t.keep = d.keep
	return t
}

// dataURI takes a data: URI apart: what it says about the document, what follows the comma in text, and how that is encoded. Any other
// text is base64, and says nothing.
func dataURI(text []byte) (about string, payload []byte, percent, encoded bool) {
	if !hasPrefixFold(text, "data:") {
		return "", text, false, true
	}
	header, payload, found := bytes.Cut(text, []byte(","))
	if !found {
		return "", text, false, true
	}
	header, encoded = bytes.CutSuffix(bytes.ToLower(bytes.TrimSpace(header)), []byte(";base64"))
	return string(header), payload, true, encoded
}

func hasPrefixFold(text []byte, prefix string) bool {
	return len(text) >= len(prefix) && bytes.EqualFold(text[:len(prefix)], []byte(prefix))
}
