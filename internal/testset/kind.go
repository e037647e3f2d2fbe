package testset

import (
	"bytes"
	"mime"
	"net/http"
	"strings"
)

// sniffed is how many bytes of a file are looked at to tell what it is.
const sniffed = 512

// ending is a file name's ending by what the file is, else by what it was said to be.
func ending(head []byte, contentType string) string {
	for _, magic := range []string{"II*\x00", "MM\x00*"} {
		if bytes.HasPrefix(head, []byte(magic)) {
			return ".tiff"
		}
	}
	if known := byType(http.DetectContentType(head)); known != "" {
		return known
	}
	if known := byType(contentType); known != "" {
		return known
	}
	if looksLikeJSON(head) {
		return ".json"
	}
	return ".bin"
}

func looksLikeJSON(head []byte) bool {
	start := bytes.TrimLeft(head, " \t\r\n")
	return len(start) > 0 && (start[0] == '{' || start[0] == '[')
}

func byType(contentType string) string {
	media, _, _ := mime.ParseMediaType(contentType) // Of a malformed one the type comes all the same, or nothing.
	switch media {
	case "application/pdf":
		return ".pdf"
	case "image/png":
		return ".png"
	case "image/jpeg", "image/jpg":
		return ".jpg"
	case "image/tiff":
		return ".tiff"
	case "image/gif":
		return ".gif"
	case "image/bmp":
		return ".bmp"
	case "image/webp":
		return ".webp"
	case "image/heic", "image/heif":
		return ".heic"
	case "application/vnd.openxmlformats-officedocument.wordprocessingml.document":
		return ".docx"
	case "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet":
		return ".xlsx"
	case "application/vnd.openxmlformats-officedocument.presentationml.presentation":
		return ".pptx"
	case "multipart/form-data", "application/x-www-form-urlencoded":
		return ".form"
	}
	if isJSON(media) {
		return ".json"
	}
	return ""
}

func isJSON(media string) bool {
	return media == "application/json" || media == "text/json" || strings.HasSuffix(media, "+json") || strings.HasPrefix(media, "application/x-amz-json-")
}

// structured tells whether a body of that type is a request about a document rather than the document.
func structured(contentType string) bool {
	known := byType(contentType)
	return known == ".json" || known == ".form"
}
