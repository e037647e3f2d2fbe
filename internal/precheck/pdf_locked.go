package precheck

import (
	"bytes"
	"errors"
	"fmt"
	"sync"

	"github.com/pdfcpu/pdfcpu/pkg/api"
	"github.com/pdfcpu/pdfcpu/pkg/pdfcpu"
	"github.com/pdfcpu/pdfcpu/pkg/pdfcpu/model"
)

// encrypted reports whether the document's strings and streams are.
func (p *pdf) encrypted() bool { return p.trailer["Encrypt"] != nil }

// locked reports whether the document opens only with a secret: a password, or the key of a certificate. Many are encrypted so that they open
// with the empty password, in order to forbid printing; these are read like any other.
func (p *pdf) locked() bool {
	if !p.encrypted() {
		return false
	}
	rules, ok := p.dict(p.trailer["Encrypt"])
	if !ok {
		return false
	}
	for name, value := range rules {
		if rules[name], ok = p.resolve(value); !ok {
			return false
		}
	}
	if onlyAttachments(rules) {
		return false
	}
	handler, isName := rules["Filter"].(pdfName)
	if !isName {
		return false
	}
	if handler != "Standard" {
		return true // certificates, or the rights management of some vendor
	}
	id, ok := p.resolve(p.trailer["ID"])
	if !ok {
		return false
	}
	if !needsPassword(rules, id) {
		return false
	}
	// In version 4 the filters say how long keys are, and the length that stands beside them is left out or wrong in good documents.
	const version, bits = 4, 128
	if rules["V"] != int64(version) || rules["Length"] == int64(bits) {
		return true
	}
	rules["Length"] = int64(bits)
	return needsPassword(rules, id)
}

// onlyAttachments reports whether the rules leave pages as they are, and are about attached files alone. Filters are named since version 4, and one
// that is not named does nothing.
func onlyAttachments(rules pdfDict) bool {
	version, _ := rules["V"].(int64)
	identity := func(name pdfName) bool { return rules[name] == nil || rules[name] == pdfName("Identity") }
	return version >= 4 && identity("StmF") && identity("StrF")
}

// needsPassword asks the PDF library whether the empty password opens what is encrypted by those rules. It is given a document of its own that
// has them and nothing else: what a stranger's file could do to it, it can do in a few hundred bytes or not at all.
func needsPassword(rules pdfDict, id any) bool {
	const most = 16 << 10
	var b bytes.Buffer
	var offsets []int
	object := func(content any) {
		offsets = append(offsets, b.Len())
		fmt.Fprintf(&b, "%d 0 obj\n", len(offsets))
		writePDF(&b, content)
		b.WriteString("\nendobj\n")
	}
	b.WriteString("%PDF-1.7\n")
	object(pdfDict{"Type": pdfName("Catalog"), "Pages": pdfRef{number: 2}})
	object(pdfDict{"Type": pdfName("Pages"), "Kids": pdfArray{}, "Count": int64(0)})
	object(rules)
	xref := b.Len()
	fmt.Fprintf(&b, "xref\n0 %d\n0000000000 65535 f \n", len(offsets)+1)
	for _, off := range offsets {
		fmt.Fprintf(&b, "%010d 00000 n \n", off)
	}
	trailer := pdfDict{"Size": int64(len(offsets) + 1), "Root": pdfRef{number: 1}, "Encrypt": pdfRef{number: 3}}
	if id != nil {
		trailer["ID"] = id
	}
	b.WriteString("trailer\n")
	writePDF(&b, trailer)
	fmt.Fprintf(&b, "\nstartxref\n%d\n%%%%EOF\n", xref)
	if b.Len() > most {
		return false
	}
	configuration := pdfConfiguration()
	_, err := pdfcpu.Read(bytes.NewReader(b.Bytes()), &configuration)
	return errors.Is(err, pdfcpu.ErrWrongPassword)
}

// pdfConfiguration is the library's, without the folder that it would make in the user's home. That is a variable of the library's, which must
// not be set while another document is being read.
var pdfConfiguration = sync.OnceValue(func() model.Configuration { //nolint:gochecknoglobals // It is set once for the process, as the library wants it.
	api.DisableConfigDir()
	return *model.NewDefaultConfiguration()
})
