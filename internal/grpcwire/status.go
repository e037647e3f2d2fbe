package grpcwire

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The canonical codes that this program makes itself or looks for.
const (
	OK                = 0
	Unknown           = 2
	InvalidArgument   = 3
	DeadlineExceeded  = 4
	ResourceExhausted = 8
	PermissionDenied  = 7
	Unimplemented     = 12
	Internal          = 13
	Unavailable       = 14
	Unauthenticated   = 16
)

// maxDetails bounds how many details of a status are read.
const maxDetails = 32

// Status is how a call ended.
type Status struct {
	Code    int // 0 to 16
	Message string
	Details []Detail
}

// Detail says more about an error; it is one of the messages of google/rpc/error_details.proto, mostly.
type Detail struct {
	Type  string // such as type.googleapis.com/google.rpc.RetryInfo
	Value []byte // the message
}

// ReadStatus reads the status out of an answer's trailers, or out of its head where there is nothing else. It reports false where there is
// none. A code that nobody defined is Unknown, as clients take it.
func ReadStatus(h http.Header) (Status, bool) {
	values := h["Grpc-Status"]
	if len(values) == 0 {
		return Status{}, false
	}
	s := Status{Code: Unknown, Message: decodeMessage(h.Get("Grpc-Message"))}
	if n, err := strconv.ParseUint(values[0], 10, 8); err == nil && n <= 16 {
		s.Code = int(n)
	}
	if s.Code == OK {
		return s, true
	}
	if data, err := decodeBinary(h.Get("Grpc-Status-Details-Bin")); err == nil {
		s.read(data)
	}
	return s, true
}

// read takes details, and a message where there is none yet, from a google.rpc.Status. What is malformed ends it: the code is known already.
func (s *Status) read(data []byte) {
	r := NewReader(bytes.NewReader(data))
	for f, err := r.Next(); err == nil && len(s.Details) < maxDetails; f, err = r.Next() {
		switch {
		case f.Type != Bytes:
		case f.Number == 2 && s.Message == "":
			s.Message, _ = r.Text(len(data))
		case f.Number == 3:
			var d Detail
			in := r.Message()
			for f, err := in.Next(); err == nil; f, err = in.Next() {
				switch {
				case f.Type != Bytes:
				case f.Number == 1:
					d.Type, _ = in.Text(len(data))
				case f.Number == 2:
					d.Value, _ = io.ReadAll(in)
				}
			}
			s.Details = append(s.Details, d)
		}
	}
}

// Write puts the status into a head or into trailers.
func (s Status) Write(h http.Header) {
	h.Set("Grpc-Status", strconv.Itoa(s.Code))
	if s.Message != "" {
		h.Set("Grpc-Message", encodeMessage(s.Message))
	}
	if len(s.Details) == 0 {
		return
	}
	whole := AppendVarint(nil, 1, uint64(s.Code)) //nolint:gosec // codes are small and positive
	whole = AppendBytes(whole, 2, []byte(s.Message))
	for _, d := range s.Details {
		whole = AppendBytes(whole, 3, AppendBytes(AppendBytes(nil, 1, []byte(d.Type)), 2, d.Value))
	}
	h.Set("Grpc-Status-Details-Bin", base64.RawStdEncoding.EncodeToString(whole))
}

// HTTPStatus is the HTTP status with which the same error is told over REST, by the mapping of google/rpc/code.proto.
func HTTPStatus(code int) int {
	statuses := [...]int{
		http.StatusOK, 499, http.StatusInternalServerError, http.StatusBadRequest, http.StatusGatewayTimeout, http.StatusNotFound,
		http.StatusConflict, http.StatusForbidden, http.StatusTooManyRequests, http.StatusBadRequest, http.StatusConflict,
		http.StatusBadRequest, http.StatusNotImplemented, http.StatusInternalServerError, http.StatusServiceUnavailable,
		http.StatusInternalServerError, http.StatusUnauthorized,
	}
	if code < 0 || code >= len(statuses) {
		return http.StatusInternalServerError
	}
	return statuses[code]
}

// decodeBinary reads the value of a header whose name ends in -bin: base64 with or without padding.
func decodeBinary(value string) ([]byte, error) {
	if value == "" {
		return nil, errors.ErrUnsupported
	}
	return base64.RawStdEncoding.DecodeString(strings.TrimRight(value, "="))
}

// encodeMessage writes a text as Grpc-Message carries it: printable ASCII but the percent sign stands for itself.
func encodeMessage(text string) string {
	const digits = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(text) {
		if c := text[i]; c >= ' ' && c <= '~' && c != '%' {
			b.WriteByte(c)
		} else {
			b.WriteString("%" + string(digits[c>>4]) + string(digits[c&15]))
		}
	}
	return b.String()
}

// decodeMessage undoes encodeMessage. What is no escape stays as it is.
func decodeMessage(text string) string {
	if !strings.Contains(text, "%") {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '%' && i+2 < len(text) {
			if c, err := strconv.ParseUint(text[i+1:i+3], 16, 8); err == nil {
				b.WriteByte(byte(c))
				i += 2
				continue
			}
		}
		b.WriteByte(text[i])
	}
	return strings.ToValidUTF8(b.String(), "\uFFFD")
}

// Timeout reads the value of the header Grpc-Timeout: one to eight digits and a unit. It reports false for anything else and for zero.
func Timeout(value string) (time.Duration, bool) {
	if len(value) < 2 || len(value) > 9 || strings.Trim(value[:len(value)-1], "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(value[:len(value)-1], 10, 64)
	if err != nil || n == 0 {
		return 0, false
	}
	units := map[byte]time.Duration{
		'H': time.Hour, 'M': time.Minute, 'S': time.Second, 'm': time.Millisecond, 'u': time.Microsecond, 'n': time.Nanosecond,
	}
	unit, ok := units[value[len(value)-1]]
	if most := int64(1<<63 - 1); ok && n > most/int64(unit) {
		return time.Duration(most), true // 99999999H is the longest that can be said, and means "for ever"
	}
	return time.Duration(n) * unit, ok
}
