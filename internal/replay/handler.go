package replay

import (
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strconv"
	"time"

	"go.uber.org/zap"
)

// ServeHTTP is POST /api/v1/dead-letters/{id}/replay: it replays the letter and answers with the [Result] as JSON, status 200 also when it
// failed again. A letter that is not sent is told by status, with a sentence: 404 not open, 409 being replayed, 422 it cannot be, 425 too early
// for this letter, 503 for the whole account, the last two with Retry-After. The query parameter include_ambiguous=true stands for
// [EvenAmbiguous]; with dry_run=true nothing is sent and the answer is an [Estimate].
func (r *Replayer) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	id, query := req.PathValue("id"), req.URL.Query()
	var (
		answer any
		err    error
	)
	if query.Get("dry_run") == "true" {
		answer, err = r.Estimate(id)
	} else {
		var options []Option
		if query.Get("include_ambiguous") == "true" {
			options = append(options, EvenAmbiguous())
		}
		answer, err = r.Replay(req.Context(), id, options...)
	}
	if err != nil {
		r.explain(w, id, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(answer) // whoever asked may have gone
}

// explain turns why nothing was sent into a status. It is the only place that does.
func (r *Replayer) explain(w http.ResponseWriter, id string, err error) {
	status, text := http.StatusInternalServerError, "the replay broke off: "+err.Error()
	var (
		no    *RefusedError
		later *LaterError
	)
	switch {
	case errors.As(err, &no):
		status, text = http.StatusUnprocessableEntity, no.Sentence
	case errors.As(err, &later):
		status, text = http.StatusServiceUnavailable, later.Reason
		if later.Own {
			status = http.StatusTooEarly
		}
		w.Header().Set("Retry-After", strconv.Itoa(max(1, int(math.Ceil(time.Until(later.At).Seconds())))))
	case errors.Is(err, ErrClaimed):
		status, text = http.StatusConflict, "the dead letter is being replayed already"
	case errors.Is(err, ErrNotOpen):
		status, text = http.StatusNotFound, "no open dead letter has this id"
	default:
		r.log.Error("a replay broke off", zap.String("dead_letter_id", id), zap.Error(err))
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text + "\n")) // whoever asked may have gone
}
