package sim

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"strings"

	"github.com/google/uuid"
)

// opOther stands for every operation that a protocol does not know, so that the counters stay few.
const opOther = "other"

// protocol is the wire format of one provider.
type protocol interface {
	// operation names the call that r makes, from a fixed list; opOther for anything else. The body is not read.
	operation(r *http.Request) string
	// answer does the work of the call.
	answer(ctx context.Context, c *call) reply
	// failure is an error in the provider's shape. An empty code means the usual one for the status.
	failure(status int, code, message string) reply
	// throttled is the provider's way to say "too fast"; retryAfter is in seconds, 0 for no hint.
	throttled(retryAfter int) reply
	// dress adds the headers that every answer of the provider has.
	dress(h http.Header, requestID string)
}

func newProtocol(kind Kind, s *scanner) (protocol, error) {
	switch kind {
	case KindTextract:
		return newTextract(s), nil
	case KindAzure:
		return newAzure(s), nil
	case KindDocumentAI:
		return &documentAI{scanner: s}, nil
	case KindVision:
		return &vision{scanner: s}, nil
	case KindMistral:
		return &mistral{scanner: s}, nil
	default:
		names := make([]string, 0, len(Kinds()))
		for _, k := range Kinds() {
			names = append(names, string(k))
		}
		if kind == "" {
			return nil, fmt.Errorf("no kind is given: use one of %s", strings.Join(names, ", "))
		}
		return nil, fmt.Errorf("unknown kind %q: use one of %s", kind, strings.Join(names, ", "))
	}
}

// call is one request whose body has been read.
type call struct {
	request   *http.Request
	operation string
	body      []byte
	plan      plan
	ids       *identifiers
}

// object is a JSON object under construction.
type object = map[string]any

// reply is an answer before it is written, with the work that was done for it.
type reply struct {
	status int
	header http.Header
	body   []byte
	pages  int
	jobs   int
}

func jsonReply(status int, contentType string, v any) reply {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return reply{status: http.StatusInternalServerError}
	}
	return reply{status: status, header: http.Header{"Content-Type": {contentType}}, body: bytes.TrimSpace(buf.Bytes())}
}

func (r *reply) setHeader(name, value string) {
	if r.header == nil {
		r.header = http.Header{}
	}
	r.header.Set(name, value)
}

func (r *reply) write(w http.ResponseWriter) {
	maps.Copy(w.Header(), r.header)
	w.WriteHeader(r.status)
	_, _ = w.Write(r.body) //nolint:gosec // For an API client; one that has gone is its own business.
}

// identifiers makes the ids of one answer, reproducibly.
type identifiers struct {
	source *rand.ChaCha8
}

func newIdentifiers(seed [32]byte) *identifiers {
	return &identifiers{source: rand.NewChaCha8(seed)}
}

func (i *identifiers) uuid() string {
	return uuid.Must(uuid.NewRandomFromReader(i.source)).String() // The source never fails.
}

// chance draws a number in [0, 1).
func (i *identifiers) chance() float64 {
	return rand.New(i.source).Float64() //nolint:gosec // Reproducible faults, no secret.
}

var errBase64 = errors.New("the content is not valid base64")

// decodeBase64 accepts the standard and the URL alphabet, padded or not, as the providers' JSON parsers do.
func decodeBase64(s string) ([]byte, error) {
	s = strings.NewReplacer("-", "+", "_", "/", "\n", "", "\r", "").Replace(s)
	data, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(s, "="))
	if err != nil {
		return nil, errBase64
	}
	return data, nil
}
