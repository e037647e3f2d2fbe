package testset

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"github.com/ocr-proxy/ocr-proxy/internal/fingerprint"
)

var (
	errChanged    = errors.New("the payload has another content than when it was stored: run `ocr-proxy dlq verify`")
	errCredential = errors.New("the request carries a credential in its body and no document: it is left where it is")
)

// documents writes the letter's payload and the documents in it, and gives the names of those that are the documents.
func (i Item) documents(folder string) ([]string, error) {
	if err := i.checkPayload(); err != nil {
		return nil, err
	}
	embedded, err := i.extract(folder)
	if err != nil {
		return nil, err
	}
	clean, err := i.clean()
	if err != nil {
		return nil, err
	}
	if len(embedded) > 0 && !clean {
		return embedded, nil
	}
	if !clean {
		return nil, errCredential
	}
	from, err := i.Payload()
	if err != nil {
		return nil, err
	}
	defer from.Close() //nolint:errcheck // Nothing was written.
	stem := "document"
	if len(embedded) > 0 || structured(i.Request.ContentType) {
		stem = "payload"
	}
	name, err := keep(folder, stem, i.Request.ContentType, from)
	if err != nil {
		return nil, fmt.Errorf("payload: %w", err)
	}
	if len(embedded) > 0 {
		return embedded, nil
	}
	return []string{name}, nil
}

// checkPayload compares the payload with what the letter says of it: a test that measures a broken document measures nothing.
func (i Item) checkPayload() error {
	from, err := i.Payload()
	if err != nil {
		return err
	}
	defer from.Close() //nolint:errcheck // Nothing was written.
	h := sha256.New()
	if _, err := io.Copy(h, from); err != nil {
		return fmt.Errorf("payload: %w", err)
	}
	if hex.EncodeToString(h.Sum(nil)) != i.Request.BodySHA256 {
		return errChanged
	}
	return nil
}

// extract writes the documents that the payload embeds.
func (i Item) extract(folder string) (names []string, err error) {
	var parts []*part
	defer func() {
		for _, p := range parts {
			p.remove() // What has its name by now stays.
		}
	}()
	ok, err := fingerprint.Extract(fingerprint.Request{ContentType: i.Request.ContentType, Body: i.Payload}, i.Layout, func() io.Writer {
		p := &part{path: filepath.Join(folder, "document-"+strconv.Itoa(len(parts)+1))}
		parts = append(parts, p)
		return p
	})
	if err != nil || !ok {
		return nil, err
	}
	for n, p := range parts {
		stem := "document"
		if len(parts) > 1 {
			stem += "-" + strconv.Itoa(n+1)
		}
		name, err := p.finish(stem)
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", n+1, err)
		}
		names = append(names, name)
	}
	return names, nil
}

// keep writes a file whose ending says what it is, and gives its name.
func keep(folder, stem, contentType string, from io.Reader) (string, error) {
	p := &part{path: filepath.Join(folder, stem+".part"), contentType: contentType}
	defer p.remove()
	if _, err := io.Copy(p, from); err != nil {
		return "", err
	}
	return p.finish(stem)
}

// part is a file that is being written and has no ending yet. It remembers its first error.
type part struct {
	path        string
	contentType string
	file        *os.File
	head        []byte // What it begins with.
	err         error
}

// Write implements io.Writer.
func (p *part) Write(data []byte) (int, error) {
	if p.file == nil && p.err == nil {
		p.file, p.err = create(p.path)
	}
	if p.err != nil {
		return 0, p.err
	}
	if room := sniffed - len(p.head); room > 0 {
		p.head = append(p.head, data[:min(room, len(data))]...)
	}
	var n int
	n, p.err = p.file.Write(data)
	return n, p.err
}

// finish gives the file its name.
func (p *part) finish(stem string) (name string, err error) {
	if p.file == nil {
		_, _ = p.Write(nil) // An empty file is one, too.
	}
	if p.err != nil {
		return "", p.err
	}
	if err := p.file.Close(); err != nil {
		return "", err
	}
	p.file = nil
	name = stem + ending(p.head, p.contentType)
	to := filepath.Join(filepath.Dir(p.path), name)
	if err := os.Rename(p.path, to); err != nil {
		return "", err
	}
	p.path = ""
	return name, nil
}

// remove takes back what was not finished.
func (p *part) remove() {
	if p.file != nil {
		_ = p.file.Close() // It goes.
	}
	if p.path != "" {
		_ = os.Remove(p.path) // Its folder is removed after a failure anyhow.
	}
}
