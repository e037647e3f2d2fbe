// Package precheck tells documents that no provider would read from all others, before they cost anything. It looks at bytes alone and knows
// neither requests nor providers: what a provider reads comes as Limits.
//
// It refuses only what it is sure of. A document that it does not understand, cannot read in its bounds of time and memory, or that is
// damaged in a way that readers mend, is none of its business: the provider decides about it.
package precheck

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/semaphore"
)

// Check is the name of one check.
type Check string

// The checks, in the order in which they are made.
const (
	Empty      Check = "empty"      // there is not one byte
	TypeRead   Check = "type"       // by its content it is of no type that is read
	Size       Check = "size"       // more bytes than are taken
	Truncated  Check = "truncated"  // its end is missing
	Encrypted  Check = "encrypted"  // a PDF that opens only with a password or a certificate
	Pages      Check = "pages"      // more pages than are taken
	Dimensions Check = "dimensions" // an image that is too large or too small
	Blank      Check = "blank"      // nothing is on it
)

// Checks lists the names of all checks.
func Checks() []Check {
	return []Check{Empty, TypeRead, Size, Truncated, Encrypted, Pages, Dimensions, Blank}
}

// Limits are what a provider takes. A zero field sets no limit.
type Limits struct {
	Types     []Type // that are read
	Bytes     int64  // of the document
	Pages     int
	LeastSide int   // pixels of an image's width and height, each
	MostSide  int   // pixels, as above
	Pixels    int64 // of an image, width times height
}

// Finding is why a document is hopeless.
type Finding struct {
	Check   Check
	Message string // one sentence, without a word of the document's
}

// Reason is the fixed word for the finding, such as precheck_encrypted.
func (f Finding) Reason() string { return "precheck_" + string(f.Check) }

// longest bounds the time of one Inspect. A document that takes longer is not refused.
const longest = 3 * time.Second

// Inspect makes the checks that skip does not name and returns the first finding; false: there is none. It reads only what it has to, in
// at most 3 seconds, and never fails: what it cannot read it does not refuse.
func Inspect(ctx context.Context, from io.ReaderAt, size int64, limits Limits, skip []Check) (found Finding, hopeless bool) {
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	d := &document{ctx: ctx, from: from, size: size}
	defer d.close()
	defer func() {
		// The decoders of images and of PDF read what strangers wrote; their bugs are no reason to refuse a document, nor to fail a request.
		if recover() != nil || d.failed {
			found, hopeless = Finding{}, false
		}
	}()
	for _, check := range Checks() {
		if slices.Contains(skip, check) {
			continue
		}
		if message := d.check(check, limits); message != "" {
			return Finding{check, message}, true
		}
	}
	return Finding{}, false
}

// check makes one check and returns what is wrong; "": nothing.
func (d *document) check(check Check, l Limits) string {
	switch check {
	case Empty:
		if d.size == 0 {
			return "the document is empty"
		}
	case TypeRead:
		return d.checkType(l)
	case Size:
		if l.Bytes > 0 && d.size > l.Bytes {
			return fmt.Sprintf("the document has %d bytes, and at most %d are taken", d.size, l.Bytes)
		}
	case Truncated:
		if d.truncated() {
			return fmt.Sprintf("the document is %s whose end is missing", d.kind().article())
		}
	case Encrypted:
		if d.kind() == PDF && d.pdf() != nil && d.pdf().locked() {
			return "the document is an encrypted PDF, which opens only with a password or a certificate"
		}
	case Pages:
		if l.Pages > 0 && d.morePagesThan(l.Pages) {
			return fmt.Sprintf("the document has more than %d pages, which are the most that are taken", l.Pages)
		}
	case Dimensions:
		return d.checkDimensions(l)
	case Blank:
		if d.blank() {
			return "there is nothing on the document's pages"
		}
	}
	return ""
}

func (d *document) checkType(l Limits) string {
	if len(l.Types) == 0 || slices.Contains(l.Types, d.kind()) {
		return ""
	}
	names := make([]string, len(l.Types))
	for i, t := range l.Types {
		names[i] = t.String()
	}
	return fmt.Sprintf("the document is %s by its content, and what is read is %s", d.kind().article(), strings.Join(names, ", "))
}

func (d *document) checkDimensions(l Limits) string {
	if l.LeastSide == 0 && l.MostSide == 0 && l.Pixels == 0 {
		return ""
	}
	width, height := d.dimensions()
	switch {
	case width <= 0 || height <= 0: // not known
	case l.MostSide > 0 && max(width, height) > l.MostSide:
		return fmt.Sprintf("the image has %d x %d pixels, and a side of at most %d is taken", width, height, l.MostSide)
	case l.LeastSide > 0 && min(width, height) < l.LeastSide:
		return fmt.Sprintf("the image has %d x %d pixels, and a side of at least %d is taken", width, height, l.LeastSide)
	case l.Pixels > 0 && int64(width)*int64(height) > l.Pixels:
		return fmt.Sprintf("the image has %d x %d pixels, and at most %d million are taken", width, height, l.Pixels/1_000_000)
	}
	return ""
}

func (d *document) morePagesThan(limit int) bool {
	switch d.kind() {
	case PDF:
		return d.pdf() != nil && d.pdf().morePagesThan(limit)
	case TIFF:
		n := 0
		for _, page := range d.tiff(max(tiffPages, limit+1)).pages {
			if !page.part {
				n++
			}
		}
		return n > limit
	case PNG, JPEG, BMP, WEBP, HEIF, GIF, HTML, DOCX, XLSX, PPTX, Unknown:
	}
	return false
}

// document is what is being looked at. Whatever is computed once for several checks is kept.
type document struct {
	ctx    context.Context //nolint:containedctx // it is the bound of one Inspect, whose state this is
	from   io.ReaderAt
	size   int64
	failed bool // it could not be read: nothing that was found counts
	placed bool // it has one of the places of heavy documents

	sniffed  *Type
	opened   bool // parsed was looked for
	parsed   *pdf
	segments *jpegSegments
}

// at returns up to n bytes from an offset, fewer at the end of the document and none outside of it.
func (d *document) at(off int64, n int) []byte {
	if off < 0 || off >= d.size || n <= 0 || d.late() {
		return nil
	}
	p := make([]byte, min(int64(n), d.size-off))
	if got, err := d.from.ReadAt(p, off); got < len(p) {
		d.failed = d.failed || err != nil
		return nil
	}
	return p
}

// late reports whether there is no time left.
func (d *document) late() bool {
	if d.ctx.Err() != nil {
		d.failed = true
	}
	return d.failed
}

// places are for documents that unpack to much. Each takes some 100 MB at most, which many at once must not.
var places = semaphore.NewWeighted(2) //nolint:gochecknoglobals // The memory that it bounds is the process's.

// heavy takes a place until the end of Inspect; false: none came free in time.
func (d *document) heavy() bool {
	if !d.placed {
		d.placed = places.Acquire(d.ctx, 1) == nil
	}
	return d.placed && !d.late()
}

func (d *document) close() {
	if d.placed {
		places.Release(1)
	}
}

// section reads a part of the document as a stream that ends when time does.
func (d *document) section(off, n int64) io.Reader {
	return &timed{d, io.NewSectionReader(d.from, off, min(n, d.size-off))}
}

// timed is a reader that fails once the time is over.
type timed struct {
	d    *document
	from *io.SectionReader
}

func (t *timed) Read(p []byte) (int, error) {
	if t.d.late() {
		return 0, context.DeadlineExceeded
	}
	return t.from.Read(p)
}
