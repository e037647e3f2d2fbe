package admin

import (
	"errors"
	"io/fs"
	"net/http"
	"strconv"
	"time"

	"github.com/go-chi/chi/v5"
	"go.uber.org/zap"

	"github.com/ocr-proxy/ocr-proxy/internal/dlq"
)

const (
	defaultPage = 100
	maxPage     = 1000
)

// letters serves dead letters for reading, without their payloads.
type letters struct {
	dir string
	log *zap.Logger
}

func (l letters) routes(r chi.Router) {
	r.Get("/api/v1/dead-letters", l.list)
	r.Get("/api/v1/dead-letters/{id}", l.show)
}

// letter is an envelope with the folder it lies in, which is its state.
type letter struct {
	*dlq.Envelope
	Status string `json:"status"`
}

func (l letters) list(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	filter := dlq.Filter{
		Provider: q.Get("provider"), Class: q.Get("class"), Outcome: q.Get("outcome"), Code: q.Get("code"), Tenant: q.Get("tenant"), Status: q.Get("status"),
	}
	if since := q.Get("since"); since != "" {
		at, err := time.Parse(time.RFC3339, since)
		if err != nil {
			say(w, http.StatusBadRequest, "since must be a time such as 2026-01-31T12:00:00Z")
			return
		}
		filter.Since = at
	}
	switch filter.Status {
	case "", dlq.StatusOpen, dlq.StatusClaimed, dlq.StatusResolved, dlq.StatusDiscarded:
	default:
		say(w, http.StatusBadRequest, "status must be open, claimed, resolved or discarded")
		return
	}
	limit := defaultPage
	if text := q.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > maxPage {
			say(w, http.StatusBadRequest, "limit must be a number from 1 to "+strconv.Itoa(maxPage))
			return
		}
		limit = n
	}
	reader, err := dlq.View(l.dir)
	if err != nil {
		l.fail(w, err)
		return
	}
	all := []letter{}
	more := false
	for found, err := range reader.List(filter) {
		switch {
		case dlq.PassedOver(err):
			l.log.Warn("a dead letter cannot be read", zap.Error(err))
			continue
		case err != nil:
			l.fail(w, err)
			return
		}
		if more = len(all) == limit; more {
			break
		}
		all = append(all, letter{found.Envelope, found.Status})
	}
	writeJSON(w, http.StatusOK, map[string]any{"dead_letters": all, "more": more})
}

func (l letters) show(w http.ResponseWriter, r *http.Request) {
	reader, err := dlq.View(l.dir)
	if err != nil {
		l.fail(w, err)
		return
	}
	found, err := reader.Get(chi.URLParam(r, "id"))
	switch {
	case errors.Is(err, dlq.ErrInvalidID), errors.Is(err, fs.ErrNotExist):
		say(w, http.StatusNotFound, "there is no such dead letter")
	case err != nil:
		l.fail(w, err)
	default:
		writeJSON(w, http.StatusOK, letter{found.Envelope, found.Status})
	}
}

func (l letters) fail(w http.ResponseWriter, err error) {
	l.log.Warn("dead letters cannot be read", zap.Error(err))
	say(w, http.StatusInternalServerError, "the dead letters cannot be read; the log says why")
}
