package sim

import (
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// azureResult builds an analyzeResult.
type azureResult struct {
	model, version string
	// index is the unit of offsets and lengths: textElements, unicodeCodePoint or utf16CodeUnit.
	index string
	// inches measures pages in inches, as the service does for PDF, and else in pixels.
	inches bool
}

func (a azureResult) build(pages []Page) object {
	index := a.index
	if index == "" {
		index = "textElements"
	}
	var content strings.Builder
	offset := 0 // In units of the index.
	out := []object{}
	var pairs []azurePair
	for n, page := range pages {
		scale, unit := 1.0, "pixel"
		if a.inches {
			scale, unit = 1.0/renderDPI, "inch"
		}
		width, height := float64(page.Width)*scale, float64(page.Height)*scale
		begin := offset
		words, lines := []object{}, []object{}
		for i, line := range page.Lines {
			if n > 0 || i > 0 {
				content.WriteByte('\n')
				offset++
			}
			start := offset
			for j, w := range line.Words {
				if j > 0 {
					content.WriteByte(' ')
					offset++
				}
				length := a.measure(w.Text)
				words = append(words, object{
					"content": w.Text, "polygon": polygon(w.Box, width, height),
					"confidence": w.Confidence, "span": span(offset, length),
				})
				content.WriteString(w.Text)
				offset += length
			}
			lines = append(lines, object{
				"content": line.text(), "polygon": polygon(line.box(), width, height), "spans": []object{span(start, offset-start)},
			})
			if label, value, ok := line.pair(); ok {
				at := offset - a.measure(joinWords(value))
				pairs = append(pairs, azurePair{
					label: joinWords(label), value: joinWords(value), confidence: meanConfidence(value),
					page: n + 1, polygon: polygon(boxOf(value), width, height), span: span(at, offset-at),
				})
			}
		}
		out = append(out, object{
			"pageNumber": n + 1, "angle": 0, "width": width, "height": height, "unit": unit,
			"words": words, "lines": lines, "spans": []object{span(begin, offset-begin)},
		})
	}
	result := object{
		"apiVersion": a.version, "modelId": a.model, "stringIndexType": index, "contentFormat": "text",
		"content": content.String(), "pages": out, "paragraphs": []object{}, "tables": []object{}, "styles": []object{},
	}
	if a.model != "prebuilt-read" && a.model != "prebuilt-layout" {
		result["documents"] = []object{a.document(pages, pairs, offset)}
	}
	return result
}

// azurePair is a line of the form "label: value".
type azurePair struct {
	label, value string
	confidence   float64
	page         int
	polygon      []float64
	span         object
}

// document is what a model with fields finds: one field for each pair.
func (a azureResult) document(pages []Page, pairs []azurePair, length int) object {
	fields := object{}
	for _, p := range pairs {
		name := strings.ReplaceAll(strings.TrimSuffix(p.label, ":"), " ", "")
		fields[name] = object{
			"type": "string", "valueString": p.value, "content": p.value, "confidence": p.confidence,
			"boundingRegions": []object{{"pageNumber": p.page, "polygon": p.polygon}}, "spans": []object{p.span},
		}
	}
	var words []Word
	for _, page := range pages {
		words = append(words, page.words()...)
	}
	return object{
		"docType": strings.TrimPrefix(a.model, "prebuilt-"), "fields": fields, "confidence": meanConfidence(words),
		"boundingRegions": []object{}, "spans": []object{span(0, length)},
	}
}

// measure is the length of s in units of the index. Text elements are taken to be code points.
func (a azureResult) measure(s string) int {
	if a.index == "utf16CodeUnit" {
		return len(utf16.Encode([]rune(s)))
	}
	return utf8.RuneCountInString(s)
}

func span(offset, length int) object {
	return object{"offset": offset, "length": length}
}

func polygon(b Box, width, height float64) []float64 {
	flat := make([]float64, 0, 8)
	for _, c := range b.corners(width, height) {
		flat = append(flat, c[0], c[1])
	}
	return flat
}
