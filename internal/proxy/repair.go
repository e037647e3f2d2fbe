package proxy

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/ocr-proxy/ocr-proxy/internal/classify"
	"github.com/ocr-proxy/ocr-proxy/internal/provider"
	"github.com/ocr-proxy/ocr-proxy/internal/retry"
)

// repair asks once for the pages that a good answer lacks, for those alone, and puts them in their places. Whatever goes wrong with that, the
// worker gets the answer as it came. It returns why there is no further attempt, as the loop does.
func (x *exchange) repair(out *http.Request, stop retry.Stop) retry.Stop {
	rules := x.account.Provider.Pages
	if stop != retry.Final || !x.repairs() {
		return stop
	}
	request, text := x.received(maxBatch), []byte(nil)
	if request != nil {
		var err error
		if text, err = x.last.plain(maxBatch); err != nil {
			return stop
		}
	}
	asked := provider.Asked{Body: request}
	missing := rules.Missing(asked, text)
	if len(missing) == 0 {
		return stop
	}
	selected, err := rules.Select(asked, missing)
	if err != nil || x.circuit.wait() > 0 || !x.fits(0) {
		return stop
	}
	before := pause{source: fromNone}
	defer before.end()
	if held := x.passGate(&before); held != retry.Continue {
		return x.answered(held)
	}
	permit, held := x.passBreaker(&before)
	if held != retry.Continue {
		return x.answered(held)
	}
	first := x.last
	x.last, x.replaced = nil, selected.Body
	x.try(out, permit, len(x.history)+1, before)
	wait, _ := x.policy.Next(len(x.history), 0, 0)
	x.holdOthers(x.lastAttempt().verdict, wait)
	later := x.last
	x.last, x.replaced, x.err = first, nil, nil
	good := x.lastAttempt().verdict.Class == classify.Success && x.putIn(rules, text, later, missing)
	if later != nil {
		later.discard()
	}
	if !good {
		// The attempt that brought the worker's answer stands last: it is the one that says how the request ended.
		n := len(x.history)
		x.history[n-1], x.history[n-2] = x.history[n-2], x.history[n-1]
	}
	return stop
}

// repairs reports whether there is an answer that may be repaired, and an attempt left to do so.
func (x *exchange) repairs() bool {
	rules := x.account.Provider.Pages
	return x.account.RepairPages && rules != nil && x.rpc == nil && rules.Operation == x.op.Name &&
		x.last != nil && x.last.held != nil && !x.last.streams && x.last.resp.StatusCode == http.StatusOK &&
		x.class() == classify.Success && len(x.history) < x.policy.MaxAttempts
}

// answered is why a request ends that has its answer: only its worker can spoil that.
func (x *exchange) answered(stop retry.Stop) retry.Stop {
	if stop == retry.Canceled {
		return stop
	}
	return retry.Final
}

// putIn puts the pages of a later answer among those of the first.
func (x *exchange) putIn(rules *provider.Pages, text []byte, later *answer, missing []int) bool {
	if later == nil || later.held == nil || later.streams {
		return false
	}
	more, err := later.plain(maxBatch)
	if err != nil {
		return false
	}
	merged, got, err := rules.Merge(text, more, missing)
	if err != nil || len(got) == 0 {
		return false
	}
	x.batch = &batch{answer: merged, head: x.last.resp}
	x.repaired = got
	return true
}

// provenance says which pages of the answer came from a call of their own, in the provider's numbers.
func (x *exchange) provenance() string {
	pages := make([]string, len(x.repaired))
	for i, page := range x.repaired {
		pages[i] = strconv.Itoa(page)
	}
	return "pages=" + strings.Join(pages, ",") + "; attempts=1"
}
