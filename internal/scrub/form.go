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
	// maxForm bounds the form that a credential is cut out of, in bytes; a larger one cannot be kept.
	maxForm = 64 << 20
	// maxSecret bounds what is read of one credential in a form, in bytes.
	maxSecret = 4 << 10
)

// ErrFormTooLarge says that a form holds a credential and is too large to cut it out.
var ErrFormTooLarge = errors.New("the form holds a credential and is too large to cut it out")

// FormSecrets finds the credentials in the fields of an urlencoded or multipart form of any size, in bounded memory. A body that is no form
// holds none, and so does one that cannot be read as what it says it is: nobody could have used a credential in it.
func FormSecrets(contentType string, body io.Reader) ([]Secret, error) {
	media, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		return nil, nil //nolint:nilerr // what is no form has no fields
	}
	switch media {
	case "application/x-www-form-urlencoded":
		return pairSecrets(body)
	case "multipart/form-data":
		return partSecrets(multipart.NewReader(body, params["boundary"]))
	}
	return nil, nil
}

// pairSecrets reads name=value pairs and keeps no more of each than a credential has.
func pairSecrets(body io.Reader) ([]Secret, error) {
	var (
		found []Secret
		pair  []byte
	)
	r := bufio.NewReader(body)
	for {
		b, err := r.ReadByte()
		if err == nil && b != '&' && b != ';' {
			if len(pair) < 2*maxSecret {
				pair = append(pair, b)
			}
			continue
		}
		if name := paramName(string(pair)); Param(name) {
			_, value, _ := strings.Cut(string(pair), "=")
			found = append(found, Secret{name, value})
			if plain, err := url.QueryUnescape(value); err == nil && plain != value {
				found = append(found, Secret{name, plain})
			}
		}
		pair = pair[:0]
		switch {
		case errors.Is(err, io.EOF):
			return found, nil
		case err != nil:
			return nil, err
		}
	}
}

func partSecrets(parts *multipart.Reader) ([]Secret, error) {
	var found []Secret
	for {
		part, err := parts.NextRawPart()
		if err != nil {
			return found, nil //nolint:nilerr // the end, or no multipart form
		}
		if !Param(part.FormName()) {
			continue
		}
		value, err := io.ReadAll(io.LimitReader(part, maxSecret))
		if err != nil {
			return nil, err
		}
		found = append(found, Secret{part.FormName(), string(value)})
	}
}

// CutForm takes the credential fields out of a form. The other fields stay byte for byte.
func CutForm(contentType string, body io.Reader) ([]byte, error) {
	media, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(body, maxForm+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxForm {
		return nil, ErrFormTooLarge
	}
	if media == "multipart/form-data" {
		return cutParts(data, params["boundary"]), nil
	}
	clean, _ := Query(string(data))
	return []byte(clean), nil
}

// cutParts works on the raw text between the boundaries, so that what stays is exactly what was sent.
func cutParts(data []byte, boundary string) []byte {
	if boundary == "" {
		return data
	}
	delimiter := []byte("--" + boundary)
	sections := bytes.Split(data, delimiter)
	kept := sections[:0:0]
	for i, section := range sections {
		if i == 0 || !Param(fieldName(section)) {
			kept = append(kept, section)
		}
	}
	return bytes.Join(kept, delimiter)
}

// fieldName is the name of the form field in one section of a multipart body, or "".
func fieldName(section []byte) string {
	head, _, ok := bytes.Cut(section, []byte("\r\n\r\n"))
	if !ok {
		return ""
	}
	// A reader of one part parses the head as the standard does, quoting and continuation lines included.
	r := multipart.NewReader(bufio.NewReader(strings.NewReader("--x\r\n"+strings.TrimLeft(string(head), "\r\n")+"\r\n\r\n\r\n--x--")), "x")
	part, err := r.NextRawPart()
	if err != nil {
		return ""
	}
	return part.FormName()
}
