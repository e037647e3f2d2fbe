package admin

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"
	"go.uber.org/zap"

	"github.com/ocr-proxy/ocr-proxy/internal/dlq"
)

// maxOrder bounds the body of a request, in bytes.
const maxOrder = 64 << 10

// Decision is what a person says about a letter that is brought to its end.
type Decision struct {
	// Note is free text; a discard needs one.
	Note string `json:"note"`
	// Label is a word to group by, or the truth about the document.
	Label string `json:"label"`
	// By is who decides.
	By string `json:"by"`
}

// end is the handler that resolves or discards one letter.
func (l letters) end(done string, settle func(id string, r dlq.Resolution) (dlq.Letter, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var d Decision
		if !readOrder(w, r, &d) {
			return
		}
		letter, err := settle(chi.URLParam(r, "id"), dlq.Resolution{By: cmp.Or(d.By, "admin API"), Note: d.Note, Label: d.Label})
		if err != nil {
			l.refuse(w, err)
			return
		}
		l.log.Info("dead letter "+done, zap.String("id", letter.ID), zap.String("by", letter.Resolution.By), zap.String("label", d.Label))
		writeJSON(w, letter)
	}
}

// Prune asks for old letters to be removed.
type Prune struct {
	// DryRun counts and removes nothing.
	DryRun bool `json:"dry_run"`
	// OlderThan is a duration with a unit, such as "720h"; empty: dead_letters.retention.
	OlderThan string `json:"older_than"`
}

func (l letters) prune(w http.ResponseWriter, r *http.Request) {
	var p Prune
	if !readOrder(w, r, &p) {
		return
	}
	age := l.retention
	if p.OlderThan != "" {
		var err error
		if age, err = time.ParseDuration(p.OlderThan); err != nil || age <= 0 {
			say(w, http.StatusBadRequest, "older_than must be a duration above zero, such as 720h")
			return
		}
	}
	report, err := l.store.Prune(r.Context(), dlq.PruneOptions{OlderThan: age, DryRun: p.DryRun})
	if err != nil {
		l.refuse(w, err)
		return
	}
	writeJSON(w, report)
}

// readOrder reads the body of a request, which may be empty. Where it makes no sense the answer is given and it is false.
func readOrder(w http.ResponseWriter, r *http.Request, into any) bool {
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxOrder))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		say(w, http.StatusRequestEntityTooLarge, "the body is larger than 64 KiB")
		return false
	}
	if err != nil {
		say(w, http.StatusBadRequest, "the body cannot be read to its end")
		return false
	}
	if len(data) == 0 {
		return true
	}
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/json" {
		say(w, http.StatusUnsupportedMediaType, "the body must be JSON, with Content-Type: application/json")
		return false
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		say(w, http.StatusBadRequest, "the body is not as /api/v1/openapi.yaml describes it: "+err.Error())
		return false
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		say(w, http.StatusBadRequest, "the body must be one JSON object")
		return false
	}
	return true
}
