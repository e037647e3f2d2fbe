package child

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Metrics is the text of /metrics at one moment.
type Metrics string

// Scrape asks an admin listener for its metrics, over a connection of its own that it closes.
func Scrape(ctx context.Context, admin string) (Metrics, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+admin+"/metrics", http.NoBody)
	if err != nil {
		return "", err
	}
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	return Metrics(text), err
}

// Sum adds the series of a metric up; ok is false where it has none that can be read. With labels the name is followed by how their list begins:
// name{class="transient".
func (m Metrics) Sum(name string) (sum float64, ok bool) {
	for line := range strings.Lines(string(m)) {
		rest, found := strings.CutPrefix(line, name)
		if !found || rest == "" || rest[0] != '{' && rest[0] != ' ' && !strings.Contains(name, "{") {
			continue
		}
		// An exemplar may stand behind the value.
		series, _, _ := strings.Cut(rest, " # ")
		value, err := strconv.ParseFloat(strings.TrimSpace(series[strings.LastIndexByte(strings.TrimSpace(series), ' ')+1:]), 64)
		if err != nil {
			return 0, false
		}
		sum, ok = sum+value, true
	}
	return sum, ok
}
