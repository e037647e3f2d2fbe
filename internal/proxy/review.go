package proxy

import (
	"fmt"
	"io"
	"maps"
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
	// Fields are thresholds, from 0 to 1, and Required names of fields that must have a value, both by type of document; AnyType stands for all. Types
	// and names are in lower case.
	Fields   map[string]map[string]float64
	Required map[string][]string
	// Actions are what follows from answers that are not all that was asked for, by the fixed words for it. What the answer says of itself is told and
	// counted in any case, the rest is looked for where an action is given.
	Actions map[string]Action
}

// AnyType is the type under which fields of documents of all types are named.
const AnyType = "*"

// on reports whether there may be answers to look at.
func (r *Scrutiny) on() bool { return r.Threshold > 0 || r.readsFields() || r.acts() }

// acts reports whether something follows from silent failures.
func (r *Scrutiny) acts() bool { return len(r.Actions) > 0 }

// looksFor reports whether what answers do not say of themselves is looked for.
func (r *Scrutiny) looksFor() bool {
	return r.Actions[emptyText] != Accept || r.Actions[missingPages] != Accept
}

// readsFields reports whether answers have to be looked into for their fields.
func (r *Scrutiny) readsFields() bool { return len(r.Fields)+len(r.Required) > 0 }

// wanted are the names of all fields that something is said of.
func (r *Scrutiny) wanted() map[string]bool {
	names := map[string]bool{}
	for _, thresholds := range r.Fields {
		for name := range thresholds {
			names[name] = true
		}
	}
	for _, required := range r.Required {
		for _, name := range required {
			names[name] = true
		}
	}
	return names
}

// document finds what is wrong with the fields of one document; a field that is missing is worse than one that is unsure.
func (r *Scrutiny) document(kind string, fields map[string]provider.Field) (f finding) {
	for _, of := range [...]string{kind, AnyType} {
		for _, name := range r.Required[of] {
			if !fields[name].Present {
				return finding{missingField, "review.required", fmt.Sprintf("the field %s of a document of type %q has no value", name, kind)}
			}
		}
	}
	for _, of := range [...]string{kind, AnyType} {
		for _, name := range slices.Sorted(maps.Keys(r.Fields[of])) {
			if field, least := fields[name], r.Fields[of][name]; field.Scored && field.Least < least-rounding {
				return finding{lowField, "review.fields", fmt.Sprintf("the confidence of the field %s of a document of type %q is %.4f, below %v", name, kind, field.Least, least)}
			}
		}
	}
	return finding{}
}

// fieldScore is how sure the provider is of one field of one document, from 0 to 1.
type fieldScore struct {
	kind, name string
	least      float64
}

// maxFieldScores bounds how many of them are kept of one answer: a statement may be thousands of documents long.
const maxFieldScores = 1000

// scores adds those of one document. Types that the configuration does not name are all told as AnyType: answers choose them freely.
func (r *Scrutiny) scores(all []fieldScore, kind string, fields map[string]provider.Field) []fieldScore {
	if r.Fields[kind] == nil && r.Required[kind] == nil {
		kind = AnyType
	}
	for name, field := range fields {
		if field.Scored && len(all) < maxFieldScores {
			all = append(all, fieldScore{kind, name, field.Least})
		}
	}
	return all
}

// finding is a reason to look at an answer. The zero value is none.
type finding struct {
	code    string // fixed word
	rule    string // the key that decided
	message string
}

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

// The fixed words for what is found.
const (
	lowConfidence = "low_confidence" // the provider was not sure of the words
	lowField      = "low_field_confidence"
	missingField  = "missing_field"
)

// signText says to people what a sign means.
func signText(sign string) string {
	switch sign {
	case emptyText:
		return "the answer has no text, and the document is not blank"
	case missingPages:
		return "the answer has fewer pages than were asked for"
	case malformedOutput:
		return "the output was asked for as JSON and is none; prompt again"
	case provider.URLOnly:
		return "the result is only an address, of which the proxy sees nothing"
	}
	return "the provider says that the answer is " + sign
}

// rounding is what sums of scores may be off, lest words of just the threshold fall below it.
const rounding = 1e-9

// insight is what was found inside a good answer.
type insight struct {
	fault     *classify.Fault  // a failure that is told there
	malformed bool             // labelled JSON, and none
	scores    *provider.Scores // of its words; nil: nobody asked
	fields    []fieldScore     // of its documents, those that the configuration names
	finding   finding          // about its documents, the first one
	sign      string           // that it is not all that was asked for; "": there is none
	reading   reading          // of the document as a whole
}

// review is the verdict on an answer that is good otherwise.
func (r *Scrutiny) review(v classify.Verdict, in insight) classify.Verdict {
	if v.Class != classify.Success {
		return v
	}
	found := in.finding
	if found.code == "" && in.sign != "" && r.Actions[in.sign] != Accept {
		found = finding{in.sign, "review." + in.sign, signText(in.sign)}
	}
	if found.code == "" && in.scores != nil && in.scores.Count() > 0 {
		if figure, name := r.figure(in.scores); figure < r.Threshold-rounding {
			found = finding{lowConfidence, "review.threshold", fmt.Sprintf("the %s confidence of %s is %.4f, below %v", name, plural(in.scores.Count(), "word"), figure, r.Threshold)}
		}
	}
	if found.code != "" {
		v.Class, v.Code, v.Reason, v.Message = classify.Soft, found.code, found.rule, found.message
	}
	return v
}

// lookInto reads a good JSON answer once and finds the failure that is told inside and, for an account that reviews, the scores of its words. A
// *jsonstream.SyntaxError says that it is no JSON.
func lookInto(p *provider.Provider, r *Scrutiny, operation string, body io.Reader) (insight, error) {
	l := newLook(p, r, operation)
	if err := jsonstream.Each(body, l.paths, maxJudged, l.take); err != nil {
		return insight{}, err
	}
	return l.end(), nil
}

// looked is what was found inside the answer that the worker is given; nil: nobody has looked, or it is not an answer of this call's own.
func (x *exchange) looked() *insight {
	switch {
	case !x.outcome.good() || len(x.history) == 0:
		return nil
	case x.batch != nil && x.last != x.batch.from:
		return &x.batch.insight
	case x.last != nil:
		return &x.last.insight
	}
	return nil
}

// figures tells what the answer that the worker is given came to: of all its words, whose type and field are "", and of each field that the configuration
// names, all from 0 to 1.
func (x *exchange) figures(tell func(kind, field string, figure float64)) {
	in := x.looked()
	if in == nil {
		return
	}
	if in.scores != nil && in.scores.Count() > 0 {
		figure, _ := x.account.Scrutiny.figure(in.scores)
		tell("", "", figure)
	}
	for _, f := range in.fields {
		tell(f.kind, f.name, f.least)
	}
}
