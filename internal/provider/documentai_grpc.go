package provider

import (
	"maps"

	"github.com/ocr-proxy/ocr-proxy/internal/fingerprint"
)

// documentaiGRPC is google.cloud.documentai.v1.DocumentProcessorService and the service of its long-running operations. Numbers are those of
// document_processor_service.proto, document_io.proto and document.proto.
func documentaiGRPC() *GRPC {
	methods := map[string]string{}
	for method, name := range map[string]string{
		"ProcessDocument": "process", "BatchProcessDocuments": "batchProcess", "ReviewDocument": "reviewDocument",
		"GetProcessor": "getProcessor", "ListProcessors": "listProcessors", "CreateProcessor": "createProcessor",
		"DeleteProcessor": "deleteProcessor", "EnableProcessor": "enableProcessor", "DisableProcessor": "disableProcessor",
		"SetDefaultProcessorVersion": "setDefaultProcessorVersion", "GetProcessorVersion": "getProcessorVersion",
		"ListProcessorVersions": "listProcessorVersions", "TrainProcessorVersion": "trainProcessorVersion",
		"DeployProcessorVersion": "deployProcessorVersion", "UndeployProcessorVersion": "undeployProcessorVersion",
		"EvaluateProcessorVersion": "evaluateProcessorVersion", "DeleteProcessorVersion": "deleteProcessorVersion",
		"ListProcessorTypes": "listProcessorTypes", "FetchProcessorTypes": "fetchProcessorTypes",
	} {
		methods["DocumentProcessorService/"+method] = name
	}
	batch := Fields{
		1: {Name: "state"}, 2: {Name: "stateMessage"},
		5: {Name: "individualProcessStatuses[]", In: Fields{2: {Name: "status", In: googleErrorFields()}}},
	}
	entity := func(in Fields) Fields {
		f := Fields{
			2: {Name: "type"}, 3: {Name: "mentionText"}, 5: {Name: "confidence"},
			9: {Name: "normalizedValue", In: Fields{1: {Name: "text"}}},
		}
		maps.Copy(f, in)
		return f
	}
	answers := map[string]Fields{
		"process": {
			1: {Name: "document", In: Fields{
				6: {Name: "pages[]", In: Fields{
					8: {Name: "tokens[]", In: Fields{1: {Name: "layout", In: Fields{2: {Name: "confidence"}}}}},
				}},
				7:  {Name: "entities[]", In: entity(Fields{10: {Name: "properties[]", In: entity(nil)}})},
				10: {Name: "error", In: googleErrorFields()},
			}},
			3: {Name: "humanReviewStatus", In: Fields{1: {Name: "state"}, 2: {Name: "stateMessage"}}},
		},
		"getOperation":  googleOperationFields(batch),
		"waitOperation": googleOperationFields(batch),
	}
	documents := map[string]fingerprint.Places{
		"process": {
			Inline: [][]int{{5, 1}, {4, 2}},
			Refs:   [][]int{{8, 1}, {4, 1}},
			Maps:   []int{10},
		},
		"batchProcess": {
			Refs: [][]int{{5, 1, 1}, {5, 2, 1, 1}},
			Maps: []int{9},
		},
		"reviewDocument": {Inline: [][]int{{4, 2}}, Refs: [][]int{{4, 1}}},
	}
	g := googleGRPC("DocumentProcessor", documentaiRoutes(), googleOperationMethods(methods), answers, documents)
	g.Jobs = inMessages(documentaiJobs())
	return g
}
