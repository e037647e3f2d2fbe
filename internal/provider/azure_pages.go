package provider

import (
	"bytes"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/rivo/uniseg"

	"github.com/ocr-proxy/ocr-proxy/internal/jsonstream"
)

// azurePages asks for pages in the query of a job's start, by their number, which counts from 1 and which pages keep in a result of some of
// them only. How many pages a document has is told nowhere: where the start does not ask for a last page, only gaps are seen. The free tier
// reads the first two pages and does not say that there are more.
func azurePages() *Pages {
	return &Pages{
		Operation: "getAnalyzeResult",
		Result: func(poll *url.URL, job string) *url.URL {
			return poll.JoinPath("..", url.PathEscape(job))
		},
		Missing: azureMissing,
		Select: func(asked Asked, pages []int) (Asked, error) {
			kept := slices.DeleteFunc(strings.Split(asked.Query, "&"), func(pair string) bool {
				name, _, _ := strings.Cut(pair, "=")
				plain, err := url.QueryUnescape(name)
				return pair == "" || err == nil && plain == "pages"
			})
			asked.Query = strings.Join(append(kept, "pages="+ranges(pages)), "&")
			return asked, nil
		},
		Merge: azureMerge,
	}
}

// ranges writes ascending numbers as "3-5,7".
func ranges(pages []int) string {
	var all []string
	for i := 0; i < len(pages); {
		end := i
		for end+1 < len(pages) && pages[end+1] == pages[end]+1 {
			end++
		}
		one := strconv.Itoa(pages[i])
		if end > i {
			one += "-" + strconv.Itoa(pages[end])
		}
		all = append(all, one)
		i = end + 1
	}
	return strings.Join(all, ",")
}

func azureMissing(asked Asked, answer []byte) []int {
	query, err := url.ParseQuery(asked.Query)
	if err != nil || query.Has("output") || len(query["pages"]) > 1 {
		return nil // figures and searchable PDFs are fetched by the job's name: they would lack what another job has read
	}
	r, err := readAzure(answer)
	if err != nil || len(r.numbers) == 0 {
		return nil // the job brought nothing: to start it again is not to repair it
	}
	missing, ok := azureAsked(query.Get("pages"), slices.Max(r.numbers), r.came)
	if move := (azureMove{result: r}); !ok || len(missing) == 0 || move.run() != nil {
		return nil // pages that could not be put in are not paid for
	}
	return missing
}

// azureAsked lists the pages that did not come of those that "1-2,4", "5-" or "-10" asks for, or of all where nothing is asked for. It reports
// false for what it does not understand.
func azureAsked(pages string, last int, came func(page int) bool) (missing []int, ok bool) {
	if pages == "" {
		return inferred(1, last, came), true
	}
	all := map[int]bool{}
	for part := range strings.SplitSeq(pages, ",") {
		from, to, isRange := strings.Cut(strings.TrimSpace(part), "-")
		from, to = strings.TrimSpace(from), strings.TrimSpace(to)
		switch {
		case !isRange:
			to = from
		case from == "":
			from = "1"
		case to == "":
			first, err := strconv.Atoi(from)
			if err != nil || first < 1 {
				return nil, false
			}
			for _, page := range inferred(first, last, came) {
				all[page] = true
			}
			continue
		}
		if !addRanges(all, from+"-"+to) || all[0] {
			return nil, false
		}
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(all)), came), true
}

// azureResult is the analyzeResult of a job that succeeded.
type azureResult struct {
	*paged
	separator string // to be put behind the content, so that its last word does not run into what follows, as in JSON
	length    int    // of the content, in the unit of its spans
	shift     int    // that, and of the separator
	exact     bool   // characters are combined, which standards count differently: the last span has to confirm the length
}

// readAzure is an error for the answer about a job that goes on.
func readAzure(answer []byte) (r azureResult, err error) {
	found, err := jsonstream.Pick(bytes.NewReader(answer), []string{"status"}, maxPages)
	if err != nil || !strings.EqualFold(found.String("status"), "succeeded") {
		return r, fmt.Errorf("no result: %w", errItems)
	}
	if r.paged, err = readPaged(answer, "analyzeResult"); err != nil {
		return r, err
	}
	measure, ok := azureUnits()[r.string("stringIndexType")]
	if !ok {
		return r, fmt.Errorf("spans in an unknown unit: %w", errItems)
	}
	content, gap := r.string("content"), ""
	if content != "" && !strings.HasSuffix(content, "\n") {
		gap, r.separator = "\n", `\n`
	}
	r.length, r.shift = measure(content), measure(content+gap)
	r.exact = r.length < utf8.RuneCountInString(content)
	return r, nil
}

// azureUnits measure a text in what spans count: what a reader takes for one character, code points, or what UTF-16 encodes them in.
func azureUnits() map[string]func(text string) int {
	return map[string]func(text string) int{
		"textElements":     uniseg.GraphemeClusterCount,
		"unicodeCodePoint": utf8.RuneCountInString,
		"utf16CodeUnit":    func(text string) int { return len(utf16.Encode([]rune(text))) },
	}
}
