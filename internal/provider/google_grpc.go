package provider

import (
	"bytes"
	"net/http"
	"net/url"
	"strings"

	"github.com/ocr-proxy/ocr-proxy/internal/fingerprint"
	"github.com/ocr-proxy/ocr-proxy/internal/grpcwire"
)

// googleGRPC is the gRPC form of one of Google's APIs. Methods are known by the last words of their service and their own ("Service/Method"),
// so that every version of an API is; an operation's rules are those of its REST route. client is the name of the client in Go.
func googleGRPC(client string, routes []route, methods map[string]string, answers map[string]Fields, documents map[string]fingerprint.Places) *GRPC {
	byMethod := make(map[string]Operation, len(methods))
	for method, name := range methods {
		for _, known := range routes {
			if known.Name == name {
				byMethod[method] = known.Operation
			}
		}
	}
	return &GRPC{
		Operation: func(path string) Operation {
			if op, ok := byMethod[shortMethod(path)]; ok {
				return op
			}
			return Operation{Name: Other} // nothing says whether it reads or changes something
		},
		Streams: func(path string) bool {
			switch shortMethod(path) {
			case "ServerReflection/ServerReflectionInfo", "Health/Watch":
				return true
			}
			return false
		},
		Error:     googleStatus,
		Answer:    func(operation string) Fields { return answers[operation] },
		Documents: func(operation string) fingerprint.Places { return documents[operation] },
		REST:      `transport="rest" in Python, fallback: true in Node, New` + client + `RESTClient in Go, newHttpJsonBuilder in Java`,
	}
}

// shortMethod cuts the package off a path: "/google.longrunning.Operations/GetOperation" is "Operations/GetOperation".
func shortMethod(path string) string {
	service, method, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	return service[strings.LastIndexByte(service, '.')+1:] + "/" + method
}

// googleOperationMethods are the methods of google.longrunning.Operations.
func googleOperationMethods(methods map[string]string) map[string]string {
	for _, method := range [...]string{"GetOperation", "WaitOperation", "ListOperations", "CancelOperation", "DeleteOperation"} {
		methods["Operations/"+method] = strings.ToLower(method[:1]) + method[1:]
	}
	return methods
}

// inMessages are rules about long-running operations for gRPC, where every message that accepts, polls or drops one names it in its first field.
func inMessages(j *Jobs) *Jobs {
	name := func(frame []byte) string {
		message, err := grpcwire.Message(bytes.NewReader(frame), "")
		if err != nil {
			return ""
		}
		found, err := Fields{1: {Name: "name"}}.Pick(message, len(frame), 1)
		if err != nil {
			return ""
		}
		return operationName(found.String("name"))
	}
	in := *j
	in.Started = func(_ http.Header, body []byte) string { return name(body) }
	in.Asked = func(_ *url.URL, body []byte) string { return name(body) }
	return &in
}

// googleErrorFields are the fields of a google.rpc.Status that are looked at.
func googleErrorFields() Fields { return Fields{1: {Name: "code"}, 2: {Name: "message"}} }

// googleOperationFields are those of a google.longrunning.Operation. metadata are those of the message in its metadata; nil: it is not looked at.
func googleOperationFields(metadata Fields) Fields {
	f := Fields{
		3: {Name: "done", Bool: true},
		4: {Name: "error", In: googleErrorFields()},
	}
	if metadata != nil {
		f[2] = AnswerField{Name: "metadata", In: Fields{1: {Name: "@type"}, 2: {In: metadata, If: "BatchProcessMetadata"}}}
	}
	return f
}
