package provider

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ocr-proxy/ocr-proxy/internal/jsonstream"
)

func jobsOf(t testing.TB, kind string) *Jobs {
	t.Helper()
	p, err := Find(kind)
	require.NoError(t, err)
	require.NotNil(t, p.Jobs)
	return p.Jobs
}

// The id under which a job is kept is the one under which it is asked for.
func TestJobsAreNamedAlikeByStartAndPoll(t *testing.T) {
	t.Parallel()
	const uuid = "3b31320d-8bab-4f88-b19c-2322a7f11034"
	for _, c := range []struct{ kind, header, answer, path, request, id string }{
		{"textract", "", `{"JobId":"abc-1"}`, "/", `{"NextToken":"x","JobId":"abc-1"}`, "abc-1"},
		{
			"azure", "https://r.cognitiveservices.azure.com/documentintelligence/documentModels/m/analyzeResults/" + uuid + "?api-version=2024-11-30", "",
			"/documentintelligence/documentModels/m/analyzeResults/" + uuid, "", uuid,
		},
		{
			"azure", "/documentintelligence/documentModels/m/analyzeBatchResults/" + uuid, "",
			"/documentintelligence/documentModels/m/analyzeBatchResults/" + uuid, "", uuid,
		},
		{"azure", "https://r/vision/v3.2/read/analyzeResults/" + uuid + "/", "", "/vision/v3.2/read/analyzeResults/" + uuid, "", uuid},
		{
			"documentai", "", `{"name":"projects/p/locations/us/operations/17"}`, "/v1/projects/p/locations/us/operations/17", "",
			"projects/p/locations/us/operations/17",
		},
		{"vision", "", `{"name":"projects/p/operations/a1"}`, "/gateway/v1/projects/p/operations/a1", "", "projects/p/operations/a1"},
		{"vision", "", `{"name":"operations/a1"}`, "/v1/operations/a1", "", "operations/a1"},
		{"mistral", "", `{"id":"b-1","object":"batch","status":"QUEUED"}`, "/v1/batch/jobs/b-1", "", "b-1"},
	} {
		j := jobsOf(t, c.kind)
		h := http.Header{}
		if c.header != "" {
			h.Set("Operation-Location", c.header)
		}
		require.Equal(t, c.id, j.Started(h, []byte(c.answer)), c.kind)
		require.Equal(t, c.id, j.Asked(&url.URL{Path: c.path}, []byte(c.request)), c.kind)
	}
	for _, c := range []struct{ kind, path, id string }{
		{"azure", "/documentintelligence/documentModels/m/analyzeResults/r-1/pdf", "r-1"},
		{"azure", "/documentintelligence/documentModels/analyzeResults/analyzeResults/r-1/figures/1.1", "r-1"},
		{"documentai", "/v1/projects/p/locations/us/operations/17:cancel", "projects/p/locations/us/operations/17"},
		{"mistral", "/v1/batch/jobs/b-1/cancel", "b-1"},
	} {
		require.Equal(t, c.id, jobsOf(t, c.kind).Asked(&url.URL{Path: c.path}, nil), c.path)
	}
}

func TestWhatMovesAndWhatIsAboutAJobAreOperationsOfTheKind(t *testing.T) {
	t.Parallel()
	for _, p := range All() {
		known := append([]string{Other}, p.Operations...)
		require.NotEmpty(t, p.Portable, p.Name)
		require.Subset(t, known, p.Portable, p.Name)
		if p.Jobs != nil {
			require.Subset(t, known, p.Jobs.Parts, p.Name)
			for _, about := range [][]string{p.Jobs.Polls, p.Jobs.Drops, p.Jobs.Parts} {
				for _, operation := range about {
					require.NotContains(t, p.Portable, operation, "a job stays where it is")
				}
			}
		}
	}
}

func TestWhatNamesNoJob(t *testing.T) {
	t.Parallel()
	for _, p := range All() {
		if p.Jobs == nil {
			continue
		}
		for _, location := range []string{"", "://", "https://host", "/"} {
			for name, body := range hostile() {
				require.Empty(t, p.Jobs.Started(http.Header{"Operation-Location": {location}}, []byte(body)), "%s: %q %s", p.Name, location, name)
			}
		}
		require.Empty(t, p.Jobs.Asked(&url.URL{Path: "/"}, nil))
	}
	for _, path := range []string{"/v1/operations", "/v1/operations/a/b", "/v1/operations/a:cancel/x", "operations"} {
		require.Empty(t, operationName(path), path)
	}
}

func TestTheEndOfJobs(t *testing.T) {
	t.Parallel()
	for kind, cases := range map[string]map[string]bool{
		"textract": {
			`{"JobStatus":"IN_PROGRESS"}`: false, `{"JobStatus":"SUCCEEDED"}`: true, `{"JobStatus":"FAILED"}`: true,
			`{"JobStatus":"PARTIAL_SUCCESS"}`: true, `{}`: false, `{"JobStatus":null}`: false,
		},
		"azure": {
			`{"status":"notStarted"}`: false, `{"status":"running"}`: false, `{"status":"Succeeded"}`: true, `{"status":"failed"}`: true,
			`{"status":"canceled"}`: true, `{"analyzeResult":{"status":"succeeded"}}`: false,
		},
		"documentai": {`{"done":false}`: false, `{"name":"x"}`: false, `{"done":true,"response":{}}`: true, `{"done":true,"error":{"code":3}}`: true},
		"vision":     {`{"metadata":{"done":true}}`: false, `{"done":true}`: true},
		"mistral": {
			`{"status":"QUEUED"}`: false, `{"status":"CANCELLATION_REQUESTED"}`: false, `{"status":"SUCCESS"}`: true,
			`{"status":"FAILED"}`: true, `{"status":"TIMEOUT_EXCEEDED"}`: true, `{"status":"CANCELLED"}`: true,
		},
	} {
		j := jobsOf(t, kind)
		for body, ended := range cases {
			found, err := jsonstream.Pick(strings.NewReader(body), j.Watch, 100)
			require.NoError(t, err)
			require.Equal(t, ended, j.Ended(found), "%s: %s", kind, body)
		}
	}
}

// A failed job has ended: what Judge calls one must not stay in the journal.
func TestEveryFailedJobHasEnded(t *testing.T) {
	t.Parallel()
	for kind, bodies := range map[string][]string{
		"textract": {`{"JobStatus":"FAILED"}`},
		"azure":    {`{"status":"failed"}`, `{"status":"canceled"}`, `{"status":"cancelled"}`},
		"mistral":  {`{"status":"FAILED"}`, `{"status":"TIMEOUT_EXCEEDED"}`, `{"status":"CANCELLED"}`, `{"status":"SUCCESS","failed_requests":1}`},
	} {
		p, err := Find(kind)
		require.NoError(t, err)
		for _, body := range bodies {
			found, err := jsonstream.Pick(strings.NewReader(body), slices.Concat(p.Watch, p.Jobs.Watch), 100)
			require.NoError(t, err)
			fault, failed := p.Judge(p.Jobs.Polls[0], found)
			require.True(t, failed && fault.Job && p.Jobs.Ended(found), "%s: %s", kind, body)
		}
	}
}

// Textract's ids do not tell of which start they are, and another start's poll does not know them.
func TestPollsAreForTheJobsOfTheirStart(t *testing.T) {
	t.Parallel()
	j := jobsOf(t, "textract")
	served := map[string][]string{}
	for _, start := range j.Starts {
		for _, poll := range j.Polls {
			if j.Serves(poll, start) {
				served[start] = append(served[start], poll)
			}
		}
	}
	require.Equal(t, map[string][]string{
		"StartDocumentTextDetection": {"GetDocumentTextDetection"}, "StartDocumentAnalysis": {"GetDocumentAnalysis"},
		"StartExpenseAnalysis": {"GetExpenseAnalysis"}, "StartLendingAnalysis": {"GetLendingAnalysis", "GetLendingAnalysisSummary"},
	}, served)
}

// Starts change something and polls do not, and both are operations of their kind.
func TestJobOperationsAreDeclared(t *testing.T) {
	t.Parallel()
	for _, p := range All() {
		if p.Jobs == nil {
			continue
		}
		require.Positive(t, p.Jobs.Lives)
		for _, name := range slices.Concat(p.Jobs.Starts, p.Jobs.Polls, p.Jobs.Drops) {
			require.Contains(t, p.Operations, name, p.Name)
		}
	}
	require.True(t, jobsOf(t, "textract").Gone(400, "InvalidJobIdException"))
	require.True(t, jobsOf(t, "azure").Gone(404, ""))
	require.False(t, jobsOf(t, "azure").Gone(400, ""))
	require.False(t, jobsOf(t, "textract").Gone(429, "ThrottlingException"))
}
