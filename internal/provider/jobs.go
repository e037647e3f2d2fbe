package provider

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/ocr-proxy/ocr-proxy/internal/classify"
	"github.com/ocr-proxy/ocr-proxy/internal/jsonstream"
)

const day = 24 * time.Hour

// Jobs says how a kind's calls start jobs, ask for them and tell of their end.
type Jobs struct {
	// Starts are the operations that start a job about documents.
	Starts []string
	// Polls are the operations that ask for a job's state or result.
	Polls []string
	// Drops are the operations that make the provider forget a job; nil: there is none.
	Drops []string
	// Parts are the operations that are about one job in another way: that fetch a part of its result, or break it off; nil: there is none.
	Parts []string
	// Lives is how long after its start a job can be asked for.
	Lives time.Duration
	// Runs is how long after its start a job of which nobody has heard the end is taken to be running still. A worker that never asks for its
	// job would otherwise keep a place among those that the provider runs at one time for as long as the result can be asked for.
	Runs time.Duration
	// TooMany are the codes of a throttled start which say that too many jobs are open, rather than that they were started too fast.
	TooMany []string
	// Started reads the job's id out of a good answer to a start; "": there is none.
	Started func(h http.Header, body []byte) string
	// Asked reads the job's id out of a call that polls or drops it, or is about it in another way, given the call's address and its body; "": there is none.
	Asked func(u *url.URL, body []byte) string
	// Serves reports whether a call that polls or drops is one for the jobs of a start, which others do not know; nil: every one is.
	Serves func(poll, start string) bool
	// Watch are the paths of a poll's good answer that Ended looks at.
	Watch []string
	// Ended reports whether a poll's good answer is about a job that has come to its end, well or not.
	Ended func(v jsonstream.Found) bool
	// Unknown are the codes of error answers which say that there is no such job, beside the statuses 404 and 410.
	Unknown []string
}

// Gone reports whether an error answer says that the provider knows no such job.
func (j *Jobs) Gone(status int, code string) bool {
	return status == http.StatusNotFound || status == http.StatusGone || code != "" && slices.Contains(j.Unknown, code)
}

// textractJobs are named in the bodies alone. Their results, and the tokens that they were started under, live for a week.
func textractJobs() *Jobs {
	return &Jobs{
		Starts: []string{"StartDocumentTextDetection", "StartDocumentAnalysis", "StartExpenseAnalysis", "StartLendingAnalysis"},
		Polls: []string{
			"GetDocumentTextDetection", "GetDocumentAnalysis", "GetExpenseAnalysis", "GetLendingAnalysis", "GetLendingAnalysisSummary",
		},
		Lives:   7 * day,
		Runs:    time.Hour,
		TooMany: []string{"LimitExceededException"},
		Started: func(_ http.Header, body []byte) string { return classify.ReadBody(body).At("JobId").Text() },
		Asked:   func(_ *url.URL, body []byte) string { return classify.ReadBody(body).At("JobId").Text() },
		Serves: func(poll, start string) bool {
			return strings.HasPrefix(strings.TrimPrefix(poll, "Get"), strings.TrimPrefix(start, "Start")) // GetLendingAnalysisSummary, too
		},
		Watch:   []string{"JobStatus"},
		Ended:   endedAs("JobStatus", "SUCCEEDED", "FAILED", "PARTIAL_SUCCESS"),
		Unknown: []string{"InvalidJobIdException"},
	}
}

// azureJobs are named by the last segment of the address under which the result is polled. It is kept for a day.
func azureJobs() *Jobs {
	return &Jobs{
		Starts: []string{"analyze", "analyzeBatch", "classify", "classifyBatch", "read"},
		Polls:  []string{"getAnalyzeResult", "getAnalyzeBatchResult", "getClassifyResult", "getClassifyBatchResult", "getReadResult"},
		Drops:  []string{"deleteAnalyzeResult", "deleteAnalyzeBatchResult"},
		Parts:  []string{"getAnalyzeResultPdf", "getAnalyzeResultFigure"},
		Lives:  day,
		Runs:   time.Hour,
		Started: func(h http.Header, _ []byte) string {
			u, err := url.Parse(h.Get("Operation-Location"))
			if err != nil {
				return ""
			}
			return lastSegment(u)
		},
		Asked: func(u *url.URL, _ []byte) string { return segmentAfter(u, "analyzeResults", "analyzeBatchResults") }, // figures lie below it
		Watch: []string{"status"},
		Ended: endedAs("status", "succeeded", "failed", "canceled", "cancelled", "completed", "partiallyCompleted", "skipped"),
	}
}

// googleJobs are long-running operations, whose full name is their address.
func googleJobs(starts ...string) *Jobs {
	return &Jobs{
		Starts: starts,
		Polls:  []string{"getOperation", "waitOperation"},
		Drops:  []string{"deleteOperation"},
		Parts:  []string{"cancelOperation"},
		Lives:  7 * day,
		Runs:   6 * time.Hour,
		Started: func(_ http.Header, body []byte) string {
			return operationName(classify.ReadBody(body).At("name").Text())
		},
		Asked: func(u *url.URL, _ []byte) string {
			return operationName(strings.TrimSuffix(strings.TrimSuffix(u.EscapedPath(), ":wait"), ":cancel"))
		},
		Watch: []string{"done"},
		Ended: func(v jsonstream.Found) bool { return isTrue(v, "done") },
	}
}

// operationName cuts everything off an operation's name or path that does not name it: "projects/p/locations/l/operations/o" or "operations/o".
func operationName(path string) string {
	all := segments(path)
	end := slices.Index(all, "operations")
	if end < 0 || end+2 != len(all) {
		return ""
	}
	start := slices.Index(all[:end], "projects")
	if start < 0 {
		start = end
	}
	return strings.Join(all[start:], "/")
}

// mistralJobs are batches.
func mistralJobs() *Jobs {
	return &Jobs{
		Starts:  []string{"batch.jobs.create"},
		Polls:   []string{"batch.jobs.get"},
		Parts:   []string{"batch.jobs.cancel"},
		Lives:   7 * day,
		Runs:    day,
		Started: func(_ http.Header, body []byte) string { return classify.ReadBody(body).At("id").Text() },
		Asked:   func(u *url.URL, _ []byte) string { return segmentAfter(u, "jobs") },
		Watch:   []string{"status"},
		Ended:   endedAs("status", "SUCCESS", "FAILED", "TIMEOUT_EXCEEDED", "CANCELLED"),
	}
}

// endedAs reports whether the word at a path is one of those; some services change their case between versions.
func endedAs(path string, states ...string) func(v jsonstream.Found) bool {
	return func(v jsonstream.Found) bool {
		state := v.String(path)
		return slices.ContainsFunc(states, func(s string) bool { return strings.EqualFold(s, state) })
	}
}

// lastSegment is the last segment of an address, unescaped.
func lastSegment(u *url.URL) string {
	all := segments(u.EscapedPath())
	if len(all) == 0 {
		return ""
	}
	return all[len(all)-1]
}

// segmentAfter is the segment of an address that follows the last one of those names, else its last segment; unescaped.
func segmentAfter(u *url.URL, names ...string) string {
	all := segments(u.EscapedPath())
	for i := len(all) - 2; i >= 0; i-- {
		if slices.Contains(names, all[i]) {
			return all[i+1]
		}
	}
	return lastSegment(u)
}
