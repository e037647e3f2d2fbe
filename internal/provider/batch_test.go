package provider

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ocr-proxy/ocr-proxy/internal/classify"
)

func TestVisionBatch(t *testing.T) {
	t.Parallel()
	b := visionBatch()
	request := []byte(` {"parent":"p", "requests" : [ {"image":{"content":"A"}} , {"image":{"content":"B"}},{"image":{"content":"C"}}], "labels":{"requests":[1]} }`)
	answer := []byte(`{"responses":[{"text":"<a>"}, {"error":{"code":14,"message":"later"}},{"error":{"code":3}}]}`)

	failed, items, err := b.Failed(answer)
	require.NoError(t, err)
	require.Equal(t, 3, items)
	require.Equal(t, []ItemFault{{Place: 1, Class: classify.Transient, Code: "UNAVAILABLE"}, {Place: 2, Class: classify.Permanent, Code: "INVALID_ARGUMENT"}}, failed)

	again, err := b.Select(request, []int{1})
	require.NoError(t, err)
	require.Equal(t, ` {"parent":"p", "requests" : [ {"image":{"content":"B"}}], "labels":{"requests":[1]} }`, string(again), "all else stays byte for byte")
	again, err = b.Select(request, []int{0, 2})
	require.NoError(t, err)
	require.JSONEq(t, `{"parent":"p","requests":[{"image":{"content":"A"}},{"image":{"content":"C"}}],"labels":{"requests":[1]}}`, string(again))

	merged, err := b.Merge(answer, []byte(`{"responses":[{"text":"b"}]}`), []int{1})
	require.NoError(t, err)
	require.Equal(t, `{"responses":[{"text":"<a>"}, {"text":"b"},{"error":{"code":3}}]}`, string(merged))

	for name, text := range map[string]string{"no object": `[]`, "no list": `{"responses":{}}`, "nothing": `{}`, "cut off": `{"responses":[{"te`, "empty": ``} {
		_, _, err = b.Failed([]byte(text))
		require.Error(t, err, name)
	}
	_, err = b.Select(request, []int{3})
	require.ErrorIs(t, err, errItems)
	_, err = b.Merge(answer, []byte(`{"responses":[{},{}]}`), []int{1})
	require.ErrorIs(t, err, errItems, "another number of items than was asked for")
}

// Annotations beside an error are good: a later error must not take their place, a later good answer must.
func TestVisionBatchKeepsAnnotationsBesideAnError(t *testing.T) {
	t.Parallel()
	b := visionBatch()
	answer := []byte(`{"responses":[{"text":"half","error":{"code":14}},{"error":{"code":14}}]}`)
	merged, err := b.Merge(answer, []byte(`{"responses":[{"error":{"code":3}},{"error":{"code":3}}]}`), []int{0, 1})
	require.NoError(t, err)
	require.JSONEq(t, `{"responses":[{"text":"half","error":{"code":14}},{"error":{"code":3}}]}`, string(merged))
	merged, err = b.Merge(answer, []byte(`{"responses":[{"text":"whole"},{"text":"two"}]}`), []int{0, 1})
	require.NoError(t, err)
	require.JSONEq(t, `{"responses":[{"text":"whole"},{"text":"two"}]}`, string(merged))
}

func FuzzVisionBatch(f *testing.F) {
	f.Add(`{"responses":[{"text":"a"},{"error":{"code":14}}]}`, `{"responses":[{"text":"b"}]}`)
	f.Add(`{"x":1,"responses":[]}`, `{}`)
	f.Fuzz(func(t *testing.T, answer, later string) {
		b := visionBatch()
		failed, items, err := b.Failed([]byte(answer))
		if err != nil {
			return
		}
		var places []int
		for _, fault := range failed {
			require.Less(t, fault.Place, items)
			places = append(places, fault.Place)
		}
		merged, err := b.Merge([]byte(answer), []byte(later), places)
		if err != nil || !json.Valid([]byte(answer)) || !json.Valid([]byte(later)) {
			return
		}
		require.True(t, json.Valid(merged), "%s", merged)
	})
}
