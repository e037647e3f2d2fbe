package sim

// The numbers here are those of Google's published .proto files.

func documentAIMethod() method {
	document := schema{
		"content":  {number: 1, kind: pbBytes},
		"mimeType": {number: 2},
	}
	return method{
		request: schema{
			"name":        {number: 1},
			"rawDocument": {number: 5, kind: pbMessage, in: document},
			"inlineDocument": {number: 4, kind: pbMessage, in: schema{
				"content": {number: 2, kind: pbBytes}, "mimeType": {number: 3},
			}},
			"gcsDocument": {number: 8, kind: pbMessage, in: schema{"gcsUri": {number: 1}, "mimeType": {number: 2}}},
		},
		response: schema{
			"document":          {number: 1, kind: pbMessage, in: documentAISchema()},
			"humanReviewStatus": {number: 3, kind: pbMessage, in: schema{"state": enum(1, "STATE_UNSPECIFIED", "SKIPPED")}},
		},
		path: func(request object) string {
			name, _ := request["name"].(string)
			if name == "" {
				name = "projects/-/locations/-/processors/-" // what is no message has no name, and gets the error that it is none
			}
			return "/v1/" + name + ":process"
		},
	}
}

// documentAISchema is google.cloud.documentai.v1.Document, as far as the simulator answers with it.
func documentAISchema() schema {
	layout := pbField{kind: pbMessage, in: schema{
		"textAnchor": {number: 1, kind: pbMessage, in: schema{
			"textSegments": {number: 1, kind: pbMessage, repeated: true, in: schema{
				"startIndex": {number: 1, kind: pbInteger}, "endIndex": {number: 2, kind: pbInteger},
			}},
		}},
		"confidence":   {number: 2, kind: pbFloat},
		"boundingPoly": {number: 3, kind: pbMessage, in: polygonSchema()},
		"orientation":  enum(4, "ORIENTATION_UNSPECIFIED", "PAGE_UP"),
	}}
	part := schema{"layout": layout.as(1)}
	return schema{
		"mimeType": {number: 3},
		"text":     {number: 4},
		"pages": {number: 6, kind: pbMessage, repeated: true, in: schema{
			"pageNumber": {number: 1, kind: pbInteger},
			"dimension": {number: 2, kind: pbMessage, in: schema{
				"width": {number: 1, kind: pbFloat}, "height": {number: 2, kind: pbFloat}, "unit": {number: 3},
			}},
			"layout": layout.as(3),
			"detectedLanguages": {number: 4, kind: pbMessage, repeated: true, in: schema{
				"languageCode": {number: 1}, "confidence": {number: 2, kind: pbFloat},
			}},
			"blocks":     {number: 5, kind: pbMessage, repeated: true, in: part},
			"paragraphs": {number: 6, kind: pbMessage, repeated: true, in: part},
			"lines":      {number: 7, kind: pbMessage, repeated: true, in: part},
			"tokens": {number: 8, kind: pbMessage, repeated: true, in: schema{
				"layout":        layout.as(1),
				"detectedBreak": {number: 2, kind: pbMessage, in: schema{"type": enum(1, "TYPE_UNSPECIFIED", "SPACE", "WIDE_SPACE", "HYPHEN")}},
			}},
		}},
	}
}

func visionMethod() method {
	return method{
		request: schema{
			"requests": {number: 1, kind: pbMessage, repeated: true, in: schema{
				"image": {number: 1, kind: pbMessage, in: schema{
					"content": {number: 1, kind: pbBytes},
					"source":  {number: 2, kind: pbMessage, in: schema{"gcsImageUri": {number: 1}, "imageUri": {number: 2}}},
				}},
				"features": {number: 2, kind: pbMessage, repeated: true, in: schema{"type": {number: 1, kind: pbInteger}}},
				"imageContext": {number: 3, kind: pbMessage, in: schema{
					"textDetectionParams": {number: 12, kind: pbMessage, in: schema{
						"enableTextDetectionConfidenceScore": {number: 9, kind: pbInteger, words: []string{}},
					}},
				}},
			}},
			"parent": {number: 4},
		},
		response: schema{"responses": {number: 1, kind: pbMessage, repeated: true, in: visionSchema()}},
		path: func(request object) string {
			if parent, _ := request["parent"].(string); parent != "" {
				return "/v1/" + parent + "/images:annotate"
			}
			return "/v1/images:annotate"
		},
	}
}

// visionSchema is google.cloud.vision.v1.AnnotateImageResponse, as far as the simulator answers with it.
func visionSchema() schema {
	box := pbField{number: 2, kind: pbMessage, in: polygonSchema()}
	score := func(number int) pbField { return pbField{number: number, kind: pbFloat} }
	symbol := schema{
		"property": {number: 1, kind: pbMessage, in: schema{
			"detectedBreak": {number: 2, kind: pbMessage, in: schema{
				"type": enum(1, "UNKNOWN", "SPACE", "SURE_SPACE", "EOL_SURE_SPACE", "HYPHEN", "LINE_BREAK"),
			}},
		}},
		"boundingBox": box, "text": {number: 3}, "confidence": score(4),
	}
	word := schema{"boundingBox": box, "symbols": {number: 3, kind: pbMessage, repeated: true, in: symbol}, "confidence": score(4)}
	paragraph := schema{"boundingBox": box, "words": {number: 3, kind: pbMessage, repeated: true, in: word}, "confidence": score(4)}
	block := schema{
		"boundingBox": box, "paragraphs": {number: 3, kind: pbMessage, repeated: true, in: paragraph},
		"blockType": enum(4, "UNKNOWN", "TEXT"), "confidence": score(5),
	}
	return schema{
		"textAnnotations": {number: 5, kind: pbMessage, repeated: true, in: schema{
			"locale": {number: 2}, "description": {number: 3}, "boundingPoly": {number: 7, kind: pbMessage, in: polygonSchema()},
		}},
		"error": {number: 9, kind: pbMessage, in: schema{"code": {number: 1, kind: pbInteger}, "message": {number: 2}}},
		"fullTextAnnotation": {number: 12, kind: pbMessage, in: schema{
			"pages": {number: 1, kind: pbMessage, repeated: true, in: schema{
				"width": {number: 2, kind: pbInteger}, "height": {number: 3, kind: pbInteger},
				"blocks": {number: 4, kind: pbMessage, repeated: true, in: block}, "confidence": score(5),
			}},
			"text": {number: 2},
		}},
	}
}

// polygonSchema is the BoundingPoly of both APIs.
func polygonSchema() schema {
	return schema{
		"vertices": {number: 1, kind: pbMessage, repeated: true, in: schema{
			"x": {number: 1, kind: pbInteger}, "y": {number: 2, kind: pbInteger},
		}},
		"normalizedVertices": {number: 2, kind: pbMessage, repeated: true, in: schema{
			"x": {number: 1, kind: pbFloat}, "y": {number: 2, kind: pbFloat},
		}},
	}
}

// detailSchemas are the details of google/rpc/error_details.proto that the simulator's errors carry.
func detailSchemas() map[string]schema {
	return map[string]schema{
		"ErrorInfo": {"reason": {number: 1}, "domain": {number: 2}, "metadata": {number: 3, kind: pbEntries}},
		"RetryInfo": {"retryDelay": {number: 1, kind: pbSpan}},
		"BadRequest": {"fieldViolations": {number: 1, kind: pbMessage, repeated: true, in: schema{
			"field": {number: 1}, "description": {number: 2},
		}}},
	}
}

func enum(number int, words ...string) pbField {
	return pbField{number: number, kind: pbInteger, words: words}
}

// as is the same field under another number.
func (f pbField) as(number int) pbField {
	f.number = number
	return f
}
