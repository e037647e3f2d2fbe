package classify

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRowsMatchOnAllTheirConditions(t *testing.T) {
	t.Parallel()
	a := Attempt{Status: 403, Operation: "files.upload"}
	f := Fault{Codes: []string{"Inner", "Outer"}, Message: "Out of CALL volume quota."}
	for _, c := range []struct {
		row  Row
		want bool
	}{
		{Row{}, true},
		{Row{Status: 403}, true},
		{Row{Status: 429}, false},
		{Row{Code: "Inner"}, true},
		{Row{Code: "Outer"}, true},
		{Row{Code: "inner"}, false},
		{Row{Code: "Inn"}, false},
		{Row{Text: "call volume"}, true},
		{Row{Text: "call rate"}, false},
		{Row{Operation: "files.upload"}, true},
		{Row{Operation: "files.*"}, true},
		{Row{Operation: "*"}, true},
		{Row{Operation: "files"}, false},
		{Row{Operation: "batch.*"}, false},
		{Row{Status: 403, Code: "Outer", Text: "quota", Operation: "files.*"}, true},
		{Row{Status: 403, Code: "Outer", Text: "quota", Operation: "ocr"}, false},
		{Row{Status: 403, Code: "Other", Text: "quota"}, false},
	} {
		require.Equal(t, c.want, c.row.matches(a, f), c.row.String())
	}
}

func TestRowsSayTheirConditions(t *testing.T) {
	t.Parallel()
	require.Equal(t, "any answer", Row{Class: Quota}.String())
	require.Equal(t, `status 403, code X, message containing "quota", operation files.*`,
		Row{Status: 403, Code: "X", Text: "quota", Operation: "files.*"}.String())
}

// The operator's rules go before the job, the job before the provider's table, the table before the status.
func TestOrderOfDecisions(t *testing.T) {
	t.Parallel()
	rules := Table{{Code: "Ruled", Class: Transient}, {Code: "Ruled", Class: Auth}}
	table := Table{{Code: "Ruled", Class: Quota}, {Code: "Known", Class: Throttle}, {Code: "Known", Class: Quota}, {Status: 404, Class: Transient}}
	for name, c := range map[string]struct {
		attempt Attempt
		fault   Fault
		class   Class
		reason  string
	}{
		"rule before job":         {Attempt{Status: 200}, Fault{Codes: []string{"Ruled"}, Job: true}, Transient, "configured rule"},
		"rule before table":       {Attempt{Status: 500}, Fault{Codes: []string{"Ruled"}}, Transient, "configured rule"},
		"rule by an outer code":   {Attempt{Status: 400}, Fault{Codes: []string{"Known", "Ruled"}}, Transient, "configured rule"},
		"job before table":        {Attempt{Status: 200}, Fault{Codes: []string{"Known"}, Job: true}, Permanent, "finished job"},
		"job without a code":      {Attempt{Status: 200}, Fault{Job: true}, Permanent, "finished job"},
		"table before status":     {Attempt{Status: 400}, Fault{Codes: []string{"Known"}}, Throttle, "provider's table"},
		"table's first row":       {Attempt{Status: 500}, Fault{Codes: []string{"Other", "Known"}}, Throttle, "provider's table"},
		"table by status alone":   {Attempt{Status: 404}, Fault{}, Transient, "provider's table"},
		"table inside a 200":      {Attempt{Status: 200}, Fault{Codes: []string{"Known"}}, Throttle, "provider's table"},
		"unlisted inside a 200":   {Attempt{Status: 200}, Fault{Codes: []string{"Other"}}, Permanent, "inside a 200"},
		"status last":             {Attempt{Status: 400}, Fault{Codes: []string{"Other"}}, Permanent, "HTTP status 400"},
		"good answer":             {Attempt{Status: 202}, Fault{}, Success, "HTTP status 202"},
		"no status is not good":   {Attempt{}, Fault{Job: true}, Unknown, "HTTP status 0"},
		"an error is no job's":    {Attempt{Status: 500}, Fault{Codes: []string{"Other"}, Job: true}, Transient, "HTTP status 500"},
		"a status nobody defined": {Attempt{Status: 442}, Fault{}, Unknown, "HTTP status 442"},
	} {
		v := Decide(c.attempt, c.fault, rules, table)
		require.Equal(t, c.class, v.Class, name)
		require.Contains(t, v.Reason, c.reason, name)
		require.Equal(t, c.fault.Code(), v.Code, name)
	}
}

// A table's row without conditions is for errors: it must not turn good answers into failures, while an operator's rule may.
func TestTablesLeaveGoodAnswersAlone(t *testing.T) {
	t.Parallel()
	everything := Table{{Class: Quota}}
	require.Equal(t, Success, Decide(Attempt{Status: 200}, Fault{}, nil, everything).Class)
	require.Equal(t, Quota, Decide(Attempt{Status: 200}, Fault{}, everything, nil).Class)
}

func TestLongWaits(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for _, c := range []struct {
		status int
		wait   time.Duration
		class  Class
		told   time.Duration
	}{
		{429, time.Second, Throttle, time.Second},
		{429, day - time.Nanosecond, Throttle, day - time.Nanosecond},
		{429, day, Quota, day},
		{429, 22 * day, Quota, 22 * day},
		{503, 2 * day, Transient, 2 * day}, // an outage with a long maintenance is still an outage
		{403, 2 * day, Auth, 2 * day},
		{200, time.Minute, Success, 0},
		{202, 3 * time.Second, Success, 0}, // when to poll is the worker's affair
	} {
		v := Decide(Attempt{Status: c.status}, Fault{Wait: c.wait}, nil, nil)
		require.Equal(t, c.class, v.Class, "%d after %s", c.status, c.wait)
		require.Equal(t, c.told, v.Wait, "%d after %s", c.status, c.wait)
	}
	v := Decide(Attempt{Status: 429}, Fault{Wait: 22 * day}, nil, nil)
	require.Contains(t, v.Reason, "528h0m0s")
}

func TestVerdictCarriesCodeAndMessage(t *testing.T) {
	t.Parallel()
	v := Decide(Attempt{Status: 400}, Fault{Codes: []string{"Inner", "Outer"}, Message: "m"}, nil, nil)
	require.Equal(t, "Inner", v.Code)
	require.Equal(t, "m", v.Message)
	require.Empty(t, Fault{}.Code())
}

func BenchmarkDecideTextractThrottle(b *testing.B) {
	codes := []string{
		"ProvisionedThroughputExceededException", "Throttling", "ThrottledException", "RequestThrottledException", "TooManyRequestsException",
		"RequestLimitExceeded", "BandwidthLimitExceeded", "LimitExceededException", "SlowDown", "ThrottlingException",
	}
	var table Table
	for _, code := range codes {
		table = append(table, Row{Code: code, Class: Throttle})
	}
	a := Attempt{Operation: "DetectDocumentText", Sent: true, Status: 400, Body: []byte(`{"__type":"ThrottlingException","message":"Rate exceeded"}`)}
	b.ReportAllocs()
	for b.Loop() {
		f := Fault{Codes: Codes(ReadBody(a.Body).At("__type").Text()), Message: "Rate exceeded"}
		if v := Decide(a, f, nil, table); v.Class != Throttle {
			b.Fatal(v.Reason)
		}
	}
}
