package proxy

import (
	"slices"

	"github.com/ocr-proxy/ocr-proxy/internal/jsonstream"
	"github.com/ocr-proxy/ocr-proxy/internal/provider"
)

// looking is one look at an answer, while its values are told one by one, whatever it is written in.
type looking struct {
	provider  *provider.Provider
	operation string
	paths     []string // of which it has to be told

	words     *provider.WordReader     // nil: nobody asks
	documents *provider.DocumentReader // as above
	result    *provider.Result         // as above
	values    jsonstream.Found         // for the provider's judgement
	kept      int
	found     insight
}

func newLook(p *provider.Provider, r *Scrutiny, operation string) *looking {
	l := &looking{provider: p, operation: operation, paths: p.Watched(), values: jsonstream.Found{}}
	var more []string
	if r.Threshold > 0 && p.Words != nil {
		l.words, more = p.Words.Reader()
		l.paths = slices.Concat(l.paths, more)
	}
	if r.readsFields() && p.Documents != nil {
		l.documents, more = p.Documents.Reader(r.wanted(), func(kind string, fields map[string]provider.Field) {
			l.found.fields = r.scores(l.found.fields, kind, fields)
			if l.found.finding.code == "" {
				l.found.finding = r.document(kind, fields)
			}
		})
		l.paths = slices.Concat(l.paths, more)
	}
	if r.looksFor() && p.Result.Of(operation) {
		l.result = p.Result
		for _, path := range p.Result.Paths() {
			if !slices.Contains(l.paths, path) {
				l.paths = append(slices.Clip(l.paths), path)
			}
		}
	}
	return l
}

// take is told of a value.
func (l *looking) take(path string, v jsonstream.Value) {
	read := l.result != nil && l.found.reading.take(l.result, path, v) // which others may want to know, too
	if l.words != nil && l.words.Take(path, v) || l.documents != nil && l.documents.Take(path, v) || read {
		return
	}
	if l.found.sign == "" && len(l.provider.Signs) > 0 {
		l.found.sign = l.provider.Sign(path, v.Text)
	}
	if l.kept++; l.kept > maxValues {
		return
	}
	v.Index, v.Names = slices.Clone(v.Index), slices.Clone(v.Names)
	l.values[path] = append(l.values[path], v)
}

// end is what was found in an answer that has been read to its end.
func (l *looking) end() insight {
	in := l.found
	if l.words != nil {
		in.scores = l.words.Scores()
	}
	in.reading.known = l.result != nil && (l.result.Whole == nil || l.result.Whole(l.values))
	if l.provider.Judge != nil {
		if fault, failed := l.provider.Judge(l.operation, l.values); failed {
			in.fault = &fault
		}
	}
	return in
}
