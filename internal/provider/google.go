package provider

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/ocr-proxy/ocr-proxy/internal/classify"
	"github.com/ocr-proxy/ocr-proxy/internal/jsonstream"
	"github.com/ocr-proxy/ocr-proxy/internal/retry"
)

// googleDaily is a code of our own that follows Google's: the limit that was hit is one per day. Google says so only in the limit's name.
const googleDaily = "QUOTA_PER_DAY"

// maxReasons bounds how many reasons are kept; Google sends one.
const maxReasons = 8

// googleFault reads Google's {"error": {"code", "status", "message", "details"}}. The reason of an ErrorInfo says more than the status; the
// wait stands in a RetryInfo.
func googleFault(a classify.Attempt) classify.Fault {
	body := classify.ReadBody(a.Body)
	status := body.At("error")
	f := classify.Fault{Message: classify.First(status.At("message").Text(), body.At("message").Text(), status.Text())}
	var codes []string
	daily := false
	for _, detail := range status.At("details").Each() {
		kind := detail.At("@type").Text()
		switch kind[strings.LastIndexAny(kind, "./")+1:] {
		case "ErrorInfo":
			if len(codes) < maxReasons {
				codes = append(codes, detail.At("reason").Text())
			}
			daily = daily || perDay(detail.At("metadata", "quota_limit").Text())
		case "QuotaFailure":
			for _, violation := range detail.At("violations").Each() {
				daily = daily || perDay(violation.At("quotaId").Text())
			}
		case "RetryInfo":
			f.Wait, _ = retry.ProtoDuration(detail.At("retryDelay").Text())
		}
	}
	codes = append(codes, status.At("status").Text())
	if n, ok := status.At("code").Int(); ok && status.At("status").Text() == "" {
		codes = append(codes, canonical(n)) // where no status stands beside it, a small code is the canonical number
	}
	if daily {
		codes = append(codes, googleDaily)
	}
	f.Codes = classify.Codes(codes...)
	return f
}

func perDay(limit string) bool { return strings.Contains(strings.ToLower(limit), "perday") }

// canonical is the name of a canonical error code, which Google writes as a number wherever a Status is nested in an answer; "" for OK and
// for what is no such number.
func canonical(n int) string {
	names := [...]string{
		"", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED",
		"RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS",
		"UNAUTHENTICATED",
	}
	if n < 0 || n >= len(names) {
		return ""
	}
	return names[n]
}

// nested is the name of the canonical code at a path of a good answer; false where there is none or it says OK.
func nested(v jsonstream.Value) (string, bool) {
	n, ok := v.Int()
	if !ok || n == 0 {
		return "", false
	}
	if n < 0 || n > 16 {
		return v.Text, true
	}
	return canonical(int(n)), true
}

// googleOperationRoutes are the calls of google.longrunning.Operations, to none of which a second one adds anything.
func googleOperationRoutes() []route {
	return []route{
		{http.MethodGet, "operations/*", Operation{Name: "getOperation", Repeat: Always, Judged: true}},
		{http.MethodPost, "operations/*:wait", Operation{Name: "waitOperation", Repeat: Always, Judged: true}},
		{http.MethodGet, "operations", Operation{Name: "listOperations", Repeat: Always}},
		{http.MethodPost, "operations/*:cancel", Operation{Name: "cancelOperation", Repeat: Always}},
		{http.MethodDelete, "operations/*", Operation{Name: "deleteOperation", Repeat: Always}},
	}
}

// googleOperationPaths are what googleOperation looks at.
func googleOperationPaths() []string {
	return []string{"done", "error.code", "error.message"}
}

// googleOperation finds the failure of a long-running operation, which is told inside a good answer.
func googleOperation(v jsonstream.Found) (classify.Fault, bool) {
	for _, value := range v["error.code"] {
		if code, failed := nested(value); failed {
			return classify.Fault{Codes: classify.Codes(code), Message: classify.First(word(v, "error.message")), Job: true}, true
		}
	}
	return classify.Fault{}, false
}

func googleTable() classify.Table {
	const exhausted = "RESOURCE_EXHAUSTED"
	t := classify.Table{
		{Code: googleDaily, Class: classify.Quota},
		{Code: exhausted, Text: "larger than max", Class: classify.Permanent}, // a message that does not fit, whatever its code says
		{Code: exhausted, Text: "per day", Class: classify.Quota},
	}
	t = append(t, codes(classify.Quota, "RESOURCE_QUOTA_EXCEEDED", "BILLING_DISABLED")...)
	t = append(t, codes(classify.Auth, "SERVICE_DISABLED", "API_KEY_INVALID", "API_KEY_SERVICE_BLOCKED", "API_KEY_HTTP_REFERRER_BLOCKED",
		"API_KEY_IP_ADDRESS_BLOCKED", "API_KEY_ANDROID_APP_BLOCKED", "API_KEY_IOS_APP_BLOCKED", "USER_PROJECT_DENIED", "CONSUMER_SUSPENDED",
		"CONSUMER_INVALID", "GCP_SUSPENDED", "ACCESS_TOKEN_EXPIRED", "ACCESS_TOKEN_SCOPE_INSUFFICIENT", "ACCESS_TOKEN_TYPE_UNSUPPORTED",
		"CREDENTIALS_MISSING", "OVERLOADED_CREDENTIALS", "IAM_PERMISSION_DENIED", "JWT_TOKEN_INVALID", "ACCOUNT_STATE_INVALID",
		"SECURITY_POLICY_VIOLATED", "RESOURCE_PROJECT_INVALID", "LOCATION_ORG_POLICY_VIOLATED", "TLS_ORG_POLICY_VIOLATED")...)
	t = append(t, codes(classify.Throttle, "RATE_LIMIT_EXCEEDED")...)
	t = append(t, codes(classify.Auth, "UNAUTHENTICATED", "PERMISSION_DENIED")...)
	t = append(t, codes(classify.Throttle, exhausted)...)
	t = append(t, codes(classify.Transient, "UNAVAILABLE", "DEADLINE_EXCEEDED", "INTERNAL", "UNKNOWN", "ABORTED")...)
	return append(t, codes(classify.Permanent, "INVALID_ARGUMENT", "FAILED_PRECONDITION", "OUT_OF_RANGE", "NOT_FOUND", "ALREADY_EXISTS",
		"UNIMPLEMENTED", "DATA_LOSS")...)
}

// googleProblem fills in every part that Google's clients look at: a bare text under "error" makes one of them fail on its own error path.
func googleProblem(p Problem) (http.Header, []byte) {
	status := "INTERNAL"
	switch p.Status {
	case http.StatusServiceUnavailable:
		status = "UNAVAILABLE"
	case http.StatusGatewayTimeout:
		status = "DEADLINE_EXCEEDED"
	case http.StatusBadRequest, http.StatusUnprocessableEntity, http.StatusRequestEntityTooLarge:
		status = "INVALID_ARGUMENT"
	}
	return jsonProblem(map[string]any{"error": map[string]any{
		"code": p.Status, "message": p.Message, "status": status,
		"details": []any{map[string]any{
			"@type":  "type.googleapis.com/google.rpc.ErrorInfo",
			"reason": strings.ToUpper(p.Reason), "domain": "ocr-proxy", "metadata": map[string]any{},
		}},
	}})
}

// googleMasks reports whether a call asks for some fields of its answer only, as all of Google's REST APIs understand it.
func googleMasks(rawQuery string) bool {
	query, err := url.ParseQuery(rawQuery)
	return err != nil || query.Has("fields") || query.Has("$fields")
}
