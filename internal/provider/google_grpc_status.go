package provider

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/ocr-proxy/ocr-proxy/internal/classify"
	"github.com/ocr-proxy/ocr-proxy/internal/grpcwire"
)

// maxDetailText bounds what is read of each text of a detail, in bytes, and maxDetailItems how many items of each list.
const maxDetailText, maxDetailItems = 1000, 32

// googleStatus writes a gRPC status as Google's REST body for the same error. There is then one reader of errors for both.
func googleStatus(s grpcwire.Status) []byte {
	var details []any
	for _, d := range s.Details {
		detail := map[string]any{"@type": d.Type}
		r := grpcwire.NewReader(bytes.NewReader(d.Value))
		switch d.Type[strings.LastIndexAny(d.Type, "./")+1:] {
		case "ErrorInfo":
			readErrorInfo(r, detail)
		case "RetryInfo":
			readRetryInfo(r, detail)
		case "QuotaFailure":
			readQuotaFailure(r, detail)
		}
		details = append(details, detail)
	}
	return encode(map[string]any{"error": map[string]any{
		"code": grpcwire.HTTPStatus(s.Code), "status": canonical(s.Code), "message": classify.First(s.Message), "details": details,
	}})
}

func readErrorInfo(r *grpcwire.Reader, detail map[string]any) {
	metadata := map[string]any{}
	each(r, func(number int) {
		switch number {
		case 1:
			detail["reason"] = text(r)
		case 3:
			key, value := "", ""
			in := r.Message()
			each(in, func(number int) {
				switch number {
				case 1:
					key = text(in)
				case 2:
					value = text(in)
				}
			})
			if len(metadata) < maxDetailItems {
				metadata[key] = value
			}
		}
	})
	detail["metadata"] = metadata
}

func readQuotaFailure(r *grpcwire.Reader, detail map[string]any) {
	var violations []any
	each(r, func(number int) {
		if number != 1 || len(violations) == maxDetailItems {
			return
		}
		violation := map[string]any{}
		in := r.Message()
		each(in, func(number int) {
			if number == 5 {
				violation["quotaId"] = text(in)
			}
		})
		violations = append(violations, violation)
	})
	detail["violations"] = violations
}

// readRetryInfo reads a google.protobuf.Duration into its JSON form, "1.5s".
func readRetryInfo(r *grpcwire.Reader, detail map[string]any) {
	var seconds, nanos int64
	each(r, func(number int) {
		if number != 1 {
			return
		}
		in := r.Message()
		for f, err := in.Next(); err == nil; f, err = in.Next() {
			switch {
			case f.Type != grpcwire.Varint:
			case f.Number == 1:
				seconds = int64(f.Value) //nolint:gosec // as protobuf writes negative numbers
			case f.Number == 2:
				nanos = int64(f.Value) //nolint:gosec // as protobuf writes negative numbers
			}
		}
	})
	if seconds < 0 || nanos < 0 || nanos > 999_999_999 {
		return // in the past, or no duration: no hint
	}
	fraction := strconv.FormatInt(1_000_000_000+nanos, 10)[1:]
	detail["retryDelay"] = strconv.FormatInt(seconds, 10) + "." + fraction + "s"
}

// each calls do for the fields of a message that are text or messages. What is malformed ends it.
func each(r *grpcwire.Reader, do func(number int)) {
	for f, err := r.Next(); err == nil; f, err = r.Next() {
		if f.Type == grpcwire.Bytes {
			do(f.Number)
		}
	}
}

func text(r *grpcwire.Reader) string {
	s, err := r.Text(maxDetailText)
	if err != nil {
		return ""
	}
	return s
}
