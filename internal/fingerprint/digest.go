package fingerprint

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"slices"
)

// digest is a SHA-256 sum.
type digest [sha256.Size]byte

// The first byte of everything that is summed says what it is, so that no value can pass for one of another kind. The tags are part of
// every fingerprint that was ever written down: never change them, only add.
const (
	tagString   = 's'
	tagLiteral  = 'l' // A number, true, false or null.
	tagArray    = 'a'
	tagObject   = 'o'
	tagFolded   = 'f' // The earlier entries of a very large object.
	tagDocument = 'd'
	tagLocation = 'r'
	tagFile     = 'p'
	tagForm     = 'u'
	tagBytes    = 'b' // A body as received.
	tagRequest  = '1' // The whole, and the version of this scheme.
)

// sum hashes parts with their lengths, so that bytes cannot move from one part to the next unnoticed.
func sum(tag byte, parts ...[]byte) digest {
	buf := append(make([]byte, 0, 256), tag)
	for _, part := range parts {
		buf = binary.AppendUvarint(buf, uint64(len(part)))
		buf = append(buf, part...)
	}
	return sha256.Sum256(buf)
}

func final(h hash.Hash) digest { return digest(h.Sum(nil)) }

// reused is a hash for many sums that does not allocate for each.
type reused struct {
	sum hash.Hash
	out digest
}

func newReused() reused { return reused{sum: sha256.New()} }

func (r *reused) add(p []byte) { r.sum.Write(p) }

// final returns the sum and starts afresh.
func (r *reused) final() digest {
	r.sum.Sum(r.out[:0])
	r.sum.Reset()
	return r.out
}

// entry is a member of an object or a field of a form.
type entry struct {
	name, value digest
	order       int // Among those of the same set.
}

// maxEntries bounds the entries held for sorting, over all objects that are open at one time: 5 MiB.
const maxEntries = 1 << 16

// entries sums sets of entries without regard to their order, except that entries of the same name keep theirs. Objects nest, so their
// entries form one stack.
type entries []entry

// set is one object on the stack.
type set struct {
	start  int    // Its entries are those from here on.
	folded digest // The sum of entries that had to leave the stack; zero if there are none.
}

func (e *entries) open() set { return set{start: len(*e)} }

// add puts an entry into the topmost set. When the stack is full that set's entries are summed as they are, which costs the independence
// of order between them and those to come, and keeps memory bounded.
func (e *entries) add(s *set, name, value digest) {
	*e = append(*e, entry{name, value, len(*e)})
	if len(*e) >= maxEntries {
		s.folded = e.close(tagFolded, s)
	}
}

// close takes the entries of the topmost set off the stack and returns their sum.
func (e *entries) close(tag byte, s *set) digest {
	list := (*e)[s.start:]
	slices.SortFunc(list, func(a, b entry) int {
		return cmp.Or(bytes.Compare(a.name[:], b.name[:]), cmp.Compare(a.order, b.order))
	})
	h := sha256.New()
	h.Write([]byte{tag})
	h.Write(s.folded[:])
	for i := range list {
		h.Write(list[i].name[:])
		h.Write(list[i].value[:])
	}
	*e = (*e)[:s.start]
	return final(h)
}
