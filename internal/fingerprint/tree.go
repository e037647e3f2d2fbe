package fingerprint

import (
	"crypto/sha256"
	"hash"

	"github.com/ocr-proxy/ocr-proxy/internal/jsonstream"
)

// tree is the jsonstream.Handler that sums a JSON text from its leaves up, members without regard to their order.
type tree struct {
	places *jsonstream.Node
	roles  []role
	secret func(string) bool

	scalars
	entries entries
	frames  []frame
	name    reused // Of a member name that comes in parts.
	parts   bool
	result  digest
}

// frame is an object or array that is open.
type frame struct {
	kind jsonstream.Kind
	node *jsonstream.Node

	items hash.Hash // Of an array.

	set     set              // Of an object, as are all that follow.
	member  *jsonstream.Node // Where the current member stands.
	name    digest
	secret  bool // The current member is a credential if it is a string.
	holders int  // Members that hold documents.
	before  int  // Documents before the current member.
	storage *storageObject
}

func newTree(places *jsonstream.Node, roles []role, docs *documents, secret func(string) bool) *tree {
	return &tree{places: places, roles: roles, scalars: newScalars(docs), secret: secret, name: newReused()}
}

func (t *tree) top() *frame { return &t.frames[len(t.frames)-1] }

// arrive returns where the value stands that begins now.
func (t *tree) arrive() *jsonstream.Node {
	switch {
	case len(t.frames) == 0:
		return t.places
	case t.top().kind == jsonstream.Array:
		return t.top().node.Item()
	default:
		return t.top().member
	}
}

// role returns what is known of a place. Of several paths that meet there the first counts, in the order ignored, inline, reference.
func (t *tree) role(node *jsonstream.Node) role {
	first := len(t.roles)
	for _, i := range node.Matches() {
		first = min(first, i)
	}
	if first == len(t.roles) {
		return role{}
	}
	return t.roles[first]
}

// Begin implements jsonstream.Handler.
func (t *tree) Begin(kind jsonstream.Kind) bool {
	f := frame{kind: kind, node: t.arrive()}
	at := t.role(f.node)
	if at.use == ignored {
		return false // An item of an array.
	}
	if kind == jsonstream.Array {
		f.items = sha256.New()
		f.items.Write([]byte{tagArray})
	} else {
		f.set = t.entries.open()
		if at.use == reference {
			f.storage = &storageObject{at: at}
		}
	}
	t.frames = append(t.frames, f)
	return true
}

// Key implements jsonstream.Handler.
func (t *tree) Key(part []byte, last bool) bool {
	f := t.top()
	if !last || t.parts {
		t.name.add(part)
		if t.parts = !last; t.parts {
			return true
		}
		f.name, f.member, f.secret = t.name.final(), nil, false
		part = nil
	} else {
		f.name, f.member = sha256.Sum256(part), f.node.Member(part)
		at := t.role(f.member)
		if at.use == ignored {
			return false
		}
		f.secret = len(t.frames) == 1 && at.use == option && t.secret(string(part))
	}
	f.before = t.docs.count
	if f.storage != nil {
		f.storage.member(part)
	}
	return true
}

// String implements jsonstream.Handler.
func (t *tree) String(part []byte, last bool) {
	if !t.open {
		t.begin(tagString, t.role(t.arrive()))
	}
	t.write(part)
	if len(t.frames) > 0 && t.top().storage != nil {
		t.top().storage.write(part)
	}
	if !last {
		return
	}
	d := t.end()
	if t.at.use != ignored && (len(t.frames) == 0 || !t.top().secret) {
		t.add(d)
	}
}

// Literal implements jsonstream.Handler.
func (t *tree) Literal(part []byte, last bool) {
	if !t.open {
		at := t.role(t.arrive())
		if at.use != ignored {
			at.use = option // A number is no document, wherever it stands.
		}
		t.begin(tagLiteral, at)
	}
	t.write(part)
	if last {
		if d := t.end(); t.at.use != ignored {
			t.add(d)
		}
	}
}

// End implements jsonstream.Handler.
func (t *tree) End() {
	f := t.frames[len(t.frames)-1]
	t.frames = t.frames[:len(t.frames)-1]
	if f.kind == jsonstream.Array {
		t.add(final(f.items))
		return
	}
	if f.storage != nil {
		if place, ok := f.storage.location(); ok {
			t.docs.object(f.storage.at, place)
		}
	}
	t.add(t.entries.close(tagObject, &f.set))
}

// add gives a finished value to what contains it.
func (t *tree) add(value digest) {
	if len(t.frames) == 0 {
		t.result = value
		return
	}
	f := t.top()
	if f.kind == jsonstream.Array {
		f.items.Write(value[:])
		return
	}
	if t.docs.count > f.before {
		if f.holders++; f.holders > 1 {
			t.docs.unordered = true
		}
	}
	t.entries.add(&f.set, f.name, value)
}
