package provider

import (
	"net/http"
	"strings"

	"github.com/ocr-proxy/ocr-proxy/internal/fingerprint"
	"github.com/ocr-proxy/ocr-proxy/internal/grpcwire"
)

// GRPC is what a kind's gRPC form has of its own. Everything else is the same as over REST: the names of operations, Fault, Judge, Table.
type GRPC struct {
	// Operation recognises a call by its path, "/package.Service/Method".
	Operation func(path string) Operation
	// Streams reports whether a path is that of a method known to stream. Such calls are not carried.
	Streams func(path string) bool
	// Error writes a status that is not OK as the body with which the same API tells the same error over REST, for Fault to read.
	Error func(s grpcwire.Status) []byte
	// Answer says for an operation where in its answers the values of Watch stand; nil: they hold nothing that is looked at.
	Answer func(operation string) Fields
	// Documents says for an operation where its requests carry documents.
	Documents func(operation string) fingerprint.Places
	// Batch is Batch for messages instead of JSON; nil: no call is made again for some of its items.
	Batch *Batch
	// Jobs is Jobs for messages instead of JSON; nil: calls start none. The ids are the same, so that a job may be started in one form and asked
	// for in the other.
	Jobs *Jobs
	// REST is how people switch the kind's client libraries to REST, as the end of a sentence.
	REST string
}

// Fields are the fields of a message that are looked at, by their numbers.
type Fields map[int]AnswerField

// AnswerField is one field of a message that is looked at.
type AnswerField struct {
	// Name is the field's place in a path of Watch, "[]" included where it is repeated. "" is a step that JSON does not have.
	Name string
	// Bool marks truth values, which are numbers on the wire.
	Bool bool
	// In are the fields looked at of a field that is a message; nil: the field is a value itself.
	In Fields
	// If is how the type of the Any must end whose message this is; "": it is none.
	If string
}

// IsGRPC reports whether a request is a gRPC call. The dialect for browsers, gRPC-Web, is another protocol.
func IsGRPC(h http.Header) bool {
	media, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	media = strings.ToLower(strings.TrimSpace(media))
	return media == "application/grpc" || strings.HasPrefix(media, "application/grpc+")
}
