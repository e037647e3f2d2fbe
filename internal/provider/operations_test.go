package provider

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// call is a request as a worker sends it and the operation that it is.
type call struct {
	kind, method, target, want string
	repeat                     Repeat
	judged                     bool
}

// request makes the call's request; textract's targets are operations and not paths.
func (c call) request(t testing.TB) *http.Request {
	t.Helper()
	if c.kind != "textract" {
		return httptest.NewRequest(c.method, c.target, nil)
	}
	r := httptest.NewRequest(c.method, "/", nil)
	r.Header.Set("X-Amz-Target", c.target)
	return r
}

func calls() []call {
	const (
		post, get, del, put = http.MethodPost, http.MethodGet, http.MethodDelete, http.MethodPut

		docai  = "/v1/projects/p/locations/us/processors/x"
		models = "/documentintelligence/documentModels"
		sorts  = "/documentintelligence/documentClassifiers"
		v21    = "/formrecognizer/v2.1"
	)
	all := []call{
		{"azure", post, models + "/prebuilt-read:analyze?api-version=2024-11-30", "analyze", IfUnsent, false},
		{"azure", post, models + "/prebuilt-read%3Aanalyze?api-version=2024-11-30", "analyze", IfUnsent, false},
		{"azure", post, "/documentIntelligence/documentmodels/a%2Fb:Analyze", "analyze", IfUnsent, false},
		{"azure", post, "/gateway/di/formrecognizer/documentModels/prebuilt-layout:analyze?api-version=2023-07-31", "analyze", IfUnsent, false},
		{"azure", post, v21 + "/layout/analyze", "analyze", IfUnsent, false},
		{"azure", post, v21 + "/prebuilt/invoice/analyze", "analyze", IfUnsent, false},
		{"azure", post, v21 + "/custom/models/1/analyze", "analyze", IfUnsent, false},
		{"azure", post, models + "/m:analyzeBatch", "analyzeBatch", IfUnsent, false},
		{"azure", post, sorts + "/m:analyze", "classify", IfUnsent, false},
		{"azure", post, sorts + "/m:analyzeBatch", "classifyBatch", IfUnsent, false},
		{"azure", post, "/vision/v3.2/read/analyze?language=en", "read", IfUnsent, false},
		{"azure", get, models + "/m/analyzeResults/1?api-version=2024-11-30", "getAnalyzeResult", Always, true},
		{"azure", get, v21 + "/layout/analyzeResults/1", "getAnalyzeResult", Always, true},
		{"azure", get, v21 + "/prebuilt/receipt/analyzeResults/1", "getAnalyzeResult", Always, true},
		{"azure", get, v21 + "/custom/models/1/analyzeResults/2", "getAnalyzeResult", Always, true},
		{"azure", get, models + "/m/analyzeBatchResults/1", "getAnalyzeBatchResult", Always, true},
		{"azure", get, sorts + "/m/analyzeResults/1", "getClassifyResult", Always, true},
		{"azure", get, sorts + "/m/analyzeBatchResults/1", "getClassifyBatchResult", Always, true},
		{"azure", get, "/vision/v3.2/read/analyzeResults/1", "getReadResult", Always, true},
		{"azure", get, "/documentintelligence/operations/31_1", "getOperation", Always, true},
		{"azure", post, "/computervision/imageanalysis:analyze?features=read", "analyzeImage", Always, true},
		{"azure", post, "/vision/v3.2/ocr", "ocr", Always, true},
		{"azure", get, models + "/m/analyzeResults/1/pdf", "getAnalyzeResultPdf", Always, false},
		{"azure", get, models + "/m/analyzeResults/1/figures/2", "getAnalyzeResultFigure", Always, false},
		{"azure", del, models + "/m/analyzeResults/1", "deleteAnalyzeResult", Always, false},
		{"azure", del, models + "/m/analyzeBatchResults/1", "deleteAnalyzeBatchResult", Always, false},
		{"azure", get, models + "/m/analyzeBatchResults", "listAnalyzeBatchResults", Always, false},
		{"azure", post, models + ":build", "buildModel", IfUnsent, false},
		{"azure", post, v21 + "/custom/models", "buildModel", IfUnsent, false},
		{"azure", post, models + ":compose", "composeModel", IfUnsent, false},
		{"azure", post, v21 + "/custom/models/compose", "composeModel", IfUnsent, false},
		{"azure", post, models + ":authorizeCopy", "authorizeModelCopy", IfUnsent, false},
		{"azure", post, v21 + "/custom/models/copyAuthorization", "authorizeModelCopy", IfUnsent, false},
		{"azure", post, models + "/m:copyTo", "copyModelTo", IfUnsent, false},
		{"azure", post, v21 + "/custom/models/1/copy", "copyModelTo", IfUnsent, false},
		{"azure", get, v21 + "/custom/models/1/copyResults/2", "getCopyResult", Always, true},
		{"azure", post, sorts + ":build", "buildClassifier", IfUnsent, false},
		{"azure", post, sorts + ":authorizeCopy", "authorizeClassifierCopy", IfUnsent, false},
		{"azure", post, sorts + "/m:copyTo", "copyClassifierTo", IfUnsent, false},
		{"azure", get, models + "/m", "getModel", Always, false},
		{"azure", get, v21 + "/custom/models/1?includeKeys=true", "getModel", Always, false},
		{"azure", get, models, "listModels", Always, false},
		{"azure", get, v21 + "/custom/models?op=full", "listModels", Always, false},
		{"azure", del, models + "/m", "deleteModel", Always, false},
		{"azure", del, v21 + "/custom/models/1", "deleteModel", Always, false},
		{"azure", get, sorts + "/m", "getClassifier", Always, false},
		{"azure", get, sorts, "listClassifiers", Always, false},
		{"azure", del, sorts + "/m", "deleteClassifier", Always, false},
		{"azure", get, "/documentintelligence/operations", "listOperations", Always, false},
		{"azure", get, "/formrecognizer/operations", "listOperations", Always, false},
		{"azure", get, "/documentintelligence/info", "getInfo", Always, false},
		{"azure", get, "/formrecognizer/info", "getInfo", Always, false},
		{"azure", post, models + "/:analyze", Other, IfUnsent, false},
		{"azure", get, models + "/m/unheard/of", Other, Always, false},

		{"documentai", post, docai + ":process?$alt=json%3Benum-encoding=int", "process", Always, true},
		{"documentai", post, docai + "%3Aprocess", "process", Always, true},
		{"documentai", post, docai + "/processorVersions/v:process", "process", Always, true},
		{"documentai", post, docai + ":batchProcess", "batchProcess", IfUnsent, false},
		{"documentai", post, docai + "/processorVersions/v:batchProcess", "batchProcess", IfUnsent, false},
		{"documentai", post, docai + "/humanReviewConfig:reviewDocument", "reviewDocument", IfUnsent, false},
		{"documentai", get, "/v1/projects/p/locations/us/operations/1", "getOperation", Always, true},
		{"documentai", get, "/uiv1beta3/projects/p/operations/1", "getOperation", Always, true},
		{"documentai", get, "/v1/projects/p/locations/us/operations", "listOperations", Always, false},
		{"documentai", post, "/v1/projects/p/locations/us/operations/1:cancel", "cancelOperation", Always, false},
		{"documentai", post, "/v1/projects/p/locations/us/operations/1:wait", "waitOperation", Always, true},
		{"documentai", del, "/v1/projects/p/locations/us/operations/1", "deleteOperation", Always, false},
		{"documentai", get, docai, "getProcessor", Always, false},
		{"documentai", get, "/v1/projects/p/locations/us/processors", "listProcessors", Always, false},
		{"documentai", post, "/v1/projects/p/locations/us/processors", "createProcessor", IfUnsent, false},
		{"documentai", del, docai, "deleteProcessor", IfUnsent, false},
		{"documentai", post, docai + ":enable", "enableProcessor", IfUnsent, false},
		{"documentai", post, docai + ":disable", "disableProcessor", IfUnsent, false},
		{"documentai", post, docai + ":setDefaultProcessorVersion", "setDefaultProcessorVersion", IfUnsent, false},
		{"documentai", get, docai + "/processorVersions/v", "getProcessorVersion", Always, false},
		{"documentai", get, docai + "/processorVersions", "listProcessorVersions", Always, false},
		{"documentai", post, docai + "/processorVersions:train", "trainProcessorVersion", IfUnsent, false},
		{"documentai", post, docai + "/processorVersions/v:deploy", "deployProcessorVersion", IfUnsent, false},
		{"documentai", post, docai + "/processorVersions/v:undeploy", "undeployProcessorVersion", IfUnsent, false},
		{"documentai", post, docai + "/processorVersions/v:evaluateProcessorVersion", "evaluateProcessorVersion", IfUnsent, false},
		{"documentai", del, docai + "/processorVersions/v", "deleteProcessorVersion", IfUnsent, false},
		{"documentai", get, "/v1/projects/p/locations/us/processorTypes", "listProcessorTypes", Always, false},
		{"documentai", get, "/v1/projects/p/locations/us:fetchProcessorTypes", "fetchProcessorTypes", Always, false},
		{"documentai", post, "/x:process", Other, IfUnsent, false},

		{"vision", post, "/v1/images:annotate?key=k", "images:annotate", Always, true},
		{"vision", post, "/v1/projects/p/locations/eu/images:annotate", "images:annotate", Always, true},
		{"vision", post, "/v1p1beta1/files:annotate", "files:annotate", Always, true},
		{"vision", post, "/v1/images:asyncBatchAnnotate", "images:asyncBatchAnnotate", IfUnsent, false},
		{"vision", post, "/v1/projects/p/files:asyncBatchAnnotate", "files:asyncBatchAnnotate", IfUnsent, false},
		{"vision", get, "/v1/projects/p/locations/eu/operations/1", "getOperation", Always, true},
		{"vision", get, "/v1/operations", "listOperations", Always, false},
		{"vision", post, "/v1/operations/1:cancel", "cancelOperation", Always, false},
		{"vision", post, "/v1/operations/1:wait", "waitOperation", Always, true},
		{"vision", del, "/v1/operations/1", "deleteOperation", Always, false},
		{"vision", post, "/v1/projects/p/productSets", Other, IfUnsent, false},

		{"mistral", post, "/v1/ocr", "ocr", Always, true},
		{"mistral", post, "//v1//ocr", "ocr", Always, true},
		{"mistral", post, "/v1/chat/completions", "chat.completions", Always, true},
		{"mistral", post, "/v1/embeddings", "embeddings", Always, true},
		{"mistral", post, "/v1/batch/jobs", "batch.jobs.create", IfUnsent, false},
		{"mistral", get, "/v1/batch/jobs?page=1", "batch.jobs.list", Always, false},
		{"mistral", get, "/v1/batch/jobs/1", "batch.jobs.get", Always, true},
		{"mistral", post, "/v1/batch/jobs/1/cancel", "batch.jobs.cancel", Always, false},
		{"mistral", post, "/v1/files", "files.upload", Always, false},
		{"mistral", get, "/v1/files", "files.list", Always, false},
		{"mistral", get, "/v1/files/1", "files.retrieve", Always, false},
		{"mistral", get, "/v1/files/1/content", "files.download", Always, false},
		{"mistral", get, "/v1/files/1/url?expiry=1", "files.signed_url", Always, false},
		{"mistral", del, "/v1/files/1", "files.delete", Always, false},
		{"mistral", get, "/v1/models", "models.list", Always, false},
		{"mistral", get, "/v1/models/m", "models.get", Always, false},
		{"mistral", post, "/v1/fine_tuning/jobs", Other, IfUnsent, false},

		{"ocrspace", post, "/parse/image", "parseImage", Always, true},
		{"ocrspace", post, "/Parse/Image", "parseImage", Always, true},
		{"ocrspace", get, "/parse/imageurl?apikey=k&url=u", "parseImageUrl", Always, true},
		{"ocrspace", post, "/parse", Other, IfUnsent, false},

		{"tika", put, "/tika", "tika", Always, true},
		{"tika", put, "/tika/text", "tika", Always, true},
		{"tika", post, "/gateway/tika/form/text", "tika", Always, true},
		{"tika", put, "/rmeta/text", "rmeta", Always, true},
		{"tika", post, "/rmeta/form", "rmeta", Always, true},
		{"tika", put, "/rmeta/ignore", "rmeta.ignore", Always, true},
		{"tika", post, "/rmeta/form/ignore", "rmeta.ignore", Always, true},
		{"tika", put, "/meta/Content-Type", "meta", Always, false},
		{"tika", put, "/unpack/all", "unpack", Always, false},
		{"tika", put, "/detect/stream", "detect", Always, false},
		{"tika", post, "/language/string", "language", Always, false},
		{"tika", get, "/version", Other, Always, false},
		{"tika", post, "/tika", Other, IfUnsent, false},

		{"openai", post, "/v1/chat/completions", "chat.completions", Always, true},
		{"openai", post, "/openai/deployments/d/chat/completions?api-version=1", "chat.completions", Always, true},
		{"openai", post, "/v1/responses", "responses", Always, true},
		{"openai", get, "/v1/responses/r", "responses.get", Always, true},
		{"openai", post, "/v1/completions", "completions", Always, true},
		{"openai", post, "/v1/embeddings", "embeddings", Always, true},
		{"openai", get, "/v1/models", "models", Always, false},
		{"openai", get, "/v1/models/m", "models", Always, false},
		{"openai", post, "/v1/files", "files.upload", IfUnsent, false},
		{"openai", get, "/v1/files", "files", Always, false},
		{"openai", get, "/v1/files/f", "files", Always, false},
		{"openai", get, "/v1/files/f/content", "files", Always, false},
		{"openai", del, "/v1/files/f", "files.delete", Always, false},
		{"openai", post, "/v1/batches", "batches.create", IfUnsent, false},
		{"openai", get, "/v1/batches/b", "batches.get", Always, true},
		{"openai", post, "/v1/audio/speech", Other, IfUnsent, false},

		{"generic", post, "/ocr", Other, Always, false},
		{"generic", get, "/", Other, Always, false},

		{"textract", post, "Textract.StartUnheardOf", Other, IfUnsent, false},
		{"textract", post, "", Other, IfUnsent, false},
	}
	for _, op := range textractOperations() {
		all = append(all, call{"textract", post, "Textract." + op.Name, op.Name, op.Repeat, op.Judged})
	}
	return all
}

func TestOperations(t *testing.T) {
	t.Parallel()
	for _, c := range calls() {
		p, err := Find(c.kind)
		require.NoError(t, err)
		op := p.Operation(c.request(t))
		require.Equal(t, c.want, op.Name, "%s %s %s", c.kind, c.method, c.target)
		require.Equal(t, c.repeat, op.Repeat, "%s %s", c.kind, c.want)
		require.Equal(t, c.judged, op.Judged, "%s %s", c.kind, c.want)
	}
}

func TestEveryOperationHasACall(t *testing.T) {
	t.Parallel()
	for _, p := range All() {
		for _, name := range p.Operations {
			require.True(t, slices.ContainsFunc(calls(), func(c call) bool { return c.kind == p.Name && c.want == name }), "%s %s", p.Name, name)
		}
	}
}

// What starts billed work without a token must never be repeated after it left: the promise that no page is paid for twice.
func TestStartsAreRepeatedOnlyUnsentOrUnderAToken(t *testing.T) {
	t.Parallel()
	starts := map[string][]string{
		"azure":      {"analyze", "analyzeBatch", "classify", "classifyBatch", "read", "buildModel", "buildClassifier", "composeModel"},
		"documentai": {"batchProcess", "reviewDocument", "trainProcessorVersion"},
		"vision":     {"images:asyncBatchAnnotate", "files:asyncBatchAnnotate"},
		"mistral":    {"batch.jobs.create"},
		"openai":     {"batches.create"},
	}
	for _, c := range calls() {
		if slices.Contains(starts[c.kind], c.want) {
			require.Equal(t, IfUnsent, c.repeat, c.want)
		}
	}
	for _, op := range textractOperations() {
		if op.Tokened {
			require.Equal(t, WithToken, op.Repeat, op.Name)
		}
	}
}
