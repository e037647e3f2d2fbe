package jsonstream_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/ocr-proxy/ocr-proxy/internal/jsonstream"
)

// textractAnswer is a text of the shape of a Textract answer with so many words.
func textractAnswer(words int) string {
	rng := rand.New(rand.NewPCG(1, 2))
	var b strings.Builder
	b.WriteString(`{"DocumentMetadata":{"Pages":1},"JobStatus":"SUCCEEDED","Blocks":[`)
	for i := range words {
		if i > 0 {
			b.WriteByte(',')
		}
		x, y, w, h := rng.Float64(), rng.Float64(), rng.Float64(), rng.Float64()
		fmt.Fprintf(&b, `{"BlockType":"WORD","Confidence":%.14f,"Text":"word%d","TextType":"PRINTED","Geometry":{"BoundingBox":{"Width":%v,"Height":%v,"Left":%v,"Top":%v},`+
			`"Polygon":[{"X":%v,"Y":%v},{"X":%v,"Y":%v},{"X":%v,"Y":%v},{"X":%v,"Y":%v}]},"Id":"%08x-1c2d-4e5f-8a9b-%012x"}`,
			99*rng.Float64(), i, w, h, x, y, x, y, x+w, y, x+w, y+h, x, y+h, rng.Uint32(), rng.Uint64()>>16)
	}
	b.WriteString(`],"DetectDocumentTextModelVersion":"1.0"}`)
	return b.String()
}

func BenchmarkTextractAnswer(b *testing.B) {
	for _, words := range []int{40, 4000} {
		text := textractAnswer(words)
		raw := []byte(text)
		run := func(name string, check func() bool) {
			b.Run(fmt.Sprintf("%s/%dKB", name, len(text)>>10), func(b *testing.B) {
				b.SetBytes(int64(len(text)))
				b.ReportAllocs()
				for b.Loop() {
					if !check() {
						b.Fatal("not valid")
					}
				}
			})
		}
		run("encoding-json.Valid", func() bool { return json.Valid(raw) })
		run("Valid", func() bool { return jsonstream.Valid(strings.NewReader(text)) == nil })
		run("Pick status", func() bool {
			_, err := jsonstream.Pick(strings.NewReader(text), []string{"JobStatus", "StatusMessage", "Warnings[].ErrorCode"}, 256)
			return err == nil
		})
		run("Pick confidences", func() bool {
			_, err := jsonstream.Pick(strings.NewReader(text), []string{"Blocks[].BlockType", "Blocks[].Confidence"}, 64)
			return err == nil
		})
		run("Each confidence", func() bool {
			sum := 0.0
			err := jsonstream.Each(strings.NewReader(text), []string{"Blocks[].Confidence"}, 64, func(_ string, v jsonstream.Value) {
				f, _ := v.Float()
				sum += f
			})
			return err == nil && sum > 0
		})
	}
}

func BenchmarkLongString(b *testing.B) {
	text := `{"Document":{"Bytes":"` + strings.Repeat("QUJDREVGR0hJ", 400_000) + `"}}`
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if err := jsonstream.Valid(strings.NewReader(text)); err != nil {
			b.Fatal(err)
		}
	}
}
