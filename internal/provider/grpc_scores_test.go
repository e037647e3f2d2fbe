package provider

import (
	"bytes"
	"maps"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ocr-proxy/ocr-proxy/internal/grpcwire"
	"github.com/ocr-proxy/ocr-proxy/internal/jsonstream"
)

// What proto3 leaves out, and what a value of 32 bits says, is told of messages as people wrote it.
func TestEntitiesInMessages(t *testing.T) {
	t.Parallel()
	sure := func(entity []byte, confidence float32) []byte { return grpcwire.AppendFloat(entity, 5, confidence) }
	read := func(entities ...any) map[string]Field {
		var document []any
		for _, entity := range entities {
			document = append(document, 7, entity)
		}
		p := documentai()
		found := map[string]Field{}
		documents, paths := p.Documents.Reader(map[string]bool{"total": true, "vendor": true, "line/amount": true}, func(_ string, fields map[string]Field) {
			maps.Copy(found, fields)
		})
		require.NoError(t, p.GRPC.Answer("process").Each(bytes.NewReader(pb(1, pb(document...))), paths, 100, func(path string, v jsonstream.Value) {
			documents.Take(path, v)
		}))
		return found
	}
	require.Equal(t, map[string]Field{
		"total":  {Present: true, Scored: true, Least: 0.95},
		"vendor": {Present: true, Scored: true, Least: 0},
	}, read(sure(pb(2, "Total", 3, "950"), 0.95), pb(2, "vendor", 3, "A")), "0.95 is not a little less, and what has no score has one of 0 beside another")
	require.Equal(t, map[string]Field{"vendor": {Present: true}}, read(pb(2, "vendor", 3, "A")), "alone it has none")
	require.Equal(t, map[string]Field{"total": {Present: true}}, read(pb(2, "total", 9, pb(1, "950"))), "a normalized value is a value")
	require.Equal(t, map[string]Field{"total": {}}, read(pb(2, "total", 9, pb(1, ""))))
	require.Equal(t, map[string]Field{"line/amount": {Present: true, Scored: true, Least: 0.25}},
		read(pb(2, "line", 10, sure(pb(2, "line/amount", 3, "1"), 0.5), 10, sure(pb(2, "line/amount", 3, "2"), 0.25))), "the least of all lines")
}
