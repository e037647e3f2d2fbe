package proxy

import (
	"fmt"
	"io"
	"slices"

	"github.com/ocr-proxy/ocr-proxy/internal/classify"
	"github.com/ocr-proxy/ocr-proxy/internal/jsonstream"
	"github.com/ocr-proxy/ocr-proxy/internal/provider"
)

// Aggregate says how the scores of an answer's words become one figure.
type Aggregate uint8

// The aggregates, as the key review.aggregate names them.
const (
	ByMean Aggregate = iota
	ByMin
	ByP10
)

// Scrutiny says which good answers a person should look at. The zero value: none.
type Scrutiny struct {
	Threshold float64 // from 0 to 1, for the figure of all words; 0: whatever it is
	Aggregate Aggregate
}

// on reports whether answers have to be looked into for it.
func (r *Scrutiny) on() bool { return r.Threshold > 0 }

// figure is what the scores come to, and its name for people.
func (r *Scrutiny) figure(s *provider.Scores) (value float64, name string) {
	switch r.Aggregate {
	case ByMin:
		return s.Min(), "lowest"
	case ByP10:
		return s.P10(), "10th percentile of the"
	case ByMean:
	}
	return s.Mean(), "mean"
}

// lowConfidence is the fixed word for answers whose words the provider was not sure of.
const lowConfidence = "low_confidence"

// rounding is what sums of scores may be off, lest words of just the threshold fall below it.
const rounding = 1e-9

// insight is what was found inside a good answer.
type insight struct {
	fault     *classify.Fault  // a failure that is told there
	malformed bool             // labelled JSON, and none
	scores    *provider.Scores // of its words; nil: nobody asked
}

// review is the verdict on an answer that is good otherwise.
func (r *Scrutiny) review(v classify.Verdict, in insight) classify.Verdict {
	if v.Class != classify.Success || in.scores == nil || in.scores.Count() == 0 {
		return v
	}
	if figure, name := r.figure(in.scores); figure < r.Threshold-rounding {
		v.Class, v.Code, v.Reason = classify.Soft, lowConfidence, "review.threshold"
		v.Message = fmt.Sprintf("the %s confidence of %s is %.4f, below %v", name, plural(in.scores.Count(), "word"), figure, r.Threshold)
	}
	return v
}

// lookInto reads a good JSON answer once and finds the failure that is told inside and, for an account that reviews, the scores of its words. A
// *jsonstream.SyntaxError says that it is no JSON.
func lookInto(p *provider.Provider, r *Scrutiny, operation string, body io.Reader) (in insight, err error) {
	watch := p.Watch
	var words *provider.WordReader
	if r.on() && p.Words != nil {
		var paths []string
		words, paths = p.Words.Reader()
		watch = slices.Concat(watch, paths)
	}
	found, kept := jsonstream.Found{}, 0
	err = jsonstream.Each(body, watch, maxJudged, func(path string, v jsonstream.Value) {
		if words != nil && words.Take(path, v) {
			return
		}
		if kept++; kept > maxValues {
			return
		}
		v.Index, v.Names = slices.Clone(v.Index), slices.Clone(v.Names)
		found[path] = append(found[path], v)
	})
	if err != nil {
		return insight{}, err
	}
	if words != nil {
		in.scores = words.Scores()
	}
	if p.Judge == nil {
		return in, nil
	}
	if fault, failed := p.Judge(operation, found); failed {
		in.fault = &fault
	}
	return in, nil
}

// scores are those of the words in the answer that the worker is given; nil: none were asked for, or it is not an answer of this call's own.
func (x *exchange) scores() *provider.Scores {
	switch {
	case !x.outcome.good() || len(x.history) == 0:
		return nil
	case x.batch != nil && x.batch.scores != nil:
		return x.batch.scores
	case x.last != nil:
		return x.last.scores
	}
	return nil
}
