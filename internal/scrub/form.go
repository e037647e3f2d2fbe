package scrub

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"strings"
)

// maxForm bounds the form that Form can look through, in bytes; a larger one is refused rather than stored with a credential in it.
const maxForm = 64 << 20

// ErrFormTooLarge says that a form is too large to be searched for credentials.
var ErrFormTooLarge = errors.New("the form is too large to cut a credential out of it")

// IsForm reports whether a content type is one whose fields may carry a credential.
func IsForm(contentType string) bool {
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && (media == "application/x-www-form-urlencoded" || media == "multipart/form-data")
}

// Form cuts the credential fields out of an urlencoded or multipart form. Where no name is returned there is
// none, and the body can be kept as it is. The other fields stay byte for byte.
func Form(contentType string, body io.Reader) (clean []byte, cut []string, err error) {
	media, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		return nil, nil, nil //nolint:nilerr // what is no form has no fields
	}
	data, err := io.ReadAll(io.LimitReader(body, maxForm+1))
	if err != nil {
		return nil, nil, err
	}
	if len(data) > maxForm {
		return nil, nil, ErrFormTooLarge
	}
	switch media {
	case "application/x-www-form-urlencoded":
		text, names := Query(string(data))
		if len(names) == 0 {
			return nil, nil, nil
		}
		return []byte(text), names, nil
	case "multipart/form-data":
		return multipartForm(data, params["boundary"])
	}
	return nil, nil, nil
}

// multipartForm works on the raw text between the boundaries, so that what stays is exactly what was sent.
func multipartForm(data []byte, boundary string) (clean []byte, cut []string, err error) {
	if boundary == "" {
		return nil, nil, nil
	}
	delimiter := []byte("--" + boundary)
	sections := bytes.Split(data, delimiter)
	kept := sections[:0:0]
	for i, section := range sections {
		if name := fieldName(section); i > 0 && Param(name) {
			cut = append(cut, name)
			continue
		}
		kept = append(kept, section)
	}
	if len(cut) == 0 {
		return nil, nil, nil
	}
	return bytes.Join(kept, delimiter), cut, nil
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
