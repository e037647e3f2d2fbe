package scrub

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/url"
	"strings"
)

// Secret is a credential that was found in a form, and the name of its field.
type Secret struct{ Name, Value string }

const (
	// maxSecret bounds what is read of one credential in a form, in bytes.
	maxSecret = 4 << 10

	urlencoded = "application/x-www-form-urlencoded"
	multiform  = "multipart/form-data"
)

// ErrUnreadableForm says that a body is labelled a form and cannot be read as one, so that nobody can say where a credential in it ends.
var ErrUnreadableForm = errors.New("the body is labelled a form and cannot be read as one")

// form reads a content type as leniently as servers do: what comes before the first semicolon decides.
func form(contentType string) (media, boundary string) {
	media, _, _ = strings.Cut(contentType, ";")
	media = strings.ToLower(strings.TrimSpace(media))
	if media == multiform {
		if _, params, err := mime.ParseMediaType(contentType); err == nil {
			boundary = params["boundary"]
		}
	}
	return media, boundary
}

// FormSecrets finds the credentials in the fields of an urlencoded or multipart form of any size, in bounded memory. A body that is no form
// holds none. With ErrUnreadableForm come those that were found before.
func FormSecrets(contentType string, body io.Reader) ([]Secret, error) {
	switch media, boundary := form(contentType); media {
	case urlencoded:
		return pairSecrets(body)
	case multiform:
		if boundary == "" {
			return nil, ErrUnreadableForm
		}
		return partSecrets(multipart.NewReader(body, boundary))
	}
	return nil, nil
}

// pairSecrets reads name=value pairs and keeps no more of each than a credential has.
func pairSecrets(body io.Reader) ([]Secret, error) {
	var found []Secret
	err := eachPair(body, func(pair, _ []byte) error {
		if name := paramName(string(pair)); Param(name) {
			_, value, _ := strings.Cut(string(pair), "=")
			found = append(found, Secret{name, value})
			if plain, err := url.QueryUnescape(value); err == nil && plain != value {
				found = append(found, Secret{name, plain})
			}
		}
		return nil
	}, nil)
	return found, err
}

// eachPair gives the beginning of every pair of an urlencoded form, at most 2·maxSecret bytes, with the separator before it; rest gets what is
// longer. A nil rest drops it.
func eachPair(body io.Reader, begin func(pair, separator []byte) error, rest func(more []byte) error) error {
	r := bufio.NewReaderSize(body, 64<<10)
	var separator []byte
	for {
		pair := make([]byte, 0, 64)
		begun, ended := false, false
		var next []byte
		for !ended {
			chunk, err := r.Peek(1)
			if err == nil {
				chunk, _ = r.Peek(r.Buffered())
			} else if !errors.Is(err, io.EOF) {
				return err
			}
			end := bytes.IndexAny(chunk, "&;")
			taken := chunk
			if end >= 0 {
				taken = chunk[:end]
			}
			if !begun {
				room := min(len(taken), 2*maxSecret-len(pair))
				pair = append(pair, taken[:room]...)
				if len(pair) == 2*maxSecret || end >= 0 || len(chunk) == 0 {
					begun = true
					if err := begin(pair, separator); err != nil {
						return err
					}
				}
				taken = taken[room:]
			}
			if begun && len(taken) > 0 && rest != nil {
				if err := rest(taken); err != nil {
					return err
				}
			}
			switch {
			case len(chunk) == 0:
				return nil
			case end >= 0:
				next, ended = []byte{chunk[end]}, true
				_, _ = r.Discard(end + 1) // buffered: it cannot fail
			default:
				_, _ = r.Discard(len(chunk))
			}
		}
		separator = next
	}
}

func partSecrets(parts *multipart.Reader) ([]Secret, error) {
	var found []Secret
	for {
		part, err := parts.NextRawPart()
		switch {
		case err == io.EOF: //nolint:errorlint // the plain one is the end; wrapped it says that the end is missing
			return found, nil
		case err != nil:
			return found, ErrUnreadableForm
		case !secretPart(part):
			continue
		}
		value, err := io.ReadAll(io.LimitReader(part, maxSecret))
		if err != nil {
			return found, ErrUnreadableForm
		}
		found = append(found, Secret{partName(part), string(value)})
	}
}

// partName is the name of a part, whatever its disposition is called.
func partName(part *multipart.Part) string {
	_, params, err := mime.ParseMediaType(part.Header.Get("Content-Disposition"))
	if err != nil {
		return ""
	}
	return params["name"]
}

// secretPart reports whether a part carries a credential; one whose head cannot be read is taken for one that does.
func secretPart(part *multipart.Part) bool {
	_, params, err := mime.ParseMediaType(part.Header.Get("Content-Disposition"))
	return err != nil || Param(params["name"])
}

// CutForm copies a form without its credential fields, in bounded memory. Fields of an urlencoded form stay byte for byte, the parts of a
// multipart form in content, order and boundary.
func CutForm(contentType string, body io.Reader, out io.Writer) error {
	media, boundary := form(contentType)
	if media != multiform {
		return cutPairs(body, out)
	}
	w := multipart.NewWriter(out)
	if err := w.SetBoundary(boundary); err != nil {
		return ErrUnreadableForm
	}
	parts := multipart.NewReader(body, boundary)
	for {
		part, err := parts.NextRawPart()
		switch {
		case err == io.EOF: //nolint:errorlint // see partSecrets
			return w.Close()
		case err != nil:
			return ErrUnreadableForm
		case secretPart(part):
			continue
		}
		copied, err := w.CreatePart(part.Header)
		if err != nil {
			return err
		}
		if _, err := io.Copy(copied, part); err != nil {
			return err
		}
	}
}

func cutPairs(body io.Reader, out io.Writer) error {
	first, cutting := true, false
	write := func(b []byte) error {
		_, err := out.Write(b)
		return err
	}
	return eachPair(body, func(pair, separator []byte) error {
		if cutting = Param(paramName(string(pair))); cutting {
			return nil
		}
		if first {
			separator, first = nil, false
		}
		if err := write(separator); err != nil {
			return err
		}
		return write(pair)
	}, func(more []byte) error {
		if cutting {
			return nil
		}
		return write(more)
	})
}
