package proxy

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/ocr-proxy/ocr-proxy/internal/classify"
	"github.com/ocr-proxy/ocr-proxy/internal/provider"
	"github.com/ocr-proxy/ocr-proxy/internal/retry"
)

// repair asks once for the pages that a good answer lacks, for those alone, and puts them in their places. Whatever goes wrong with that, the
// worker gets the answer as it came. It returns why there is no further attempt, as the loop does.
func (x *exchange) repair(out *http.Request, stop retry.Stop) retry.Stop {
	if stop != retry.Final || !x.repairs() {
		return stop
	}
	text, err := x.last.plain(maxBatch)
	if err != nil {
		return stop
	}
	again := x.readAgain
	if x.account.Provider.Pages.Result != nil {
		again = x.readInJob
	}
	if later, pages := again(out, text); later != nil {
		x.putIn(text, later, pages)
		later.discard()
	}
	return stop
}

// repairs reports whether there is an answer that may be repaired, and an attempt left to do so.
func (x *exchange) repairs() bool {
	rules := x.account.Provider.Pages
	return x.listener.RepairPages && rules != nil && x.rpc == nil && rules.Operation == x.op.Name &&
		x.last != nil && x.last.held != nil && !x.last.streams && x.last.resp.StatusCode == http.StatusOK &&
		x.class().Good() && len(x.history)-x.elsewhere < x.policy.MaxAttempts
}

// readAgain makes the worker's call for the pages that its answer lacks.
func (x *exchange) readAgain(out *http.Request, text []byte) (later *answer, pages []int) {
	rules, asked := x.account.Provider.Pages, provider.Asked{Body: x.received(maxBatch)}
	if pages = rules.Missing(asked, text); len(pages) == 0 {
		return nil, nil
	}
	selected, err := rules.Select(asked, pages)
	if err != nil {
		return nil, nil
	}
	x.replaced = selected.Body
	later, _ = x.beside(out)
	x.replaced = nil
	return later, pages
}

// beside makes one attempt at a call of the proxy's own, whose good answer it returns; nil: there is none. The attempt that brought the
// worker's answer stays the last: it is the one that says how the request ended.
func (x *exchange) beside(out *http.Request) (later *answer, v classify.Verdict) {
	v.Class = classify.Unknown
	if x.circuit.wait() > 0 || !x.fits(0) {
		return nil, v
	}
	before := pause{source: fromNone}
	defer before.end()
	permit, stop := x.pass(&before)
	if stop != retry.Continue {
		return nil, v
	}
	first := x.last
	x.last = nil
	x.try(out, permit, len(x.history)+1, before)
	n := len(x.history)
	v = x.history[n-1].verdict
	wait, _ := x.policy.Next(n-x.elsewhere, 0, 0)
	x.holdOthers(v, wait)
	later, x.last, x.err = x.last, first, nil
	if later != nil && (!v.Class.Good() || later.streams) {
		later.discard()
		later = nil
	}
	x.history[n-1], x.history[n-2] = x.history[n-2], x.history[n-1]
	return later, v
}

// putIn puts the pages of a later answer among those of the first.
func (x *exchange) putIn(text []byte, later *answer, pages []int) {
	if later.held == nil {
		return
	}
	more, err := later.plain(maxBatch)
	if err != nil {
		return
	}
	merged, got, err := x.account.Provider.Pages.Merge(text, more, pages)
	if err != nil || len(got) == 0 {
		return
	}
	x.batch = &batch{answer: merged, head: x.last.resp}
	x.repaired = slices.Clone(got)
	x.judgeRepaired(len(got) < len(pages))
}

// judgeRepaired judges the answer by all of its pages: the call for those that it lacked was not about the others.
func (x *exchange) judgeRepaired(lacks bool) {
	if !x.account.Scrutiny.on() {
		return
	}
	x.batch.insight = x.lookAtBatch()
	if lacks && x.batch.sign == "" && x.account.Scrutiny.Actions[missingPages] != Accept {
		x.batch.sign = missingPages
	}
	v := &x.history[len(x.history)-1].verdict
	*v = x.account.Scrutiny.review(classify.Verdict{Class: classify.Success, Aside: v.Aside}, x.batch.insight)
}

// provenance says which pages of the answer came from a call of their own, in the provider's numbers.
func (x *exchange) provenance() string {
	pages := make([]string, len(x.repaired))
	for i, page := range x.repaired {
		pages[i] = strconv.Itoa(page)
	}
	return "pages=" + strings.Join(pages, ",") + "; attempts=1"
}
