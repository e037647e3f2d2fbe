package replay

import (
	"os"

	"github.com/ocr-proxy/ocr-proxy/internal/dlq"
	"github.com/ocr-proxy/ocr-proxy/internal/provider"
)

// Estimate is what a replay would cost.
type Estimate struct {
	ID string `json:"id"`
	// Calls is how many calls a replay makes that succeeds at once, which is one.
	Calls int `json:"calls"`
	// Pages is how many pages the provider would charge for; nil where the request does not tell.
	Pages *int `json:"pages"`
	// Ambiguous reports that the provider may have done the work already.
	Ambiguous bool `json:"ambiguous"`
}

// Estimate says what a replay of a letter would cost, and sends nothing. Letters that have to wait can be estimated; the error is as for
// [Replayer.Replay].
func (r *Replayer) Estimate(id string) (Estimate, error) {
	letter, err := r.find(id)
	if err != nil {
		return Estimate{}, err
	}
	account, err := r.accountOf(letter)
	if err != nil {
		return Estimate{}, err
	}
	e := Estimate{ID: id, Calls: 1, Ambiguous: letter.Ambiguous}
	if n := r.pages(letter, account.Provider); n > 0 {
		e.Pages = &n
	}
	return e, nil
}

// pages are those that the request is about, as far as it tells; 0: it does not.
func (r *Replayer) pages(letter *dlq.Envelope, kind *provider.Provider) int {
	if kind.Charged == nil {
		return 0
	}
	path, _, err := r.letters.PayloadPath(letter)
	if err != nil || path == "" {
		return 0
	}
	f, err := os.Open(path) //nolint:gosec // a path that the reader made of a checked hash
	if err != nil {
		return 0
	}
	defer func() { _ = f.Close() }()
	return kind.Charged(letter.Operation, f)
}
