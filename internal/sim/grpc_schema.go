package sim

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ocr-proxy/ocr-proxy/internal/grpcwire"
)

// schema is what the simulator knows of a protobuf message: its fields by their JSON names. Others are left out.
type schema map[string]pbField

// pbField is one field of a message.
type pbField struct {
	number   int
	kind     pbKind
	repeated bool
	in       schema   // of a message
	words    []string // of an enum, by number
}

// pbKind is how a field's JSON value and its bytes go together.
type pbKind int

const (
	pbText pbKind = iota
	pbBytes
	pbInteger // a number, a truth value, or an enum if there are words
	pbFloat
	pbMessage
	pbEntries // a map from text to text
	pbSpan    // a google.protobuf.Duration
)

// encode writes a JSON object as a message. Zero values are left out, as in every message of proto3.
func (s schema) encode(o object) []byte {
	names := slices.SortedFunc(maps.Keys(s), func(a, b string) int { return s[a].number - s[b].number })
	var out []byte
	for _, name := range names {
		f := s[name]
		value, ok := o[name]
		if !ok {
			continue
		}
		if list, ok := value.([]any); ok && f.repeated {
			for _, item := range list {
				out = f.append(out, item, true)
			}
			continue
		}
		out = f.append(out, value, false)
	}
	return out
}

// append adds one value. An item of a list is written whatever it is.
func (f pbField) append(out []byte, value any, item bool) []byte {
	switch f.kind {
	case pbText:
		if text, _ := value.(string); text != "" || item {
			return grpcwire.AppendBytes(out, f.number, []byte(text))
		}
	case pbBytes:
		text, _ := value.(string)
		data, err := decodeBase64(text)
		if err == nil && (len(data) > 0 || item) {
			return grpcwire.AppendBytes(out, f.number, data)
		}
	case pbInteger:
		if n := f.integer(value); n != 0 || item {
			return grpcwire.AppendVarint(out, f.number, uint64(n)) //nolint:gosec // As protobuf writes negative numbers.
		}
	case pbFloat:
		if n, _ := value.(float64); n != 0 || item {
			return grpcwire.AppendFloat(out, f.number, float32(n))
		}
	case pbMessage:
		if o, ok := value.(object); ok {
			return grpcwire.AppendBytes(out, f.number, f.in.encode(o))
		}
	case pbEntries:
		entries, _ := value.(object)
		for _, key := range slices.Sorted(maps.Keys(entries)) {
			text, _ := entries[key].(string)
			entry := grpcwire.AppendBytes(grpcwire.AppendBytes(nil, 1, []byte(key)), 2, []byte(text))
			out = grpcwire.AppendBytes(out, f.number, entry)
		}
	case pbSpan:
		text, _ := value.(string)
		d, err := time.ParseDuration(text)
		if err == nil {
			span := grpcwire.AppendVarint(nil, 1, uint64(d/time.Second))        //nolint:gosec // Hints are not negative.
			span = grpcwire.AppendVarint(span, 2, uint64(int64(d%time.Second))) //nolint:gosec // Hints are not negative.
			return grpcwire.AppendBytes(out, f.number, span)
		}
	}
	return out
}

// integer reads what JSON writes for whole numbers: a number, a text for 64 bits, a truth value, an enum's word.
func (f pbField) integer(value any) int64 {
	switch v := value.(type) {
	case float64:
		return int64(v)
	case bool:
		if v {
			return 1
		}
	case string:
		if i := slices.Index(f.words, v); i > 0 {
			return int64(i)
		}
		n, _ := strconv.ParseInt(v, 10, 64) // no number: an enum's word that is not known
		return n
	}
	return 0
}

// decode reads a message as the JSON object that says the same.
func (s schema) decode(r *grpcwire.Reader) (object, error) {
	byNumber := make(map[int]string, len(s))
	for name, f := range s {
		byNumber[f.number] = name
	}
	out := object{}
	for {
		head, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		name, ok := byNumber[head.Number]
		if !ok {
			continue
		}
		value, err := s[name].read(r, head)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if s[name].repeated {
			list, _ := out[name].([]any)
			out[name] = append(list, value)
		} else {
			out[name] = value
		}
	}
}

func (f pbField) read(r *grpcwire.Reader, head grpcwire.Field) (any, error) {
	switch {
	case head.Type == grpcwire.Bytes && f.kind == pbMessage:
		return f.in.decode(r.Message())
	case head.Type == grpcwire.Bytes:
		data, err := io.ReadAll(r)
		if f.kind == pbBytes {
			return base64.StdEncoding.EncodeToString(data), err
		}
		return strings.ToValidUTF8(string(data), "\uFFFD"), err
	case f.kind == pbFloat && head.Type == grpcwire.Fixed32:
		return float64(math.Float32frombits(uint32(head.Value))), nil //nolint:gosec // It has 32 bits.
	case f.kind == pbInteger && f.boolean():
		return head.Value != 0, nil
	}
	return int64(head.Value), nil //nolint:gosec // As protobuf writes negative numbers.
}

// boolean reports whether the field is a truth value, which the schema marks by a list of words without any.
func (f pbField) boolean() bool { return f.words != nil && len(f.words) == 0 }
