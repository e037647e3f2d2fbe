package fingerprint

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"path"
	"slices"
	"strings"
)

const (
	formBuffer = 32 << 10
	// maxFieldName bounds the names that are compared; longer ones are only summed.
	maxFieldName = 4 << 10
)

// form sums the fields of a form: those of different names without regard to their order.
type form struct {
	inline, refs []string
	secret       func(string) bool
	scalars
	entries entries
	set     set
	buf     []byte

	// The field being read:
	name     []byte
	nameHash reused
	inValue  bool
	begun    bool // There was at least one byte of it.
}

func newForm(inline, refs []string, docs *documents, secret func(string) bool) *form {
	return &form{inline: inline, refs: refs, secret: secret, scalars: newScalars(docs), nameHash: newReused()}
}

func (f *form) sum() digest { return f.entries.close(tagForm, &f.set) }

// role returns what a field is. A document is never left out as a credential.
func (f *form) role(name string) role {
	switch {
	case slices.Contains(f.inline, name):
		return role{use: inline}
	case slices.Contains(f.refs, name):
		return role{use: reference}
	case f.secret(name):
		return role{use: ignored}
	}
	return role{}
}

// urlencoded reads name=value&name=value. It cannot fail: what is no escape stands for itself.
func (f *form) urlencoded(r io.Reader) {
	size := formBuffer
	if query, ok := r.(*strings.Reader); ok {
		size = min(size, query.Len()+1)
	}
	f.buf = make([]byte, size)
	plain := unescaper{plus: true}
	for {
		n, err := r.Read(f.buf)
		for part := f.buf[:n]; len(part) > 0; {
			stop := bytes.IndexByte(part, '&')
			if !f.inValue {
				stop = bytes.IndexAny(part, "&=")
			}
			run := part
			if stop >= 0 {
				run = part[:stop]
			}
			f.begun = f.begun || len(run) > 0
			f.take(plain.resolve(run))
			if stop < 0 {
				break
			}
			f.take(plain.rest())
			if part[stop] == '=' && !f.inValue {
				f.begun = true
				f.startValue()
			} else {
				f.endField()
			}
			part = part[stop+1:]
		}
		if err != nil {
			f.take(plain.rest())
			f.endField()
			return
		}
	}
}

func (f *form) take(part []byte) {
	if f.inValue {
		f.write(part)
		return
	}
	f.nameHash.add(part)
	f.name = append(f.name, part[:min(len(part), maxFieldName+1-len(f.name))]...)
}

func (f *form) startValue() {
	f.inValue = true
	at := role{}
	if len(f.name) <= maxFieldName {
		at = f.role(string(f.name))
	}
	f.begin(tagString, at)
}

func (f *form) endField() {
	if f.begun {
		if !f.inValue {
			f.startValue()
		}
		if value := f.end(); f.at.use != ignored {
			f.entries.add(&f.set, f.nameHash.final(), value)
		}
	}
	f.name, f.inValue, f.begun = f.name[:0], false, false
	f.nameHash.sum.Reset()
}

// multipart reads a multipart body. It is false when that is malformed or not complete.
func (f *form) multipart(r io.Reader, boundary string) bool {
	f.buf = make([]byte, formBuffer)
	parts := multipart.NewReader(r, boundary)
	for {
		part, err := parts.NextRawPart()
		if err == io.EOF { // Not errors.Is: a body that ends too early brings an error that wraps io.EOF.
			return true
		}
		if err != nil || f.part(part) != nil {
			return false
		}
	}
}

func (f *form) part(part *multipart.Part) error {
	name := part.FormName()
	add := func(value digest) {
		f.entries.add(&f.set, sha256.Sum256([]byte(name)), value)
	}
	if fileName := part.FileName(); fileName != "" {
		t := f.docs.file()
		if err := f.each(part, t.write); err != nil {
			return err
		}
		own := f.docs.settle(t)
		// Providers tell the type of a file by these two. The rest of the name may be a temporary one.
		mediaType, _, _ := mime.ParseMediaType(part.Header.Get("Content-Type"))
		add(sum(tagFile, []byte(mediaType), []byte(strings.ToLower(path.Ext(fileName))), own[:]))
		return nil
	}
	at := f.role(name)
	f.begin(tagString, at)
	if err := f.each(part, f.write); err != nil {
		return err
	}
	if value := f.end(); at.use != ignored {
		add(value)
	}
	return nil
}

func (f *form) each(r io.Reader, do func([]byte)) error {
	for {
		n, err := r.Read(f.buf)
		do(f.buf[:n])
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
