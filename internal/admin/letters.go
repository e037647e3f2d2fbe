package admin

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	"go.uber.org/zap"

	"github.com/ocr-proxy/ocr-proxy/internal/dlq"
)

const (
	defaultPage = 100
	maxPage     = 1000
)

// letters serves dead letters, without their payloads, and takes decisions about them.
type letters struct {
	dir       string
	store     *dlq.Store
	retention time.Duration
	log       *zap.Logger
}

func (l letters) routes(r chi.Router) {
	r.Get("/api/v1/dead-letters", l.list)
	r.Get("/api/v1/dead-letters/{id}", l.show)
	r.Post("/api/v1/dead-letters/{id}/resolve", l.end("resolved", l.store.Resolve))
	r.Post("/api/v1/dead-letters/{id}/discard", l.end("discarded", l.store.Discard))
	r.Post("/api/v1/dead-letters/prune", l.prune)
}

// page is a part of a list. The cursor needs a place beside the letters, so a list is an object here; `ocr-proxy dlq list`, which writes all
// there is, makes it one array of the same letters.
type page struct {
	Letters []dlq.Letter `json:"dead_letters"`
	Next    string       `json:"next"` // the cursor of the page that follows; empty on the last one
}

func (l letters) list(w http.ResponseWriter, r *http.Request) {
	filter, limit, err := query(r.URL.Query())
	if err != nil {
		say(w, http.StatusBadRequest, err.Error())
		return
	}
	reader, err := dlq.View(l.dir)
	if err != nil {
		l.fail(w, err)
		return
	}
	found, err := l.page(r.Context(), reader, filter, limit)
	if err != nil {
		l.refuse(w, err)
		return
	}
	writeJSON(w, found)
}

// page reads the letters that a filter selects, up to a limit.
func (l letters) page(ctx context.Context, reader *dlq.Reader, filter dlq.Filter, limit int) (page, error) {
	found := page{Letters: []dlq.Letter{}}
	for letter, err := range reader.List(filter) {
		switch {
		case ctx.Err() != nil:
			return found, context.Cause(ctx) // whoever asked has gone
		case dlq.PassedOver(err):
			l.log.Warn("a dead letter cannot be read", zap.Error(err))
			continue
		case err != nil:
			return found, err
		}
		if len(found.Letters) == limit { // this one is on the next page
			found.Next = found.Letters[limit-1].ID
			break
		}
		found.Letters = append(found.Letters, letter)
	}
	return found, nil
}

// query reads the parameters of a list. The error is a sentence for whoever asked.
func query(q url.Values) (f dlq.Filter, limit int, err error) {
	text := map[string]*string{
		"provider": &f.Provider, "class": &f.Class, "outcome": &f.Outcome, "code": &f.Code, "operation": &f.Operation, "tenant": &f.Tenant,
		"document": &f.Document, "status": &f.Status, "cursor": &f.Before,
	}
	times := map[string]*time.Time{"since": &f.Since, "until": &f.Until}
	limit = defaultPage
	for name := range q {
		value := q.Get(name)
		switch {
		case text[name] != nil:
			*text[name] = value
		case times[name] != nil && value != "":
			if *times[name], err = time.Parse(time.RFC3339, value); err != nil {
				return f, 0, errors.New(name + " must be a time such as 2026-01-31T12:00:00Z")
			}
		case name == "limit" && value != "":
			if limit, err = strconv.Atoi(value); err != nil || limit < 1 || limit > maxPage {
				return f, 0, errors.New("limit must be a number from 1 to " + strconv.Itoa(maxPage))
			}
		case times[name] == nil && name != "limit":
			return f, 0, errors.New("there is no parameter " + strconv.Quote(name) + "; /api/v1/openapi.yaml lists what there is")
		}
	}
	if known := []string{"", dlq.StatusOpen, dlq.StatusClaimed, dlq.StatusResolved, dlq.StatusDiscarded}; !slices.Contains(known, f.Status) {
		return f, 0, errors.New("status must be " + strings.Join(known[1:4], ", ") + " or " + known[4])
	}
	return f, limit, nil
}

func (l letters) show(w http.ResponseWriter, r *http.Request) {
	reader, err := dlq.View(l.dir)
	if err != nil {
		l.fail(w, err)
		return
	}
	found, err := reader.Find(chi.URLParam(r, "id"))
	if err != nil {
		l.refuse(w, err)
		return
	}
	writeJSON(w, found)
}

// refuse is the one place in which an error of the store becomes an answer.
func (l letters) refuse(w http.ResponseWriter, err error) {
	switch {
	case errors.Is(err, dlq.ErrInvalidID):
		say(w, http.StatusNotFound, "there is no such dead letter: give its id, or the first eight characters of it or more")
	case errors.Is(err, dlq.ErrUnreadable):
		l.log.Warn("a dead letter cannot be read", zap.Error(err))
		say(w, http.StatusInternalServerError, "this dead letter cannot be read: run `ocr-proxy dlq verify`")
	case errors.Is(err, dlq.ErrUnread):
		l.log.Warn("a dead letter cannot be read now", zap.Error(err))
		say(w, http.StatusInternalServerError, "this dead letter cannot be read now: try again, and look at the disk")
	case errors.Is(err, dlq.ErrNotOpen), errors.Is(err, dlq.ErrPruning):
		say(w, http.StatusConflict, err.Error())
	case errors.Is(err, dlq.ErrAmbiguous), errors.Is(err, dlq.ErrNoReason):
		say(w, http.StatusBadRequest, err.Error())
	case errors.Is(err, fs.ErrClosed):
		say(w, http.StatusServiceUnavailable, "the proxy is ending: ask the next one")
	case errors.Is(err, fs.ErrNotExist):
		say(w, http.StatusNotFound, "there is no such dead letter; it may have been pruned")
	default:
		l.fail(w, err)
	}
}

// fail is for what is not the fault of whoever asked; the answer tells nothing of the machine.
func (l letters) fail(w http.ResponseWriter, err error) {
	l.log.Error("the dead letters cannot be read or changed", zap.Error(err))
	say(w, http.StatusInternalServerError, "the dead letters cannot be read or changed; the log says why")
}
