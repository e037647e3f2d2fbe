package fingerprint

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ocr-proxy/ocr-proxy/internal/grpcwire"
)

func places() Places { return Places{Inline: [][]int{{5, 1}}, Refs: [][]int{{8, 1}}, Maps: []int{10}} }

func messageKeys(t *testing.T, body []byte, coding string) Keys {
	t.Helper()
	keys, err := Message(Request{
		Kind: "k", Operation: "o", Method: "POST", Path: "/s/m", ContentType: "application/grpc", ProcessingVersion: "v1",
		Body: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil },
	}, coding, places())
	require.NoError(t, err)
	return keys
}

func hexSum(text string) string {
	s := sha256.Sum256([]byte(text))
	return hex.EncodeToString(s[:])
}

func entryOf(key, value string) []byte {
	return grpcwire.AppendBytes(grpcwire.AppendBytes(nil, 1, []byte(key)), 2, []byte(value))
}

func field(number int, data []byte) []byte { return grpcwire.AppendBytes(nil, number, data) }

func join(parts ...[]byte) []byte { return grpcwire.Frame(bytes.Join(parts, nil)) }

func TestMessageNamesItsDocument(t *testing.T) {
	t.Parallel()
	doc := field(5, append(field(1, []byte("document")), field(2, []byte("application/pdf"))...))
	require.Equal(t, hexSum("documentv1"), messageKeys(t, join(field(1, []byte("name")), doc), "").Idempotency)
	require.Equal(t, hexSum("documentdocumentv1"), messageKeys(t, join(doc, doc), "").Idempotency)
	require.Equal(t, hexSum("gs://b/ov1"), messageKeys(t, join(field(8, field(1, []byte("gs://b/o")))), "").Idempotency)
	require.Equal(t, hexSum("https://h/ov1"), messageKeys(t, join(field(8, field(1, []byte("https://h/o?sig=x")))), "").Idempotency)
	bare := join(field(1, []byte("name")))
	require.Equal(t, hexSum(string(bare)+"v1"), messageKeys(t, bare, "").Idempotency, "without a document the body is one")
	require.Equal(t, hexSum("garbagev1"), messageKeys(t, []byte("garbage"), "").Idempotency)
	torn := grpcwire.Frame(append(doc, "\x0a\xff"...))
	require.Equal(t, hexSum(string(torn)+"v1"), messageKeys(t, torn, "").Idempotency)
}

func TestMessageSaysThatItOnlyPointsToItsDocument(t *testing.T) {
	t.Parallel()
	ref, doc := field(8, field(1, []byte("gs://b/o"))), field(5, field(1, []byte("document")))
	require.True(t, messageKeys(t, join(ref), "").Pointed)
	require.True(t, messageKeys(t, join(doc, ref), "").Pointed)
	require.False(t, messageKeys(t, join(doc), "").Pointed)
	require.False(t, messageKeys(t, join(field(1, []byte("name"))), "").Pointed)
	require.False(t, messageKeys(t, grpcwire.Frame(append(ref, "\x0a\xff"...)), "").Pointed, "no message")
}

func TestEqualMessagesHaveEqualFingerprints(t *testing.T) {
	t.Parallel()
	name, doc := field(1, []byte("name")), field(5, field(1, []byte("d")))
	a, b := field(10, entryOf("a", "1")), field(10, entryOf("b", "2"))
	number := grpcwire.AppendVarint(nil, 3, 1)
	base := messageKeys(t, join(name, doc, number, a, b), "")
	require.Equal(t, base, messageKeys(t, join(name, doc, number, b, a), ""), "a map has no order")
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write(bytes.Join([][]byte{name, doc, number, a, b}, nil))
	require.NoError(t, z.Close())
	squeezed := grpcwire.Frame(packed.Bytes())
	squeezed[0] = 1
	require.Equal(t, base, messageKeys(t, squeezed, "gzip"))
	require.NotEqual(t, base, messageKeys(t, squeezed, "zstd"), "plain bytes")
	for what, other := range map[string][]byte{
		"another document":      join(name, field(5, field(1, []byte("e"))), number, a, b),
		"another option":        join(name, doc, grpcwire.AppendVarint(nil, 3, 2), a, b),
		"another label":         join(name, doc, number, a, field(10, entryOf("b", "3"))),
		"a label less":          join(name, doc, number, a),
		"text in another field": join(field(2, []byte("name")), doc, number, a, b),
		"another order":         join(name, doc, number, a, b, field(11, []byte("y")), field(11, []byte("x"))),
	} {
		require.NotEqual(t, base.Fingerprint, messageKeys(t, other, "").Fingerprint, what)
	}
	x, y := field(11, []byte("x")), field(11, []byte("y"))
	require.NotEqual(t, messageKeys(t, join(x, y), "").Fingerprint, messageKeys(t, join(y, x), "").Fingerprint, "a list has an order")
}

func TestMessageTellsWhyItCannotBeRead(t *testing.T) {
	t.Parallel()
	broken := errors.New("disk")
	_, err := Message(Request{Body: func() (io.ReadCloser, error) { return nil, broken }}, "", places())
	require.ErrorIs(t, err, broken)
}

func FuzzMessage(f *testing.F) {
	f.Add(join(field(5, field(1, []byte("d"))), field(8, field(1, []byte("gs://x")))), "")
	f.Fuzz(func(t *testing.T, body []byte, coding string) {
		if coding == "gzip" {
			return // a small one can unpack to very much
		}
		first := messageKeys(t, body, coding)
		require.Len(t, first.Idempotency, 64)
		require.Len(t, first.Fingerprint, 64)
		require.Equal(t, first, messageKeys(t, body, coding))
	})
}
