package provider

import (
	"encoding/json"
	"net/http"
)

// jsonProblem is an error answer with a JSON body.
func jsonProblem(body map[string]any) (http.Header, []byte) {
	return http.Header{"Content-Type": {"application/json"}}, encode(body)
}

// encode writes a JSON object; the values are the proxy's own and always encode.
func encode(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		return []byte("{}")
	}
	return data
}
