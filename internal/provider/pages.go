package provider

import (
	"net/url"
)

// Pages says how a document is read again for some of its pages only.
type Pages struct {
	// Operation is the name of the call whose good answer holds the pages.
	Operation string
	// Result is where the result of another job is asked for, given where the first one's is; nil where calls bring their result themselves. What
	// is asked for is then said by the call that started the job.
	Result func(poll *url.URL, job string) *url.URL
	// Missing lists the pages that a good answer lacks of those that were asked for, or that it marks as failed, ascending and in the provider's
	// own numbers. It is empty when nothing is missing, when nothing at all came, and when either text cannot be understood.
	Missing func(asked Asked, answer []byte) []int
	// Select makes what asks for those pages alone.
	Select func(asked Asked, pages []int) (Asked, error)
	// Merge puts a later answer's pages among those of an earlier one and lists the pages that it got. All that is not about pages stays as it
	// is in the earlier answer. An error says that the later answer is not about those pages, or that the two cannot be one.
	Merge func(answer, later []byte, pages []int) (merged []byte, got []int, err error)
}

// Asked is what of a call may say which pages of a document are wanted.
type Asked struct {
	Query string // as it stands in the target
	Body  []byte
}

// maxPages bounds the numbers of pages that are considered.
const maxPages = 10_000

// inferred lists the pages from the first to the last that did not come, where no request says which are there. More of them than came are no
// pages that got lost: whatever counted them means something else, and asking for them would be a guess that is billed.
func inferred(first, last int, came func(page int) bool) []int {
	var missing []int
	good := 0
	for page := first; page <= min(last, maxPages); page++ {
		if came(page) {
			good++
		} else {
			missing = append(missing, page)
		}
	}
	if len(missing) > good {
		return nil
	}
	return missing
}
