package dlq

import (
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"
)

// facts is what the index knows of a letter.
type facts struct {
	id           uid
	key          uint64 // The beginning of [keyOf]; 0: equal requests are not looked for.
	document     uint64 // Tells documents apart: by document id, else by idempotency key, else each letter as one.
	named        bool   // It has a document id.
	hashed       bool   // The document id is a hash, and document its beginning.
	classChanged bool
	unsized      bool      // The same request may have a body of another length when it comes again.
	first        time.Time // Of the first attempt.
	failed       time.Time
	occurrences  int
	bodyBytes    int64
	stamp        uint32 // Of the file that the facts are from; 0: not known.
	*facets
}

// facets are what many letters have in common.
type facets struct{ provider, operation, tenant, outcome, class, code string }

func factsOf(id uid, e *Envelope) facts {
	f := facts{
		id: id, key: short(keyOf(e)), named: e.DocumentID != "", hashed: IsHash(e.DocumentID), classChanged: e.ClassChanged,
		first: e.FirstAttemptAt, failed: e.FailedAt, occurrences: e.Occurrences, bodyBytes: max(e.Request.BodyBytes, 0),
		facets: &facets{e.Provider, e.Operation, e.Tenant, e.Outcome, e.ErrorClass, e.ErrorCode},
	}
	f.unsized = e.Request.BodySHA256 == "" || slices.ContainsFunc(e.Request.Credentials, isFormCarrier)
	f.document = documentNumber(cmp.Or(e.DocumentID, e.IdempotencyKey, e.ID))
	return f
}

// size is the length of the body that the same request has when it comes again, or anySize.
func (f *facts) size() int64 {
	if f.unsized {
		return anySize
	}
	return f.bodyBytes
}

// documentNumber is the beginning of a hash: of the document's id, or the id itself where it is one.
func documentNumber(id string) uint64 {
	if IsHash(id) {
		var b [8]byte
		_, _ = hex.Decode(b[:], []byte(id[:16])) // It is hexadecimal.
		return binary.BigEndian.Uint64(b[:])
	}
	return short(hashOf("document", id))
}

func short(key hashKey) uint64 { return binary.BigEndian.Uint64(key[:8]) }

// stampOf tells one content of a file from another without reading it: every
// write makes a new file, and clocks of file systems are too coarse to tell two of them. It is never 0.
func stampOf(info fs.FileInfo) uint32 {
	mixed := spread(spread(spread(fileNumber(info))^uint64(info.ModTime().UnixNano())) ^ uint64(info.Size())) //nolint:gosec // Only the bits count.
	return max(uint32(mixed), 1)                                                                              //nolint:gosec // Cut on purpose.
}

// stampAt is the stamp of the file there, 0 when there is none.
func stampAt(path string) uint32 {
	info, err := os.Lstat(path)
	if err != nil {
		return 0
	}
	return stampOf(info)
}

// selectsFacets is the part of selects that letters have in common.
func (f Filter) selectsFacets(c *facets) bool {
	return matches(f.Provider, c.provider) && matches(f.Class, c.class) && matches(f.Outcome, c.outcome) && matches(f.Code, c.code) &&
		matches(f.Operation, c.operation) && matches(f.Tenant, c.tenant)
}

// selectsFacts is selects for what the index knows. Documents with numbers that
// happen to be equal are the same to it.
func (f Filter) selectsFacts(c *facts) bool {
	return f.selectsFacets(c.facets) && f.selectsNumber(c) && f.selectsTime(c.failed)
}

func (f Filter) selectsNumber(c *facts) bool {
	switch {
	case f.Document == "":
		return true
	case !c.named:
		return false
	case !c.hashed:
		return c.document == documentNumber(f.Document) && !IsHash(f.Document)
	}
	const digits = 16 // Of a number.
	text := f.Document[:min(len(f.Document), digits)]
	return len(f.Document) >= ShortHash && strings.HasPrefix(hexNumber(c.document), text)
}

func hexNumber(n uint64) string {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], n)
	return hex.EncodeToString(b[:])
}

// narrows tells whether the filter leaves letters out beside those of another status or a newer page.
func (f Filter) narrows() bool {
	f.Status, f.Before = "", ""
	return f != Filter{}
}
