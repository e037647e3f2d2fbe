package demo

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// scrape is what /metrics told at one moment.
type scrape map[string]*dto.MetricFamily

// readMetrics reads the proxy's metrics from its admin listener.
func readMetrics(ctx context.Context, client *http.Client, admin string) (scrape, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+admin+"/metrics", http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("read the metrics: %w", err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("read the metrics: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("read the metrics: the admin listener answered %s", resp.Status)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("read the metrics: %w", err)
	}
	return families, nil
}

// labels are conditions on a series, values by name. An empty value leaves the label open.
type labels map[string]string

func (l labels) match(m *dto.Metric) bool {
	for name, want := range l {
		if want == "" {
			continue
		}
		if !slices.ContainsFunc(m.GetLabel(), func(p *dto.LabelPair) bool { return p.GetName() == name && p.GetValue() == want }) {
			return false
		}
	}
	return true
}

// sum adds the values of all series that match, in whole numbers; of a histogram it is the number of observations.
func (s scrape) sum(name string, l labels) int { return int(s.value(name, l)) }

// value is sum without rounding.
func (s scrape) value(name string, l labels) float64 {
	total := 0.0
	for _, m := range s["ocrproxy_"+name].GetMetric() {
		if l.match(m) {
			total += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return total
}

// observed adds what the matching histograms observed.
func (s scrape) observed(name string, l labels) float64 {
	total := 0.0
	for _, m := range s["ocrproxy_"+name].GetMetric() {
		if l.match(m) {
			total += m.GetHistogram().GetSampleSum()
		}
	}
	return total
}

// rate is the number of calls per second that the queues of an account let go, 0 when nothing limits them.
func (s scrape) rate(account string) float64 {
	return s.value("pacing_rate", labels{"provider": account})
}

// paced reports whether an account's throttles have taught a rate. A circuit that has closed again limits it, too, for a moment.
func (s scrape) paced(account string) bool {
	return s.rate(account) > 0 && s.sum("throttles_total", labels{"provider": account}) > 0
}

// breaker is the state of an account's circuit; empty before the first scrape.
func (s scrape) breaker(account string) string {
	for _, state := range []string{"closed", "open", "half_open"} {
		if s.sum("breaker_state", labels{"provider": account, "state": state}) == 1 {
			return state
		}
	}
	return ""
}
