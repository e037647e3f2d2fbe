package provider

import "github.com/ocr-proxy/ocr-proxy/internal/jsonstream"

// Words says where good answers of a kind hold the words that were read, and how sure the provider is of each.
type Words struct {
	// At are the paths of the objects that stand for words.
	At []string
	// Score is where such an object has its score, as a path within it.
	Score string
	// Most is the score of what is certain: 1, or 100.
	Most float64
	// Kind is the member that says what an object stands for, and Word what it says of a word; "": all of them stand for words.
	Kind, Word string
	// DropsZero marks answers that leave a score of zero out. Elsewhere a word without a score is one of which nothing is known, and here too
	// where no word of the answer has one: then they were not asked for.
	DropsZero bool
}

// paths are what has to be watched.
func (w *Words) paths() []string {
	var list []string
	for _, at := range w.At {
		list = append(list, at+"{}", at+"."+w.Score)
		if w.Kind != "" {
			list = append(list, at+"."+w.Kind)
		}
	}
	return list
}

// role is what a path of Words tells.
type role uint8

const (
	wordEnds role = iota + 1
	wordScore
	wordKind
)

// WordReader takes the scores out of one answer while it is read.
type WordReader struct {
	words *Words
	roles map[string]role
	read  Scores

	score        float64
	scored, word bool // of the object that is being read
	silent       int  // words without a score
}

// Reader makes what reads the words of one answer, and names the paths that it has to be told of.
func (w *Words) Reader() (r *WordReader, paths []string) {
	paths = w.paths()
	r = &WordReader{words: w, roles: make(map[string]role, len(paths)), word: w.Kind == ""}
	for _, at := range w.At {
		r.roles[at+"{}"] = wordEnds
		r.roles[at+"."+w.Score] = wordScore
		if w.Kind != "" {
			r.roles[at+"."+w.Kind] = wordKind
		}
	}
	return r, paths
}

// Take is told of a value in the order of the answer; false: its path is none of the reader's.
func (r *WordReader) Take(path string, v jsonstream.Value) bool {
	switch r.roles[path] {
	case wordScore:
		r.score, r.scored = v.Float()
	case wordKind:
		r.word = v.Text == r.words.Word
	case wordEnds:
		switch {
		case !r.word:
		case r.scored:
			r.read.Add(r.score / r.words.Most)
		default:
			r.silent++
		}
		r.scored, r.word = false, r.words.Kind == ""
	default:
		return false
	}
	return true
}

// Scores are those of the whole answer, once it has been read to its end.
func (r *WordReader) Scores() *Scores {
	if r.words.DropsZero && r.read.Count() > 0 {
		for ; r.silent > 0; r.silent-- {
			r.read.Add(0)
		}
	}
	return &r.read
}
