package fingerprint

// scalars turns values that come in parts into digests, documents by what they hold and all else by its text.
type scalars struct {
	docs *documents
	text reused
	at   role
	open bool
}

func newScalars(docs *documents) scalars { return scalars{docs: docs, text: newReused()} }

func (s *scalars) begin(tag byte, at role) {
	s.at, s.open = at, true
	switch at.use {
	case inline, reference:
		s.docs.begin(at)
	case option:
		s.text.add([]byte{tag})
	case ignored:
	}
}

func (s *scalars) write(part []byte) {
	switch s.at.use {
	case inline, reference:
		s.docs.write(part)
	case option:
		s.text.add(part)
	case ignored:
	}
}

func (s *scalars) end() digest {
	s.open = false
	switch s.at.use {
	case inline, reference:
		return s.docs.end()
	case option:
		return s.text.final()
	case ignored:
	}
	return digest{}
}
