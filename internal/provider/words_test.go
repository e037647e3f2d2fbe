package provider

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ocr-proxy/ocr-proxy/internal/jsonstream"
)

// read is what the proxy does with a good answer.
func read(t testing.TB, p *Provider, body io.Reader) *Scores {
	t.Helper()
	r, paths := p.Words.Reader()
	require.NoError(t, jsonstream.Each(body, append(slices.Clone(p.Watch), paths...), 1000, func(path string, v jsonstream.Value) { r.Take(path, v) }))
	return r.Scores()
}

func known(t testing.TB, kind string) *Provider {
	t.Helper()
	p, err := Find(kind)
	require.NoError(t, err)
	return p
}

// below gives everything at a path of decoded JSON, by other means than the code that is tested.
func below(v any, path ...string) []any {
	if list, ok := v.([]any); ok {
		var all []any
		for _, item := range list {
			all = append(all, below(item, path...)...)
		}
		return all
	}
	if len(path) == 0 {
		return []any{v}
	}
	object, _ := v.(map[string]any)
	next, ok := object[path[0]]
	if !ok {
		return nil
	}
	return below(next, path[1:]...)
}

// Real answers: the figures equal those of a program that decodes the whole answer and sorts.
func TestConfidenceOfRealAnswers(t *testing.T) {
	t.Parallel()
	word := func(block any) bool { return block.(map[string]any)["BlockType"] == "WORD" }
	all := func(any) bool { return true }
	for _, c := range []struct {
		kind, file, wrap string
		words            []string
		score            []string
		most             float64
		is               func(any) bool
		count            int
	}{
		{"textract", "detect-document-text", "", []string{"Blocks"}, []string{"Confidence"}, 100, word, 50},
		{"textract", "get-document-analysis", "", []string{"Blocks"}, []string{"Confidence"}, 100, word, 50},
		{"textract", "analyze-expense", "", []string{"ExpenseDocuments", "Blocks"}, []string{"Confidence"}, 100, word, 50},
		{"textract", "analyze-id", "", []string{"IdentityDocuments", "Blocks"}, []string{"Confidence"}, 100, word, 50},
		{"azure", "general-document", "", []string{"analyzeResult", "pages", "words"}, []string{"confidence"}, 1, all, 1},
		{"azure", "invoice-v2", "", []string{"analyzeResult", "readResults", "lines", "words"}, []string{"confidence"}, 1, all, 0},
		{"azure", "receipt-v2", "", []string{"analyzeResult", "readResults", "lines", "words"}, []string{"confidence"}, 1, all, 0},
		{"documentai", "invoice", "document", []string{"document", "pages", "tokens"}, []string{"layout", "confidence"}, 1, all, 86},
		{"documentai", "blank", "document", []string{"document", "pages", "tokens"}, []string{"layout", "confidence"}, 1, all, 0},
		{"documentai", "layout-parser", "document", []string{"document", "pages", "tokens"}, []string{"layout", "confidence"}, 1, all, 0},
		{"vision", "file-annotate-invoice", "", []string{"responses", "fullTextAnnotation", "pages", "blocks", "paragraphs", "words"}, []string{"confidence"}, 1, all, 86},
	} {
		t.Run(c.file, func(t *testing.T) {
			t.Parallel()
			data, err := os.ReadFile(filepath.Join("..", "..", "..", "shared", "fixtures", "responses", c.kind, c.file+".json"))
			if err != nil {
				t.Skip("the recorded answers are not here: ", err)
			}
			if c.wrap != "" {
				data = []byte(`{"` + c.wrap + `":` + string(data) + `}`)
			}
			var decoded any
			require.NoError(t, json.Unmarshal(data, &decoded))
			var want []float64
			for _, object := range below(decoded, c.words...) {
				if !c.is(object) {
					continue
				}
				for _, score := range below(object, c.score...) {
					want = append(want, score.(float64)/c.most)
				}
			}
			got := read(t, known(t, c.kind), strings.NewReader(string(data)))
			require.Len(t, want, got.Count())
			if c.count == 50 {
				require.Greater(t, got.Count(), 30, "the answer has words")
			} else {
				require.Equal(t, c.count, got.Count())
			}
			if len(want) > 0 {
				requireFigures(t, want, got, 0)
			}
		})
	}
}

// requireFigures compares with the plain definitions; within is how far the percentile may be off.
func requireFigures(t *testing.T, want []float64, got *Scores, within float64) {
	t.Helper()
	sum := 0.0
	for _, v := range want {
		sum += v
	}
	sorted := slices.Sorted(slices.Values(want))
	place := 0
	for 10*(place+1) < len(sorted) {
		place++
	}
	require.Equal(t, len(want), got.Count())
	require.InDelta(t, sum/float64(len(want)), got.Mean(), 1e-12)
	require.InDelta(t, sorted[0], got.Min(), 0)
	require.InDelta(t, sorted[place], got.P10(), within)
}

func TestScores(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{1, 2, 9, 10, 11, 20, 21, 1000, exactScores, exactScores + 1, 5 * exactScores} {
		var s Scores
		var all []float64
		for range n {
			v := 1 - rng.Float64()*rng.Float64()
			all = append(all, v)
			s.Add(v)
		}
		within := 0.0
		if n > exactScores {
			within = 0.0001
		}
		requireFigures(t, all, &s, within)
	}
	var s Scores
	s.Add(-3)
	s.Add(17)
	require.InDelta(t, 0, s.Min(), 0)
	require.InDelta(t, 0.5, s.Mean(), 0, "what makes no sense counts as the nearer end")
}

func TestWordsOfEachKind(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		kind, body string
		count      int
		mean       float64
	}{
		"only words, whatever comes first": {"textract", `{"Blocks":[{"BlockType":"PAGE"},{"Confidence":50,"BlockType":"WORD","Geometry":{"Confidence":1}},
			{"BlockType":"LINE","Confidence":1},{"BlockType":"WORD","Confidence":100},{"BlockType":"CELL","Confidence":2}]}`, 2, 0.75},
		"a word without a score is none":    {"textract", `{"Blocks":[{"BlockType":"WORD"},{"BlockType":"WORD","Confidence":90},{"BlockType":"WORD","Confidence":null}]}`, 1, 0.9},
		"a score is not the next one's":     {"textract", `{"Blocks":[{"BlockType":"LINE","Confidence":10},{"BlockType":"WORD"},{"Confidence":20}]}`, 0, 0},
		"v2.1":                              {"azure", `{"analyzeResult":{"readResults":[{"lines":[{"words":[{"text":"a","confidence":0.5},{"text":"b"}]}]}]}}`, 1, 0.5},
		"lines, styles and fields are none": {"azure", `{"analyzeResult":{"pages":[{"words":[{"confidence":0.9}],"selectionMarks":[{"confidence":0.1}]}],"styles":[{"confidence":0.1}]}}`, 1, 0.9},
		"a zero is left out":                {"documentai", `{"document":{"pages":[{"tokens":[{"layout":{"confidence":1}},{"layout":{"orientation":"PAGE_UP"}},{}]}]}}`, 3, 1.0 / 3},
		"no scores were asked for":          {"documentai", `{"document":{"pages":[{"tokens":[{"layout":{"orientation":"PAGE_UP"}},{}]}]}}`, 0, 0},
		"defects are no words":              {"documentai", `{"document":{"pages":[{"imageQualityScores":{"detectedDefects":[{"confidence":1}]},"detectedLanguages":[{"confidence":1}]}]}}`, 0, 0},
		"images":                            {"vision", `{"responses":[{"fullTextAnnotation":{"pages":[{"confidence":0.1,"blocks":[{"paragraphs":[{"words":[{"confidence":0.5},{"symbols":[]}]}]}]}]}}]}`, 2, 0.25},
		"pages of a file":                   {"vision", `{"responses":[{"responses":[{"fullTextAnnotation":{"pages":[{"blocks":[{"paragraphs":[{"words":[{"confidence":0.5}]}]}]}]}}]}]}`, 1, 0.5},
		"text detection has none":           {"vision", `{"responses":[{"textAnnotations":[{"confidence":0}],"fullTextAnnotation":{"pages":[{"blocks":[{"paragraphs":[{"words":[{}]}]}]}]}}]}`, 0, 0},
		"asked for":                         {"mistral", `{"pages":[{"confidence_scores":{"average_page_confidence_score":0.1,"word_confidence_scores":[{"text":"a","confidence":0.5}]}}]}`, 1, 0.5},
		"not asked for":                     {"mistral", `{"pages":[{"markdown":"a","confidence_scores":null}]}`, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := read(t, known(t, c.kind), strings.NewReader(c.body))
			require.Equal(t, c.count, s.Count())
			if c.count > 0 {
				require.InDelta(t, c.mean, s.Mean(), 1e-12)
			}
		})
	}
}

// manyWords is an answer of about 3 MB.
func manyWords() string {
	rng := rand.New(rand.NewPCG(1, 2))
	var b strings.Builder
	b.WriteString(`{"DocumentMetadata":{"Pages":1},"JobStatus":"SUCCEEDED","Blocks":[`)
	for i := 0; b.Len() < 3<<20; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"BlockType":"WORD","Confidence":%v,"Text":"word%d","TextType":"PRINTED","Geometry":{"BoundingBox":{"Width":%v,"Height":%v,"Left":%v,"Top":%v},"Polygon":[{"X":%v,"Y":%v},{"X":%v,"Y":%v}]},"Id":"%08x"}`,
			99*rng.Float64(), i, rng.Float64(), rng.Float64(), rng.Float64(), rng.Float64(), rng.Float64(), rng.Float64(), rng.Float64(), rng.Float64(), rng.Uint32())
	}
	b.WriteString(`]}`)
	return b.String()
}

// bare takes every token and makes nothing of it.
type bare struct{}

func (bare) Begin(jsonstream.Kind) bool { return true }
func (bare) End()                       {}
func (bare) Key([]byte, bool) bool      { return true }
func (bare) String([]byte, bool)        {}
func (bare) Literal([]byte, bool)       {}

// To judge a large answer costs at most twice a bare pass over its tokens, and little memory.
func TestWhatReadingScoresCosts(t *testing.T) {
	text, p := manyWords(), known(t, "textract")
	once := func(do func()) time.Duration {
		least := time.Hour
		for range 7 {
			began := time.Now()
			do()
			least = min(least, time.Since(began))
		}
		return least
	}
	pass := once(func() { require.NoError(t, jsonstream.Walk(strings.NewReader(text), bare{})) })
	judged := once(func() { read(t, p, strings.NewReader(text)) })
	t.Logf("%d bytes: bare pass %v, judged %v, ratio %.2f", len(text), pass, judged, float64(judged)/float64(pass))
	require.LessOrEqual(t, judged, 2*pass)

	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	s := read(t, p, strings.NewReader(text))
	runtime.GC()
	runtime.ReadMemStats(&after)
	require.Less(t, int64(after.HeapAlloc)-int64(before.HeapAlloc), int64(1<<20), "kept beside the body")
	require.NotZero(t, s.P10())
	runtime.KeepAlive(text)
}

func BenchmarkScores(b *testing.B) {
	text, p := manyWords(), known(b, "textract")
	b.Run("bare pass", func(b *testing.B) {
		b.SetBytes(int64(len(text)))
		for b.Loop() {
			_ = jsonstream.Walk(strings.NewReader(text), bare{})
		}
	})
	b.Run("judged", func(b *testing.B) {
		b.SetBytes(int64(len(text)))
		b.ReportAllocs()
		for b.Loop() {
			read(b, p, strings.NewReader(text))
		}
	})
}
