package precheck

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"io"
)

// pdf reads single objects of a PDF where they stand, as a viewer does that shows one page of a large file. Libraries read all of a file
// into memory, which is too much to do with every document, and nothing to do with what strangers send: here every step has a bound, of
// bytes, of objects and of time.
type pdf struct {
	d        *document
	junk     int64 // bytes before the header, from which all offsets count
	sections []pdfSection
	trailer  pdfDict // of the newest section
	budget   int     // bytes that may yet be inflated
	streams  map[int64]*objectStream
}

// pdfSection is a part of the cross-reference: where objects of a range of numbers stand. Its entries are read when they are asked for.
type pdfSection struct {
	first, count int64
	off          int64  // of the first entry of a table, each of 20 bytes
	packed       []byte // of a stream instead
	widths       [3]int
}

const (
	pdfInflate  = 32 << 20  // for all streams of one document
	pdfLight    = 256 << 10 // as above, of a document that is not heavy
	pdfSections = 4096
	pdfObject   = 1 << 20 // of text, without the bytes of a stream
	pdfChain    = 1024    // revisions
)

// pdf opens the document's structure; nil: it cannot be read.
func (d *document) pdf() *pdf {
	if !d.opened {
		d.opened = true
		d.parsed = openPDF(d)
	}
	return d.parsed
}

func openPDF(d *document) *pdf {
	p := &pdf{d: d, budget: pdfInflate, streams: map[int64]*objectStream{}}
	p.junk = int64(max(0, bytes.Index(d.at(0, pdfJunk+8), []byte("%PDF-"))))
	at := d.lastIndex(max(0, d.size-(1<<20)), []byte("startxref"))
	if at < 0 {
		return nil
	}
	off, digits := parseInteger(bytes.TrimLeft(d.at(at+int64(len("startxref")), 64), " \r\n\t"))
	if digits == 0 {
		return nil
	}
	seen := map[int64]bool{}
	for next := off; !seen[next]; {
		if seen[next] = true; len(seen) > pdfChain || len(p.sections) > pdfSections || d.late() {
			return nil
		}
		trailer, ok := p.readSection(next)
		if !ok {
			return nil
		}
		if p.trailer == nil {
			p.trailer = trailer
		}
		if hybrid, ok := trailer["XRefStm"].(int64); ok && !seen[hybrid] {
			seen[hybrid] = true
			if _, ok := p.readSection(hybrid); !ok {
				return nil
			}
		}
		previous, more := trailer["Prev"].(int64)
		if !more {
			return p
		}
		next = previous
	}
	return p
}

// readSection reads a table or a stream of the cross-reference and returns its trailer.
func (p *pdf) readSection(off int64) (trailer pdfDict, ok bool) {
	off += p.junk
	t := pdfText{text: p.d.at(off, 64)}
	t.space()
	if !bytes.HasPrefix(t.text[t.pos:], []byte("xref")) {
		return p.readXRefStream(off)
	}
	off += int64(t.pos) + 4
	for range pdfSections {
		t := pdfText{text: p.d.at(off, 128)}
		t.space()
		if bytes.HasPrefix(t.text[t.pos:], []byte("trailer")) {
			object, _, ok := p.objectAt(off + int64(t.pos) + 7)
			trailer, isDict := object.(pdfDict)
			return trailer, ok && isDict
		}
		first, ok1 := t.object(0)
		count, ok2 := t.object(0)
		from, isFirst := first.(int64)
		n, isCount := count.(int64)
		if !ok1 || !ok2 || !isFirst || !isCount || from < 0 || n < 0 || n > p.d.size/18 {
			return nil, false
		}
		t.space()
		off += int64(t.pos)
		p.sections = append(p.sections, pdfSection{first: from, count: n, off: off})
		off += n * 20
		if off > p.d.size {
			return nil, false
		}
	}
	return nil, false
}

func (p *pdf) readXRefStream(off int64) (trailer pdfDict, ok bool) {
	object, raw, ok := p.indirectAt(off)
	if !ok {
		return nil, false
	}
	trailer, _ = object.(pdfDict)
	if trailer["Type"] != pdfName("XRef") {
		return nil, false
	}
	packed, ok := p.inflate(trailer, raw, pdfInflate)
	if !ok {
		return nil, false
	}
	w, _ := trailer["W"].(pdfArray)
	if len(w) < 3 {
		return nil, false
	}
	var widths [3]int
	entry := 0
	for i := range widths {
		n, _ := w[i].(int64)
		if n < 0 || n > 8 {
			return nil, false
		}
		widths[i] = int(n)
		entry += int(n)
	}
	size, _ := trailer["Size"].(int64)
	index, _ := trailer["Index"].(pdfArray)
	if index == nil {
		index = pdfArray{int64(0), size}
	}
	for i := 0; i+1 < len(index) && entry > 0; i += 2 {
		first, _ := index[i].(int64)
		count, _ := index[i+1].(int64)
		if count < 0 || first < 0 {
			return nil, false
		}
		count = min(count, int64(len(packed)/entry))
		p.sections = append(p.sections, pdfSection{first: first, count: count, packed: packed[:int(count)*entry], widths: widths})
		packed = packed[int(count)*entry:]
	}
	return trailer, true
}

// place is where an object stands: at an offset or, if in is not 0, as the n-th of the object stream of that number.
type place struct {
	off, in, n int64
}

// find looks an object up, in the newest section that knows it.
func (p *pdf) find(number int64) (at place, ok bool) {
	for i := range p.sections {
		s := &p.sections[i]
		n := number - s.first
		if n < 0 || n >= s.count {
			continue
		}
		if s.packed == nil {
			entry := p.d.at(s.off+n*20, 20)
			if len(entry) < 18 {
				return place{}, false
			}
			off, digits := parseInteger(entry)
			return place{off: off}, digits == 10 && entry[17] == 'n'
		}
		width := s.widths[0] + s.widths[1] + s.widths[2]
		entry := s.packed[n*int64(width):]
		kind := int64(1) // where its width is 0
		if s.widths[0] > 0 {
			kind = bigEndian(entry[:s.widths[0]])
		}
		second := bigEndian(entry[s.widths[0] : s.widths[0]+s.widths[1]])
		switch kind {
		case 1:
			return place{off: second}, true
		case 2:
			return place{in: second, n: bigEndian(entry[s.widths[0]+s.widths[1] : width])}, true
		}
		return place{}, false
	}
	return place{}, false
}

func bigEndian(b []byte) int64 {
	var whole [8]byte
	copy(whole[8-len(b):], b)
	return int64(binary.BigEndian.Uint64(whole[:]) & (1<<63 - 1)) // without the sign
}

// resolve follows a reference, if the object is one, to what it refers to.
func (p *pdf) resolve(object any) (any, bool) {
	value, _, ok := p.stream(object)
	return value, ok
}

// stream is resolve for an object that may be a stream: it returns the offset of its bytes, too, or 0.
func (p *pdf) stream(object any) (value any, raw int64, ok bool) {
	for range 8 {
		ref, isRef := object.(pdfRef)
		if !isRef {
			return object, raw, true
		}
		at, found := p.find(ref.number)
		switch {
		case p.d.late() || !found:
			return nil, 0, false
		case at.in != 0:
			object, ok = p.packedObject(at, ref.number)
			raw = 0
		default:
			if !p.numbered(at.off+p.junk, ref.number) {
				return nil, 0, false
			}
			object, raw, ok = p.indirectAt(at.off + p.junk)
		}
		if !ok {
			return nil, 0, false
		}
	}
	return nil, 0, false
}

// numbered checks that the object which stands there is the one that was looked for.
func (p *pdf) numbered(off, number int64) bool {
	t := pdfText{text: p.d.at(off, 32)}
	t.space()
	n, digits := parseInteger(t.text[t.pos:])
	return digits > 0 && n == number
}

// indirectAt reads "1 0 obj" and the object behind it, and where the bytes of its stream begin; 0: it is none.
func (p *pdf) indirectAt(off int64) (object any, raw int64, ok bool) {
	t := pdfText{text: p.d.at(off, 64)}
	for _, want := range [...]string{"", "", "obj"} {
		t.space()
		word := t.word()
		if want == "" {
			if _, digits := parseInteger([]byte(word)); digits == 0 || digits != len(word) {
				return nil, 0, false
			}
		} else if word != want {
			return nil, 0, false
		}
	}
	return p.objectAt(off + int64(t.pos))
}

// objectAt reads one object, in ever larger pieces until it is whole.
func (p *pdf) objectAt(off int64) (object any, raw int64, ok bool) {
	for size := 1 << 10; size <= pdfObject; size *= 8 {
		if size > pdfLight && !p.d.heavy() {
			return nil, 0, false
		}
		text := p.d.at(off, size)
		whole := off+int64(len(text)) >= p.d.size
		t := pdfText{text: text}
		object, ok := t.object(0)
		// What ends with the text may go on behind it, and so may what tells of a stream.
		if ok && (whole || len(text)-t.pos > 64) {
			t.space()
			if !bytes.HasPrefix(t.text[t.pos:], []byte("stream")) {
				return object, 0, true
			}
			t.pos += len("stream")
			if t.pos < len(t.text) && t.text[t.pos] == '\r' {
				t.pos++
			}
			if t.pos < len(t.text) && t.text[t.pos] == '\n' {
				t.pos++
			}
			return object, off + int64(t.pos), true
		}
		if whole {
			break
		}
	}
	return nil, 0, false
}

// body is the raw bytes of a stream, as a section of the document.
func (p *pdf) body(dict pdfDict, raw int64) (r io.Reader, length int64, ok bool) {
	value, ok := p.resolve(dict["Length"])
	length, isNumber := value.(int64)
	if !ok || !isNumber || raw <= 0 || length < 0 || raw+length > p.d.size || !p.endsStream(raw+length) {
		return nil, 0, false
	}
	return p.d.section(raw, length), length, true
}

// endsStream reports whether a stream ends where its length says: a reader that mends a wrong length finds more on the page than that.
func (p *pdf) endsStream(at int64) bool {
	var next [16]byte
	n, _ := io.ReadFull(p.d.section(at, int64(len(next))), next[:])
	return bytes.HasPrefix(bytes.TrimLeft(next[:n], "\r\n\t "), []byte("endstream"))
}

// filter is the only filter of a stream; "" if it has none. Several are not followed.
func (p *pdf) filter(dict pdfDict) (name pdfName, parms pdfDict, ok bool) {
	value, ok := p.resolve(dict["Filter"])
	given, ok2 := p.resolve(dict["DecodeParms"])
	if list, isList := given.(pdfArray); isList && len(list) == 1 {
		given, ok2 = p.resolve(list[0])
	}
	parms, _ = given.(pdfDict)
	if list, isList := value.(pdfArray); isList {
		switch len(list) {
		case 0:
			return "", parms, ok && ok2
		case 1:
			value, ok = p.resolve(list[0])
		default:
			return "", nil, false
		}
	}
	if value == nil {
		return "", parms, ok && ok2
	}
	name, isName := value.(pdfName)
	return name, parms, ok && ok2 && isName
}

// inflate decodes a stream of at most that many bytes.
func (p *pdf) inflate(dict pdfDict, raw int64, most int) ([]byte, bool) {
	r, length, ok := p.body(dict, raw)
	if !ok {
		return nil, false
	}
	if length == 0 {
		return nil, true // whatever its filter: nothing is written as nothing
	}
	name, parms, ok := p.filter(dict)
	if !ok {
		return nil, false
	}
	switch name {
	case "":
	case "FlateDecode", "Fl":
		z, err := zlib.NewReader(r)
		if err != nil {
			return nil, false
		}
		r = z
	default:
		return nil, false
	}
	most = min(most, p.budget)
	light := max(0, min(most, p.budget-pdfInflate+pdfLight))
	data, err := io.ReadAll(io.LimitReader(r, int64(light)+1))
	if len(data) > light && len(data) <= most && p.d.heavy() {
		var more []byte
		more, err = io.ReadAll(io.LimitReader(r, int64(most-light)))
		data = append(data, more...)
	}
	p.budget -= len(data)
	// Of what is damaged readers show as much as they can, and not all of them the same.
	if len(data) > most || err != nil || p.d.late() {
		return nil, false
	}
	return p.unpredict(data, parms)
}

// unpredict undoes the filters of PNG, which are the ones in use.
func (p *pdf) unpredict(data []byte, parms pdfDict) ([]byte, bool) {
	number := func(name pdfName, otherwise int64) int {
		n, ok := parms[name].(int64)
		if !ok || n < 0 || n > 1<<20 {
			n = otherwise
		}
		return int(n)
	}
	predictor := number("Predictor", 1)
	if predictor < 10 {
		return data, predictor <= 1
	}
	pixel := (number("Colors", 1)*number("BitsPerComponent", 8) + 7) / 8
	row := (number("Colors", 1)*number("BitsPerComponent", 8)*number("Columns", 1) + 7) / 8
	if row == 0 || pixel == 0 {
		return nil, false
	}
	out := data[:0] // rows move towards the beginning, by one byte more each
	previous := make([]byte, row)
	for len(data) > row {
		current := data[1 : 1+row]
		if !unfilter(data[0], current, previous, pixel) {
			return nil, false
		}
		out = append(out, current...)
		previous, data = out[len(out)-row:], data[1+row:]
	}
	return out, true
}

// objectStream is a stream that holds objects.
type objectStream struct {
	data    []byte
	offsets map[int64]int // of objects, by their numbers
}

// packedObject reads an object out of an object stream.
func (p *pdf) packedObject(at place, number int64) (any, bool) {
	s, known := p.streams[at.in]
	if !known {
		s = p.openStream(at.in)
		p.streams[at.in] = s
	}
	if s == nil {
		return nil, false
	}
	off, ok := s.offsets[number]
	if !ok {
		return nil, false
	}
	t := pdfText{text: s.data, pos: off}
	return t.object(0)
}

func (p *pdf) openStream(number int64) *objectStream {
	at, ok := p.find(number)
	if !ok || at.in != 0 || !p.numbered(at.off+p.junk, number) {
		return nil
	}
	object, raw, ok := p.indirectAt(at.off + p.junk)
	dict, isDict := object.(pdfDict)
	if !ok || !isDict || dict["Type"] != pdfName("ObjStm") {
		return nil
	}
	data, ok := p.inflate(dict, raw, pdfInflate)
	first, isFirst := dict["First"].(int64)
	count, isCount := dict["N"].(int64)
	if !ok || !isFirst || !isCount || first < 0 || first > int64(len(data)) || count > pdfNodes {
		return nil
	}
	s := &objectStream{data: data, offsets: map[int64]int{}}
	t := pdfText{text: data[:first]}
	for range count {
		a, ok1 := t.object(0)
		b, ok2 := t.object(0)
		n, isNumber := a.(int64)
		off, isOffset := b.(int64)
		if !ok1 || !ok2 || !isNumber || !isOffset || off < 0 || first+off > int64(len(data)) {
			return nil
		}
		s.offsets[n] = int(first + off)
	}
	return s
}
