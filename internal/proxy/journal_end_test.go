package proxy

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// A job that runs is unknown under another model's name. To forget it there would be to pay for it again.
func TestAJobIsForgottenOnlyWhereItsStartSaidThatItIs(t *testing.T) {
	const poll = "/documentintelligence/documentModels/m/analyzeResults/r-1"
	for name, tt := range map[string]struct {
		base     string // path of the upstream
		location string // resultURL
		method   string // GET
		target   string
		answer   step // 404
		ended    bool
	}{
		"where it is":               {target: poll + "?api-version=1", ended: true},
		"in another version":        {target: poll + "?api-version=2", ended: true},
		"in other letters":          {target: strings.ToLower(poll), ended: true},
		"under another model":       {target: strings.Replace(poll, "/m/", "/n/", 1)},
		"under a classifier":        {target: strings.Replace(poll, "documentModels", "documentClassifiers", 1)},
		"as a batch":                {target: strings.Replace(poll, "analyzeResults", "analyzeBatchResults", 1)},
		"of another generation":     {target: strings.Replace(poll, "documentintelligence", "formrecognizer", 1)},
		"deleted elsewhere":         {method: http.MethodDelete, target: strings.Replace(poll, "/m/", "/n/", 1)},
		"to be deleted, and gone":   {method: http.MethodDelete, target: poll, ended: true},
		"relative, where it is":     {location: poll + "?api-version=1", target: poll, ended: true},
		"relative, elsewhere":       {location: poll + "?api-version=1", target: strings.Replace(poll, "/m/", "/n/", 1)},
		"behind a path":             {base: "/eu", location: strings.Replace(resultURL, "provider", "provider/eu", 1), target: poll, ended: true},
		"behind a path, elsewhere":  {base: "/eu", location: strings.Replace(resultURL, "provider", "provider/eu", 1), target: strings.Replace(poll, "/m/", "/n/", 1)},
		"told of another host":      {location: strings.Replace(resultURL, "provider", "elsewhere.example", 1), target: poll, ended: true},
		"told of a host beside":     {location: strings.Replace(resultURL, "http:", "", 1), target: poll, ended: true},
		"through, wherever":         {target: strings.Replace(poll, "/m/", "/n/", 1), answer: step{header: asJSON, body: `{"status":"succeeded"}`}, ended: true},
		"not to be had at this day": {target: poll, answer: step{status: 403}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := defaults("azure")
				s.base = tt.base
				if tt.location == "" {
					tt.location = resultURL
				}
				if tt.answer.status == 0 && tt.answer.body == "" {
					tt.answer = step{status: 404, header: asJSON, body: `{"error":{"code":"NotFound"}}`}
				}
				j := newJournaling(t, s, step{status: 202, header: "Operation-Location: " + tt.location}, tt.answer)
				start := azureStart("Ocr-Proxy-Document-Id: d")
				j.send(t.Context(), start)
				method := tt.method
				if method == "" {
					method = http.MethodGet
				}
				j.send(t.Context(), call{method: method, target: tt.target})
				synctest.Wait()
				require.Equal(t, tt.ended, len(j.records()) == 0)
				if !tt.ended {
					require.Equal(t, "journaled", j.send(t.Context(), start).own("Reason"), "no second job")
				}
				j.quiet()
			})
		})
	}
}

func TestAJobIsForgottenOnlyByThePollOfItsStart(t *testing.T) {
	for poll, ended := range map[string]bool{"GetDocumentAnalysis": true, "GetDocumentTextDetection": false} {
		t.Run(poll, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				j := newJournaling(t, defaults("textract"),
					step{header: amzJSON, body: `{"JobId":"j-1"}`}, step{status: 400, header: amzJSON, body: `{"__type":"InvalidJobIdException"}`})
				j.send(t.Context(), textractStart("Ocr-Proxy-Document-Id: d"))
				j.send(t.Context(), call{target: "/", header: amzJSON + "|X-Amz-Target: Textract." + poll, body: `{"JobId":"j-1"}`})
				synctest.Wait()
				require.Equal(t, ended, len(j.records()) == 0)
				j.quiet()
			})
		})
	}
}
