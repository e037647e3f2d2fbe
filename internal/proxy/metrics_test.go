package proxy

import (
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/stretchr/testify/require"
)

func TestMetricsAreWellFormedAndBounded(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, defaults("generic"))
		series := func() (n int) {
			families, err := l.registry.Gather()
			require.NoError(t, err)
			problems, err := promlint.NewWithMetricFamilies(families).Lint()
			require.NoError(t, err)
			require.Empty(t, problems)
			for _, family := range families {
				n += len(family.GetMetric())
			}
			return n
		}
		require.Equal(t, 0, l.ended("succeeded"), "present before the first request")
		l.upstream.script(step{body: "text"})
		l.send(t.Context(), call{target: "/poll/0", header: "Ocr-Proxy-Tenant: t0"})
		before := series()
		for i := range 20 {
			l.upstream.script(step{status: []int{200, 400, 401, 418}[i%4]})
			l.send(t.Context(), call{target: fmt.Sprintf("/poll/%d?id=%d", i, i), header: fmt.Sprintf("Ocr-Proxy-Tenant: t%d", i)})
		}
		require.Equal(t, before, series(), "labels come from fixed vocabularies")
		require.Equal(t, 21, l.figure("request_duration_seconds"))
		require.Equal(t, 21, l.figure("attempt_duration_seconds"))
		require.Equal(t, 21, l.figure("request_retries"))
		require.Equal(t, 21, l.figure("overhead_seconds"))
	})
}

// What the proxy itself took must not contain the worker's upload, the provider's work or the waits.
func TestOverheadIsTheProxysOwnTime(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, defaults("generic"), step{status: 503, after: 2e9}, step{status: 429, header: "Retry-After: 3"}, step{body: "text", after: 1e9})
		l.send(t.Context(), call{body: "document"})
		families, err := l.registry.Gather()
		require.NoError(t, err)
		for _, family := range families {
			if family.GetName() == "ocrproxy_overhead_seconds" {
				require.Zero(t, family.GetMetric()[0].GetHistogram().GetSampleSum())
				return
			}
		}
		t.Fatal("the metric is missing")
	})
}

// Answers choose the types and fields that they bring; the configuration chooses what is counted.
func TestFieldsAreCountedWhereTheConfigurationNamesThem(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		answer := func(kind, name string) step {
			return step{header: asJSON, body: fmt.Sprintf(`{"status":"succeeded","analyzeResult":{"documents":[{"docType":%q,"fields":{`+
				`"InvoiceTotal":{"type":"number","valueNumber":1,"confidence":0.9},%q:{"type":"string","valueString":"a","confidence":0.5}}}]}}`, kind, name)}
		}
		how := Scrutiny{Fields: map[string]map[string]float64{"invoice": {"invoicetotal": 0.1}}, Required: map[string][]string{AnyType: {"invoicetotal"}}}
		l := newLab(t, reviewingBy("azure", how), answer("invoice", "VendorName"), answer("Invoice", "InvoiceTotal2"))
		l.send(t.Context(), azurePoll("1"))
		l.send(t.Context(), azurePoll("2"))
		require.Equal(t, 2, l.figure("field_confidence", "provider", "acct", "type", "invoice", "field", "invoicetotal"))
		for i := range 200 {
			l.upstream.script(answer(fmt.Sprintf("kind-%d", i), fmt.Sprintf("field-%d", i)))
			require.Equal(t, "success", l.send(t.Context(), azurePoll("3")).own("Outcome"))
		}
		require.Equal(t, 200, l.figure("field_confidence", "type", AnyType, "field", "invoicetotal"))
		families, err := l.registry.Gather()
		require.NoError(t, err)
		for _, family := range families {
			if family.GetName() == "ocrproxy_field_confidence" {
				require.Len(t, family.GetMetric(), 2, "bounded, whatever answers bring")
			}
		}
		l.closing()
	})
}
