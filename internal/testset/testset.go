// Package testset writes dead letters as a folder from which people who train, tune or measure a model can load them: one folder a letter, and
// one line a document in metadata.jsonl, the form that Hugging Face's datasets read ("imagefolder"):
//
//	metadata.jsonl             file_name, label, and what is known of each document
//	<id>/document.pdf          the document, decoded where the request embeds it; document-1.png and so on for several
//	<id>/payload.json          the request's body, where it is not the document itself and carries no credential
//	<id>/letter.json           the dead letter
//	<id>/result.json           what a replay brought back
package testset

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/ocr-proxy/ocr-proxy/internal/dlq"
	"github.com/ocr-proxy/ocr-proxy/internal/fingerprint"
)

const (
	folderMode fs.FileMode = 0o700
	fileMode   fs.FileMode = 0o600

	metadataName = "metadata.jsonl"
)

// ErrNotEmpty says that there is something where a test set is to be written.
var ErrNotEmpty = errors.New("is not empty, and nothing is overwritten: choose a new folder")

// Writer writes one test set.
type Writer struct {
	dir      string
	metadata *os.File
}

// Create makes the folder, which must be new or empty. The error may wrap [ErrNotEmpty].
func Create(dir string) (*Writer, error) {
	if err := os.MkdirAll(dir, folderMode); err != nil {
		return nil, err
	}
	there, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	if len(there) > 0 {
		return nil, fmt.Errorf("folder %s %w", dir, ErrNotEmpty)
	}
	metadata, err := create(filepath.Join(dir, metadataName))
	if err != nil {
		return nil, err
	}
	return &Writer{dir: dir, metadata: metadata}, nil
}

// Close ends the set.
func (w *Writer) Close() error { return w.metadata.Close() }

// Item is one letter and what belongs to it.
type Item struct {
	dlq.Letter
	// Payload opens the body of the request. It may be called several times.
	Payload func() (io.ReadCloser, error)
	// Result opens what a replay brought back; its error wraps [fs.ErrNotExist] when there is nothing.
	Result func() (io.ReadCloser, error)
	// Layout says where requests of the letter's kind carry documents.
	Layout fingerprint.Layout
}

// row is a line of metadata.jsonl.
type row struct {
	FileName     string `json:"file_name"` // Relative, with slashes.
	Label        string `json:"label"`
	Note         string `json:"note"`
	ID           string `json:"id"`
	Status       string `json:"status"`
	DocumentID   string `json:"document_id"`
	Provider     string `json:"provider"`
	Kind         string `json:"kind"`
	Operation    string `json:"operation"`
	Outcome      string `json:"outcome"`
	ErrorClass   string `json:"error_class"`
	ErrorCode    string `json:"error_code"`
	ErrorMessage string `json:"error_message"`
	Result       string `json:"result"` // A file of the set, or empty.
}

// Add writes one letter. After an error nothing is left of it, and the next one may be added.
func (w *Writer) Add(i Item) (err error) {
	folder := filepath.Join(w.dir, i.ID)
	if err := os.Mkdir(folder, folderMode); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(folder))
		}
	}()
	if err := writeJSON(filepath.Join(folder, "letter.json"), i.Letter); err != nil {
		return err
	}
	documents, err := i.documents(folder)
	if err != nil {
		return err
	}
	result, err := i.result(folder)
	if err != nil {
		return err
	}
	var lines bytes.Buffer
	for _, name := range documents {
		r := row{
			FileName: path.Join(i.ID, name), ID: i.ID, Status: i.Status, DocumentID: i.DocumentID, Provider: i.Provider, Kind: i.Kind, Operation: i.Operation,
			Outcome: i.Outcome, ErrorClass: i.ErrorClass, ErrorCode: i.ErrorCode, ErrorMessage: i.ErrorMessage,
		}
		if i.Resolution != nil {
			r.Label, r.Note = i.Resolution.Label, i.Resolution.Note
		}
		if result != "" {
			r.Result = path.Join(i.ID, result)
		}
		line, err := json.Marshal(r)
		if err != nil {
			return err
		}
		lines.Write(append(line, '\n'))
	}
	_, err = w.metadata.Write(lines.Bytes()) // Last, so that a line leads to files that are there.
	return err
}

// result keeps what a replay brought back, if anything, and gives its name.
func (i Item) result(folder string) (name string, err error) {
	from, err := i.Result()
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("result: %w", err)
	}
	defer from.Close() //nolint:errcheck // Nothing was written.
	if name, err = keep(folder, "result", "", from); err != nil {
		return "", fmt.Errorf("result: %w", err)
	}
	return name, nil
}

// create makes a file that was not there.
func create(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, fileMode) //nolint:gosec // The operator names the folder.
}

func writeJSON(path string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	f, err := create(path)
	if err != nil {
		return err
	}
	_, err = f.Write(append(data, '\n'))
	return errors.Join(err, f.Close())
}
