package admin

import (
	"bytes"
	"cmp"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/go-chi/chi/v5"
	"go.uber.org/zap"

	"github.com/ocr-proxy/ocr-proxy/internal/classify"
	"github.com/ocr-proxy/ocr-proxy/internal/dlq"
)

//go:embed page
var pageFiles embed.FS

const (
	// pageLetters is how many letters stand on one page.
	pageLetters = 50
	// pageGroups is how many groups of letters the first page names.
	pageGroups = 20
	// pagePolicy lets a page load and call nothing but this listener, and no script that stands in a text.
	pagePolicy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)

// pages are what people look at: accounts, letters, and the life of one document. They change nothing themselves; their script calls the API.
type pages struct {
	letters
	accounts  func() []Account
	templates *template.Template
}

func newPages(o Options, l letters) (*pages, error) {
	t, err := template.New("page").Funcs(template.FuncMap{
		"ago": humanize.Time, "clock": clock, "brief": brief,
		"bytes": func(n int64) string { return humanize.IBytes(uint64(max(n, 0))) },
	}).ParseFS(pageFiles, "page/*.html")
	if err != nil {
		return nil, fmt.Errorf("the page's templates: %w", err)
	}
	return &pages{letters: l, accounts: o.Accounts, templates: t}, nil
}

func (p *pages) routes(r chi.Router) {
	r.Get("/", p.overview)
	r.Get("/letters", p.list)
	r.Get("/letters/{id}", p.letter)
	for name, kind := range map[string]string{"page.css": "text/css", "page.js": "text/javascript", "icon.svg": "image/svg+xml"} {
		r.Get("/assets/"+name, func(w http.ResponseWriter, _ *http.Request) {
			data, err := fs.ReadFile(pageFiles, "page/"+name)
			if err != nil {
				say(w, http.StatusNotFound, "there is no such file")
				return
			}
			w.Header().Set("Content-Type", kind+"; charset=utf-8")
			w.Header().Set("X-Content-Type-Options", "nosniff")
			w.Header().Set("Cache-Control", "no-cache")
			_, _ = w.Write(data) // whoever asked may have gone
		})
	}
}

// frame is what every page has.
type frame struct{ Title, Here, Problem string }

// accountView is an account as the page shows it.
type accountView struct {
	Account
	OpenFor string
	Pauses  []string
	Queues  []queueLine
	JobText string
	Chart   chart
	Calls   int
	Share   string
}

// groupView is a group of letters with the way to them.
type groupView struct {
	dlq.Group
	Link string
}

func (p *pages) overview(w http.ResponseWriter, _ *http.Request) {
	data := struct {
		frame
		Accounts []accountView
		Groups   []groupView
	}{frame: frame{Title: "Accounts", Here: "accounts"}}
	for _, a := range p.accounts() {
		v := accountView{Account: a, Chart: newChart(a.Minutes), Queues: queueLines(a.Queue), JobText: jobsText(a.Jobs)}
		for _, m := range a.Minutes {
			v.Calls += m.Answers()
		}
		if a.Breaker.OpenSeconds > 0 {
			v.OpenFor = seconds(a.Breaker.OpenSeconds)
		}
		for operation, left := range a.Paused {
			v.Pauses = append(v.Pauses, operation+" paused for "+seconds(left))
		}
		slices.Sort(v.Pauses)
		if a.LastHour.DeadLettered > 0 {
			v.Share = strconv.FormatFloat(100*float64(a.LastHour.DeadLettered)/float64(max(1, a.LastHour.Requests)), 'f', 1, 64) + " %"
		}
		data.Accounts = append(data.Accounts, v)
	}
	groups, err := p.groups()
	if err != nil {
		p.fail(w, err)
		return
	}
	data.Groups = groups
	p.render(w, http.StatusOK, "accounts", data)
}

func (p *pages) groups() ([]groupView, error) {
	reader, err := dlq.View(p.dir)
	if err != nil {
		return nil, err
	}
	groups, err := reader.Top(dlq.Filter{}, dlq.TopOptions{})
	if err != nil {
		p.log.Warn("some dead letters cannot be read", zap.Error(err))
	}
	var all []groupView
	for _, g := range groups[:min(len(groups), pageGroups)] {
		q := url.Values{"provider": {g.Provider}, "class": {g.Class}, "outcome": {g.Outcome}}
		if g.Code != "" {
			q.Set("code", g.Code)
		}
		all = append(all, groupView{Group: g, Link: "/letters?" + q.Encode()})
	}
	return all, nil
}

func (p *pages) list(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	data := struct {
		frame
		Filter                             dlq.Filter
		Status, Query, Next, Since, Until  string
		More                               bool // of the filters that are seldom used some is set
		Letters                            []dlq.Letter
		Statuses, Names, Outcomes, Classes []string
	}{
		frame:    frame{Title: "Dead letters", Here: "letters"},
		Statuses: []string{dlq.StatusOpen, dlq.StatusClaimed, dlq.StatusResolved, dlq.StatusDiscarded},
		Outcomes: []string{"permanent", "exhausted", "circuit_open", "review", "rejected"},
	}
	for _, a := range p.accounts() {
		data.Names = append(data.Names, a.Name)
	}
	for _, c := range classify.Classes() {
		data.Classes = append(data.Classes, c.String())
	}
	data.Since, data.Until = q.Get("since"), q.Get("until")
	data.More = slices.ContainsFunc([]string{"operation", "tenant", "document", "since", "until"}, func(name string) bool { return q.Get(name) != "" })
	filter, _, err := query(q)
	if filter.Provider != "" && !slices.Contains(data.Names, filter.Provider) { // letters may be of an account that is gone
		data.Names = append(data.Names, filter.Provider)
	}
	data.Filter, data.Status = filter, cmp.Or(filter.Status, dlq.StatusOpen)
	if err != nil {
		data.Problem = err.Error()
		p.render(w, http.StatusBadRequest, "letters", data)
		return
	}
	reader, err := dlq.View(p.dir)
	if err != nil {
		p.fail(w, err)
		return
	}
	found, err := p.page(r.Context(), reader, filter, pageLetters)
	if errors.Is(err, dlq.ErrInvalidID) {
		data.Problem = "the cursor is no dead letter's id"
		p.render(w, http.StatusBadRequest, "letters", data)
		return
	}
	if err != nil {
		p.fail(w, err)
		return
	}
	data.Letters = found.Letters
	q.Del("cursor")
	data.Query = q.Encode()
	if found.Next != "" {
		q.Set("cursor", found.Next)
		data.Next = "/letters?" + q.Encode()
	}
	p.render(w, http.StatusOK, "letters", data)
}

func (p *pages) letter(w http.ResponseWriter, r *http.Request) {
	reader, err := dlq.View(p.dir)
	if err != nil {
		p.fail(w, err)
		return
	}
	found, err := reader.Find(chi.URLParam(r, "id"))
	switch {
	case errors.Is(err, dlq.ErrInvalidID), errors.Is(err, fs.ErrNotExist):
		p.render(w, http.StatusNotFound, "problem", frame{Title: "There is no such dead letter", Here: "letters", Problem: "It may have been pruned. The list has those that are left."})
	case err != nil:
		p.fail(w, err)
	default:
		p.render(w, http.StatusOK, "letter", struct {
			frame
			Letter dlq.Letter
			Life   []moment
		}{frame{Title: "Dead letter " + brief(found.DocumentID), Here: "letters"}, found, life(found)})
	}
}

// render writes a page whole or, when it cannot, a sentence in its place.
func (p *pages) render(w http.ResponseWriter, status int, name string, data any) {
	var b bytes.Buffer
	if err := p.templates.ExecuteTemplate(&b, name, data); err != nil {
		p.log.Error("a page cannot be written", zap.String("page", name), zap.Error(err))
		say(w, http.StatusInternalServerError, "this page cannot be written; the log says why")
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", pagePolicy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // whoever asked may have gone
}

func (p *pages) fail(w http.ResponseWriter, err error) {
	p.log.Warn("dead letters cannot be read", zap.Error(err))
	p.render(w, http.StatusInternalServerError, "problem", frame{Title: "The dead letters cannot be read", Problem: "The log says why."})
}

func seconds(s float64) string {
	return time.Duration(s * float64(time.Second)).Round(time.Second).String()
}

func clock(t time.Time) string { return t.UTC().Format("01-02 15:04:05.000Z") }

// brief is a document's name, cut where it is a hash.
func brief(id string) string {
	if dlq.IsHash(id) {
		return id[:dlq.ShortHash] + "…"
	}
	return id
}
