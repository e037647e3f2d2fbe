package sim

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"strings"

	"github.com/ocr-proxy/ocr-proxy/internal/grpcwire"
)

// method is one method of a provider's gRPC form, told in terms of its REST form. The provider's own front does the same the other way round.
type method struct {
	request, response schema
	// path is the REST path for a request, of which the message's own fields are given.
	path func(request object) string
}

// grpcMethods are the gRPC methods of a kind, by path; nil for kinds that have no gRPC form.
func grpcMethods(kind Kind) map[string]method {
	switch kind {
	case KindDocumentAI:
		return map[string]method{"/google.cloud.documentai.v1.DocumentProcessorService/ProcessDocument": documentAIMethod()}
	case KindVision:
		return map[string]method{"/google.cloud.vision.v1.ImageAnnotator/BatchAnnotateImages": visionMethod()}
	case KindTextract, KindAzure, KindMistral:
	}
	return nil
}

func isGRPC(r *http.Request) bool {
	return r.ProtoMajor >= 2 && strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc")
}

// serveGRPC answers a gRPC call by the REST call that asks for the same, and tells that one's answer as gRPC does. All faults are the same.
func (s *Server) serveGRPC(w http.ResponseWriter, r *http.Request) {
	m, known := s.methods[r.URL.Path]
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	rest := r.Clone(r.Context())
	rest.Header.Set("Content-Type", "application/json")
	sent := readRequest(body, r.Header.Get("Grpc-Encoding"), m.request)
	if path, ok := restPath(m, sent); ok {
		rest.URL.Path, rest.URL.RawPath = path, ""
	}
	payload, err := json.Marshal(sent)
	if err != nil || sent == nil {
		payload = nil // no JSON, as it was no message: the REST form finds the words for it
	}
	rest.Body, rest.ContentLength = io.NopCloser(bytes.NewReader(payload)), int64(len(payload))
	told := recorder{header: http.Header{}}
	s.serveREST(&told, rest) // panics where the answer is to be lost: HTTP/2 resets the stream
	maps.Copy(w.Header(), told.header)
	w.Header().Set("Content-Type", "application/grpc")
	w.Header().Del("Retry-After") // gRPC says that in a detail of the status
	if told.status != http.StatusOK || !known {
		status := grpcStatus(told.status, told.body.Bytes())
		if !known && told.status == http.StatusNotFound {
			status.Code = grpcwire.Unimplemented
		}
		status.Write(w.Header())
		return
	}
	var answer object
	if err := json.Unmarshal(told.body.Bytes(), &answer); err != nil {
		grpcwire.Status{Code: grpcwire.Internal, Message: "The answer is no JSON."}.Write(w.Header())
		return
	}
	_, _ = w.Write(grpcwire.Frame(m.response.encode(answer))) // One that has gone is its own business.
	w.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
}

// recorder takes the answer of a REST call. It has no connection that could be taken over.
type recorder struct {
	status int
	header http.Header
	body   bytes.Buffer
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) WriteHeader(status int)      { r.status = status }
func (r *recorder) Write(p []byte) (int, error) { return r.body.Write(p) }

// readRequest is the message of a call as JSON would have it; nil where there is none.
func readRequest(body []byte, coding string, s schema) object {
	if grpcwire.Check(bytes.NewReader(body), int64(len(body))) != nil {
		return nil
	}
	message, err := grpcwire.Message(bytes.NewReader(body), coding)
	if err != nil {
		return nil
	}
	request, err := s.decode(grpcwire.NewReader(message))
	if err != nil {
		return nil
	}
	return request
}

func restPath(m method, request object) (string, bool) {
	if m.path == nil {
		return "", false
	}
	return m.path(request), true
}

// grpcStatus tells a REST error as gRPC does.
func grpcStatus(status int, body []byte) grpcwire.Status {
	var told struct {
		Error struct {
			Message string   `json:"message"`
			Status  string   `json:"status"`
			Details []object `json:"details"`
		} `json:"error"`
	}
	_ = json.Unmarshal(body, &told) // a script's answer may be anything
	name := told.Error.Status
	if name == "" {
		name = googleStatus(status)
	}
	s := grpcwire.Status{Code: canonicalNumber(name), Message: told.Error.Message}
	for _, detail := range told.Error.Details {
		kind, _ := detail["@type"].(string)
		if known, ok := detailSchemas()[kind[strings.LastIndexByte(kind, '.')+1:]]; ok {
			s.Details = append(s.Details, grpcwire.Detail{Type: kind, Value: known.encode(detail)})
		}
	}
	return s
}

// canonicalNumber is the number of a canonical code's name; Unknown for any other name.
func canonicalNumber(name string) int {
	names := []string{
		"OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED",
		"RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS",
		"UNAUTHENTICATED",
	}
	for n, known := range names {
		if name == known {
			return n
		}
	}
	return grpcwire.Unknown
}
