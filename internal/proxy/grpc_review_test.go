package proxy

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ocr-proxy/ocr-proxy/internal/grpcwire"
)

// withWord is one image's item of an answer over gRPC, with one word of that confidence.
func withWord(confidence float32) []byte {
	item := grpcwire.AppendFloat(nil, 4, confidence)
	for _, number := range [...]int{3, 3, 4, 1, 12, 1} { // words, paragraphs, blocks, pages, fullTextAnnotation, responses
		item = grpcwire.AppendBytes(nil, number, item)
	}
	return item
}

func TestRPCBatchIsLookedAtAsAWhole(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		first, second float32
		outcome       string
	}{
		"the first item pulls it down":  {0.3, 0.9, "review"},
		"the second item pulls it down": {0.9, 0.3, "review"},
		"together they are enough":      {0.99, 0.75, "success"},
		"just the threshold is enough":  {0.8, 0.8, "success"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				first := bytes.Join([][]byte{withWord(c.first), annotated(14)}, nil)
				l := newRPCLab(t, reviewing("vision"), good(first), good(withWord(c.second)))
				r := l.send(t.Context(), rpcCall(annotateMethod, annotating("A", "B")))
				require.Equal(t, []string{c.outcome, "2"}, []string{r.own("Outcome"), r.own("Attempts")})
				require.Equal(t, string(grpcwire.Frame(bytes.Join([][]byte{withWord(c.first), withWord(c.second)}, nil))), r.body)
				require.Equal(t, 1, l.figure("confidence"))
				require.Equal(t, c.outcome == "review", l.sink.count() == 1)
				l.closing()
			})
		})
	}
}

func TestRPCFieldOfJustItsThresholdIsEnough(t *testing.T) {
	t.Parallel()
	for outcome, confidence := range map[string]float32{"success": 0.95, "review": 0.9499} {
		t.Run(outcome, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				entity := grpcwire.AppendFloat(grpcwire.AppendBytes(grpcwire.AppendBytes(nil, 2, []byte("Total")), 3, []byte("950")), 5, confidence)
				l := newRPCLab(t, reviewingBy("documentai", Scrutiny{Fields: map[string]map[string]float64{AnyType: {"total": 0.95}}}),
					good(grpcwire.AppendBytes(nil, 1, grpcwire.AppendBytes(nil, 7, entity))))
				r := l.send(t.Context(), rpcCall(processMethod, processing("scan")))
				require.Equal(t, outcome, r.own("Outcome"))
				require.Equal(t, 1, l.figure("field_confidence", "type", AnyType, "field", "total"), "counted over gRPC, too")
				l.closing()
			})
		})
	}
}
