package provider

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ocr-proxy/ocr-proxy/internal/jsonstream"
)

// documents are the documents in an answer, each in one line, with the wanted fields.
func documents(t *testing.T, kind, body string, wanted ...string) (all []string) {
	t.Helper()
	names := map[string]bool{}
	for _, name := range wanted {
		names[name] = true
	}
	r, paths := known(t, kind).Documents.Reader(names, func(of string, fields map[string]Field) {
		var line strings.Builder
		line.WriteString(of + ":")
		for _, name := range slices.Sorted(maps.Keys(fields)) {
			f := fields[name]
			line.WriteString(" " + name)
			if f.Scored {
				fmt.Fprintf(&line, "=%.4g", f.Least)
			}
			if !f.Present {
				line.WriteString("!")
			}
		}
		all = append(all, line.String())
	})
	require.NoError(t, jsonstream.Each(strings.NewReader(body), paths, 1000, func(path string, v jsonstream.Value) { require.True(t, r.Take(path, v)) }))
	return all
}

func TestFieldsOfEachKind(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		kind, body string
		wanted     []string
		want       []string
	}{
		"the least of several": {
			"textract", `{"ExpenseDocuments":[{"SummaryFields":[{"Type":{"Text":"TOTAL","Confidence":1},"ValueDetection":{"Text":"9","Confidence":90}},
			{"ValueDetection":{"Text":"","Confidence":70},"Type":{"Text":"TOTAL"}},{"Type":{"Text":"TAX"},"ValueDetection":{"Text":"NOT_FOUND"}},{"Type":{"Text":"OTHER"},"ValueDetection":{"Text":"1","Confidence":2}}],
			"LineItemGroups":[{"LineItems":[{"LineItemExpenseFields":[{"Type":{"Text":"PRICE"},"ValueDetection":{"Text":"3","Confidence":50}}]}]}]},{"SummaryFields":[]}]}`,
			[]string{"total", "tax", "price"},
			[]string{"expense: price=0.5 tax! total=0.7", "expense:"},
		},
		"an identity": {
			"textract", `{"IdentityDocuments":[{"IdentityDocumentFields":[{"Type":{"Text":"SUFFIX"},"ValueDetection":{"Text":" ","Confidence":99}}]}]}`,
			[]string{"suffix"},
			[]string{"identity: suffix=0.99!"},
		},
		"lending": {
			"textract", `{"Results":[{"Extractions":[{"LendingDocument":{"LendingFields":[{"Type":"BORROWER","ValueDetections":[{"Text":"A","Confidence":80},{"Text":"B","Confidence":60}]}]}},
			{"ExpenseDocument":{"SummaryFields":[{"Type":{"Text":"BORROWER"},"ValueDetection":{"Text":"x","Confidence":10}}]}}]}]}`,
			[]string{"borrower"},
			[]string{"lending: borrower=0.6", "expense: borrower=0.1"},
		},
		"v3, the type last, with rows": {
			"azure", `{"analyzeResult":{"documents":[{"fields":{"Total":{"type":"currency","valueCurrency":{"amount":1},"content":"1","confidence":0.4},"Due":null,"Vendor":{"type":"string","confidence":0.9},
			"Items":{"type":"array","valueArray":[{"type":"object","valueObject":{"Amount":{"content":"2","confidence":0.3}}},{"type":"object","valueObject":{"Amount":{"content":"2","confidence":0.8}}}]},
			"Address":{"valueObject":{"City":{"valueString":"B","confidence":0.7}}}},"docType":"Invoice"}]}}`,
			[]string{"total", "due", "vendor", "items", "items.amount", "address.city"},
			[]string{"invoice: address.city=0.7 items items.amount=0.3 total=0.4 vendor=0.9!"},
		},
		"values that have parts, lists of values, rows within rows": {
			"azure", `{"analyzeResult":{"documents":[{"docType":"x","fields":{"Total":{"type":"currency","valueCurrency":{"amount":1},"confidence":0.4},
			"Companies":{"type":"array","valueArray":[{"type":"string","valueString":"A","confidence":0.9},{"type":"string","content":"B","confidence":0.3}]},
			"Paid":{"type":"array","valueArray":[{"type":"currency","valueCurrency":{"amount":3}}]},"None":{"type":"array","valueArray":[]},"Void":{"type":"object","valueObject":{}},
			"Accounts":{"type":"array","valueArray":[{"type":"object","valueObject":{"Transactions":{"type":"array","valueArray":[
			{"type":"object","valueObject":{"Amount":{"type":"currency","valueCurrency":{"amount":3},"confidence":0.2}}}]}}}]}}}]}}`,
			[]string{"total", "companies", "paid", "none", "void", "accounts", "accounts.transactions", "accounts.transactions.amount", "amount"},
			[]string{"x: accounts accounts.transactions accounts.transactions.amount=0.2 companies=0.3 paid total=0.4"},
		},
		"v2.1": {
			"azure", `{"analyzeResult":{"documentResults":[{"docType":"prebuilt:invoice","fields":{"Total":{"text":"1","valueNumber":1,"confidence":0.4}}},{"docType":"prebuilt:receipt","fields":{}}]}}`,
			[]string{"total"},
			[]string{"prebuilt:invoice: total=0.4", "prebuilt:receipt:"},
		},
		"a job that runs has none": {"azure", `{"status":"running"}`, []string{"total"}, nil},
		"entities and properties": {
			"documentai", `{"document":{"entities":[{"type":"total_amount","mentionText":"1","confidence":0.5},{"type":"line_item","mentionText":"a","confidence":1,
			"properties":[{"type":"line_item/amount","mentionText":"1","confidence":0.25}]},{"type":"due_date","mentionText":"x"}]}}`,
			[]string{"total_amount", "line_item", "line_item/amount", "due_date"},
			[]string{"document: due_date=0 line_item=1 line_item/amount=0.25 total_amount=0.5"},
		},
		"no scores at all": {"documentai", `{"document":{"entities":[{"type":"due_date","mentionText":"x"}]}}`, []string{"due_date"}, []string{"document: due_date"}},
		"nothing of one document is the next one's": {
			"documentai", `{"document":{"entities":[{"confidence":0.5,"mentionText":"a"},{"type":"a"}]}}`, []string{"a"}, []string{"document: a=0!"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, documents(t, c.kind, c.body, c.wanted...))
		})
	}
}

func TestFieldsOfRealAnswers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind, file, wrap string
		wanted           []string
		want             string
	}{
		{"textract", "analyze-id", "", []string{"first_name", "middle_name", "nothing"}, "identity: first_name=0.9851 middle_name=0.9919!"},
		{"textract", "analyze-expense", "", []string{"total", "tax"}, "expense: tax=0.9992 total=0.9993"},
		{"azure", "invoice-v2", "", []string{"amountdue", "subtotal"}, "prebuilt:invoice: amountdue=0.875 subtotal=1"},
		{"azure", "receipt-v2", "", []string{"total", "items.name"}, "prebuilt:receipt: items.name=0.916 total=0.985"},
		{"documentai", "invoice", "document", []string{"total_amount", "vat/tax_amount"}, "document: total_amount=0.7384 vat/tax_amount=0.00853"},
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
			require.Equal(t, []string{c.want}, documents(t, c.kind, string(data), c.wanted...))
		})
	}
}
