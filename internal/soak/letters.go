package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// letterFile is what is read of a letter. It is written down here anew, so that nothing is believed for the reason that the program believes it.
type letterFile struct {
	ID            string          `json:"id"`
	DocumentID    string          `json:"document_id"`
	Operation     string          `json:"operation"`
	RawPayloadRef string          `json:"raw_payload_ref"`
	Job           json.RawMessage `json:"job"`
	Request       struct {
		BodyBytes  int64  `json:"body_bytes"`
		BodySHA256 string `json:"body_sha256"`
	} `json:"request"`
	Resolution *struct {
		By string `json:"by"`
	} `json:"resolution"`
}

// readLetters reads every letter of a store, whatever its state, and every payload.
func readLetters(dir string) (map[string]letter, error) {
	found := map[string]letter{}
	for _, state := range []string{"open", "claimed", "resolved", "discarded"} {
		files, err := os.ReadDir(filepath.Join(dir, state))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
		for _, f := range files {
			text, err := os.ReadFile(filepath.Join(dir, state, f.Name()))
			if err != nil {
				return nil, err
			}
			var in letterFile
			if err := json.Unmarshal(text, &in); err != nil {
				return nil, fmt.Errorf("letter %s: %w", f.Name(), err)
			}
			if in.ID+".json" != f.Name() {
				return nil, fmt.Errorf("letter %s says that it is %q", f.Name(), in.ID)
			}
			if _, twice := found[in.ID]; twice {
				return nil, fmt.Errorf("letter %s lies in two folders", in.ID)
			}
			l := letter{document: in.DocumentID, state: state, aboutPoll: strings.HasPrefix(strings.ToLower(in.Operation), "get"), aboutJob: len(in.Job) > 0 && string(in.Job) != "null"}
			l.sum, l.payload = readPayload(dir, in)
			if in.Resolution != nil && in.Resolution.By == "replay" {
				l.byReplay = true
				result, err := os.ReadFile(filepath.Join(dir, "results", in.ID))
				if err != nil {
					return nil, fmt.Errorf("result of letter %s: %w", in.ID, err)
				}
				l.result = string(result)
			}
			found[in.ID] = l
		}
	}
	return found, nil
}

// readPayload hashes the payload of a letter, and says when it is not what the letter tells of it.
func readPayload(dir string, in letterFile) (sum [sha256.Size]byte, err error) {
	f, err := os.Open(filepath.Join(dir, filepath.FromSlash(in.RawPayloadRef)))
	if err != nil {
		return sum, err
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	n, err := io.Copy(h, f)
	if err != nil {
		return sum, err
	}
	sum = [sha256.Size]byte(h.Sum(nil))
	if in.Request.BodyBytes != n || !strings.EqualFold(in.Request.BodySHA256, hex.EncodeToString(sum[:])) {
		return sum, fmt.Errorf("the letter describes another body than these %d bytes", n)
	}
	return sum, nil
}
