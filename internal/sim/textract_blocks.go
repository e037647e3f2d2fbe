package sim

import (
	"maps"
	"slices"
)

// textractBlocks lays pages out as Textract's flat list of blocks: of each page first the PAGE, then its LINEs, then their
// WORDs, and with forms a pair of KEY_VALUE_SETs for each line of the form "label: value".
func textractBlocks(pages []Page, forms bool, ids *identifiers) []object {
	blocks := []object{}
	for n, page := range pages {
		b := blockBuilder{page: n + 1, ids: ids}
		var lines, words, pairs []object
		children := []string{}
		for _, line := range page.Lines {
			var members []string
			for _, w := range line.Words {
				word := b.block("WORD", []Word{w}, object{"Text": w.Text, "TextType": "PRINTED"})
				words = append(words, word)
				members = append(members, idOf(word))
			}
			block := b.block("LINE", line.Words, object{"Text": line.text()}, relation("CHILD", members))
			lines = append(lines, block)
			children = append(children, idOf(block))
			if label, _, ok := line.pair(); ok && forms {
				key, value := b.keyValue(line, members, len(label))
				pairs = append(pairs, key, value)
				children = append(children, idOf(key), idOf(value))
			}
		}
		whole := object{
			"BlockType": "PAGE", "Id": ids.uuid(), "Page": n + 1,
			"Geometry": textractGeometry(Box{Width: 1, Height: 1}),
		}
		if len(children) > 0 {
			whole["Relationships"] = []object{relation("CHILD", children)}
		}
		blocks = slices.Concat(blocks, []object{whole}, lines, words, pairs)
	}
	return blocks
}

// blockBuilder makes the blocks of one page.
type blockBuilder struct {
	page int
	ids  *identifiers
}

// block is a block around the words.
func (b blockBuilder) block(kind string, words []Word, extra object, relations ...object) object {
	block := object{
		"BlockType": kind, "Id": b.ids.uuid(), "Page": b.page,
		"Confidence": 100 * meanConfidence(words), "Geometry": textractGeometry(boxOf(words)),
	}
	maps.Copy(block, extra)
	if len(relations) > 0 {
		block["Relationships"] = relations
	}
	return block
}

// keyValue is the pair of a line whose first label words are the key.
func (b blockBuilder) keyValue(line Line, members []string, label int) (key, value object) {
	value = b.block("KEY_VALUE_SET", line.Words[label:], object{"EntityTypes": []string{"VALUE"}},
		relation("CHILD", members[label:]))
	key = b.block("KEY_VALUE_SET", line.Words[:label], object{"EntityTypes": []string{"KEY"}},
		relation("VALUE", []string{idOf(value)}), relation("CHILD", members[:label]))
	return key, value
}

func idOf(block object) string {
	id, _ := block["Id"].(string)
	return id
}

func relation(kind string, ids []string) object {
	return object{"Type": kind, "Ids": ids}
}

func textractGeometry(b Box) object {
	polygon := make([]object, 0, 4)
	for _, c := range b.corners(1, 1) {
		polygon = append(polygon, object{"X": c[0], "Y": c[1]})
	}
	return object{
		"BoundingBox": object{"Left": b.Left, "Top": b.Top, "Width": b.Width, "Height": b.Height},
		"Polygon":     polygon,
	}
}

// expenseDocuments makes one expense document of each page; its summary has the lines of the form "label: value".
func expenseDocuments(pages []Page, ids *identifiers) []object {
	documents := make([]object, 0, len(pages))
	for n, page := range pages {
		fields := []object{}
		for _, line := range page.Lines {
			label, value, ok := line.pair()
			if !ok {
				continue
			}
			fields = append(fields, object{
				"Type":           object{"Text": "OTHER", "Confidence": 100 * line.confidence()},
				"LabelDetection": expenseText(label),
				"ValueDetection": expenseText(value),
				"PageNumber":     n + 1,
			})
		}
		documents = append(documents, object{
			"ExpenseIndex": n + 1, "SummaryFields": fields, "LineItemGroups": []object{},
			"Blocks": textractBlocks([]Page{page}, false, ids),
		})
	}
	return documents
}

func expenseText(words []Word) object {
	return object{
		"Text": joinWords(words), "Confidence": 100 * meanConfidence(words), "Geometry": textractGeometry(boxOf(words)),
	}
}
