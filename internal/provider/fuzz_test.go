package provider

import (
	"bytes"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ocr-proxy/ocr-proxy/internal/classify"
	"github.com/ocr-proxy/ocr-proxy/internal/jsonstream"
)

func FuzzFault(f *testing.F) {
	kinds := All()
	for i := range kinds {
		for _, body := range hostile() {
			f.Add(uint8(i), 429, "ThrottlingException:http://x/#y", []byte(body))
		}
	}
	f.Fuzz(func(t *testing.T, kind uint8, status int, code string, body []byte) {
		p := kinds[int(kind)%len(kinds)]
		status = 400 + (status%200+200)%200
		a := classify.Attempt{Sent: true, Status: status, Header: http.Header{"X-Amzn-Errortype": {code}, "Ms-Azure-Ai-Errorcode": {code}}, Body: body}
		fault := p.Fault(a)
		bounded(t, fault)
		require.GreaterOrEqual(t, fault.Wait, time.Duration(0))
		require.False(t, fault.Job, "jobs fail inside good answers")
		require.NotEqual(t, classify.Success, classify.Decide(a, fault, nil, p.Table).Class)
	})
}

func FuzzJudge(f *testing.F) {
	kinds := All()
	for i, p := range kinds {
		paths, err := filepath.Glob(filepath.Join("testdata", p.Name, "*.http"))
		require.NoError(f, err)
		for j := range paths {
			f.Add(uint8(i), uint8(j), []byte(`{"responses":[{"error":{"code":14}},{"responses":[{"error":{"code":99}}]}],"status":"failed","done":true,"error":{"code":8}}`))
		}
		for _, body := range hostile() {
			f.Add(uint8(i), uint8(0), []byte(body))
		}
	}
	f.Fuzz(func(t *testing.T, kind, operation uint8, body []byte) {
		p := kinds[int(kind)%len(kinds)]
		if p.Judge == nil {
			return
		}
		found, err := jsonstream.Pick(bytes.NewReader(body), p.Watch, 4096)
		if err != nil {
			return // what is no JSON is not judged
		}
		name := p.Operations[int(operation)%len(p.Operations)]
		fault, failed := p.Judge(name, found)
		if !failed {
			require.Empty(t, fault.Codes)
			return
		}
		bounded(t, fault)
		require.NotEmpty(t, fault.Codes)
		a := classify.Attempt{Operation: name, Sent: true, Status: http.StatusOK}
		v := classify.Decide(a, fault, nil, p.Table)
		require.NotContains(t, []classify.Class{classify.Success, classify.Unknown}, v.Class, v.Reason)
		require.True(t, !fault.Job || v.Class == classify.Permanent)
	})
}
