package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ocr-proxy/ocr-proxy/internal/quality"
)

// kept is a folder with a summary of fifteen days, in which the total of invoices has dropped three days ago.
func kept(t *testing.T) string {
	t.Helper()
	var days []string
	for n := range 15 {
		series := func(operation, kind, field string, count int, mean float64) string {
			return fmt.Sprintf(`{"account":"docs","operation":%q,"type":%q,"field":%q,"n":%d,"sum":%f,"squares":%f,"bins":[[%d,%d]]}`,
				operation, kind, field, count, mean*float64(count), (mean*mean+0.0001)*float64(count), int(mean*50), count)
		}
		total := 0.95
		if n < 3 {
			total = 0.85
		}
		all := []string{series("getAnalyzeResult", "", "", 100, 0.97), series("getAnalyzeResult", "invoice", "invoicetotal", 100, total)}
		if n != 5 {
			all = append(all, series("getAnalyzeResult", "invoice", "vendorname", 2, 0.4))
		}
		days = append(days, fmt.Sprintf("%q:[%s]", time.Now().UTC().AddDate(0, 0, -n).Format(time.DateOnly), strings.Join(all, ",")))
	}
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, quality.FileName), []byte(`{"version":1,"days":{`+strings.Join(days, ",")+"}}"), 0o600))
	return dir
}

func TestQualityShowsTheDaysAndMarksDrops(t *testing.T) {
	t.Parallel()
	dir := kept(t)
	code, stdout, stderr := command(t, "", nil, "quality", "--dir", dir)
	require.Zero(t, code, stderr)
	lines := strings.Split(stdout, "\n")
	require.Equal(t, []string{"ACCOUNT", "OPERATION", "TYPE", "FIELD", "ANSWERS", "MEAN", "P10", "BEFORE", "MEAN", "BEFORE", "P10", "BEFORE", "DROP", "BY", "DAY"}, strings.Fields(lines[0]))
	require.Equal(t, []string{"docs", "getAnalyzeResult", "-", "-", "300", "0.970", "0.960", "1100", "0.970", "0.960", "-", "99999999999999"}, strings.Fields(lines[1]))
	require.Equal(t, []string{"docs", "getAnalyzeResult", "invoice", "invoicetotal", "300", "0.850", "0.840", "1100", "0.950", "0.940", "DROP", "-0.10", "99999999999888"}, strings.Fields(lines[2]))
	require.Equal(t, []string{"docs", "getAnalyzeResult", "invoice", "vendorname", "6", "0.400", "0.400", "20", "0.400", "0.400", "-", "44444444.44444"}, strings.Fields(lines[3]))
	require.Contains(t, lines[5], "The last 3 days against the 11 before")

	_, stdout, _ = command(t, "", nil, "quality", "--dir", dir, "--dropped")
	require.Contains(t, stdout, "invoicetotal")
	require.NotContains(t, stdout, "vendorname")
	_, stdout, _ = command(t, "", nil, "quality", "--dir", dir, "--dropped", "--field", "VendorName")
	require.Equal(t, "nothing has dropped\n", stdout)
	_, stdout, _ = command(t, "", nil, "quality", "--dir", dir, "--account", "other")
	require.Contains(t, stdout, "no answers with a confidence in the last 14 days; see review.threshold")

	_, stdout, _ = command(t, "", nil, "quality", "--dir", dir, "-o", "json", "--type", "Invoice", "--last", "1", "--days", "2")
	var list []shown
	require.NoError(t, json.NewDecoder(bytes.NewReader([]byte(stdout))).Decode(&list))
	require.Len(t, list, 2)
	require.Equal(t, []int{100, 100}, []int{list[0].Now.Count, list[0].Before.Count})
	require.False(t, list[0].Drop, "it was as low the day before")
	require.Len(t, list[0].Days, 2)
}

func TestQualityOfAFolderThatIsNotThere(t *testing.T) {
	t.Parallel()
	code, _, stderr := command(t, "", nil, "quality", "--dir", filepath.Join(t.TempDir(), "none"))
	require.Equal(t, exitFailure, code)
	require.Contains(t, stderr, "is not there; start the proxy once")
}

func TestWhatAnswersComeToIsKeptOverARestart(t *testing.T) {
	t.Parallel()
	upstream := provide(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"ExpenseDocuments":[{"Blocks":[{"BlockType":"WORD","Confidence":90}],"SummaryFields":[` +
			`{"Type":{"Text":"TOTAL","Confidence":99},"ValueDetection":{"Text":"950","Confidence":95}},{"Type":{"Text":"TAX"},"ValueDetection":{"Text":"1","Confidence":50}}]}]}`))
	})
	folder := t.TempDir()
	for run := range 2 {
		p := servingFrom(t, folder, nil, "textract", upstream, "review: {fields: {expense: {Total: 0.9}}}", "auth: {type: passthrough}")
		for n := range 3 {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.account+"/", strings.NewReader(fmt.Sprintf(`{"Document":{"Bytes":"Q%dQ="}}`, n+3*run)))
			require.NoError(t, err)
			req.Header.Set("X-Amz-Target", "Textract.AnalyzeExpense")
			req.Header.Set("Content-Type", "application/x-amz-json-1.1")
			resp, err := p.client.Do(req)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.Equal(t, "success", resp.Header.Get("Ocr-Proxy-Outcome"))
		}
		p.signal()
		require.Zero(t, p.end())
	}
	_, stdout, stderr := command(t, "", nil, "quality", "--dir", folder, "-o", "json")
	var list []shown
	require.NoError(t, json.Unmarshal([]byte(stdout), &list), stderr)
	require.Len(t, list, 2, "all words, and the one field that is named")
	require.Equal(t, quality.Series{Account: "acct", Operation: "AnalyzeExpense"}, list[0].Series)
	require.Equal(t, quality.Series{Account: "acct", Operation: "AnalyzeExpense", Type: "expense", Field: "total"}, list[1].Series)
	require.Equal(t, []int{6, 6}, []int{list[0].Now.Count, list[1].Now.Count})
	require.InDelta(t, 0.9, list[0].Now.Mean, 1e-9)
	require.InDelta(t, 0.95, list[1].Now.Mean, 1e-9)
}
