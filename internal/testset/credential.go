package testset

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/url"
	"regexp"
	"strings"

	"github.com/ocr-proxy/ocr-proxy/internal/jsonstream"
	"github.com/ocr-proxy/ocr-proxy/internal/scrub"
)

// maxLooked bounds, in bytes, the texts in which a credential is looked for: longer ones are documents.
const maxLooked = 64 << 10

// clean tells whether the payload may leave the store. There it lies as it was received, and a JSON body or an address in a body may carry a
// credential; a test set is handed on.
func (i Item) clean() (bool, error) {
	from, err := i.Payload()
	if err != nil {
		return false, err
	}
	defer from.Close() //nolint:errcheck // Nothing was written.
	kind := byType(i.Request.ContentType)
	if kind == ".form" {
		return cleanForm(from)
	}
	body := bufio.NewReader(from)
	if start, _ := body.Peek(sniffed); kind != ".json" && !looksLikeJSON(start) {
		return true, nil
	}
	l := &looker{}
	err = jsonstream.Walk(body, l)
	if broken := (*jsonstream.SyntaxError)(nil); errors.As(err, &broken) {
		return false, nil // Nobody knows what is in it.
	}
	return !l.found, err
}

// cleanForm takes a form for clean when it holds no address that carries a credential: its own fields were cut when it was stored.
func cleanForm(from io.Reader) (bool, error) {
	data, err := io.ReadAll(io.LimitReader(from, maxLooked+1))
	if err != nil {
		return false, err
	}
	if len(data) > maxLooked {
		return false, nil // It holds files, which are written by themselves.
	}
	text := string(data)
	if plain, err := url.QueryUnescape(text); err == nil {
		text += "&" + plain
	}
	return !signed(text), nil
}

// withPassword is an address with a password in front of its host.
var withPassword = regexp.MustCompile(`://[^/?#@\s"'<>]*:[^/?#\s"'<>]+@`)

// signed tells whether a text holds an address with a password, or with a credential in its query.
func signed(text string) bool {
	if withPassword.MatchString(text) {
		return true
	}
	for _, query := range strings.Split(text, "?")[1:] {
		if len(scrub.Credentials(query)) > 0 {
			return true
		}
	}
	return false
}

// looker looks for credentials in JSON: a string in the body's top object that has a credential's name, or an address anywhere.
type looker struct {
	depth  int
	key    []byte
	text   []byte
	begun  bool
	found  bool
	inside bool // A string is being read.
}

// Begin implements jsonstream.Handler.
func (l *looker) Begin(jsonstream.Kind) bool { l.depth++; return true }

// End implements jsonstream.Handler.
func (l *looker) End() { l.depth-- }

// Key implements jsonstream.Handler.
func (l *looker) Key(part []byte, last bool) bool {
	if !l.begun {
		l.key = l.key[:0]
	}
	l.key = append(l.key, part[:min(len(part), maxLooked-min(len(l.key), maxLooked))]...)
	l.begun = !last
	return true
}

// String implements jsonstream.Handler.
func (l *looker) String(part []byte, last bool) {
	if !l.inside {
		l.text = l.text[:0]
	}
	l.text = append(l.text, part[:min(len(part), maxLooked-min(len(l.text), maxLooked))]...)
	if l.inside = !last; l.inside {
		return
	}
	if l.depth == 1 && scrub.Param(string(l.key)) && len(l.text) > 0 {
		l.found = true
	}
	if bytes.Contains(l.text, []byte("://")) && signed(string(l.text)) {
		l.found = true
	}
}

// Literal implements jsonstream.Handler.
func (*looker) Literal([]byte, bool) {}
