package dlq

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const someID = "0192d3c0-7a1b-7c3d-8e4f-5a6b7c8d9e0f"

func TestEnvelopeHasEveryFieldInOrder(t *testing.T) {
	e := &Envelope{Schema: Schema, ID: someID, Job: &Job{Start: &Request{}}, Attempts: []Attempt{{}}, Replays: []Replay{{}}, Resolution: &Resolution{}}
	data, err := e.encode()
	require.NoError(t, err)

	request := "method path query headers credentials token content_type body_bytes body_sha256"
	for part, want := range map[string]string{
		"": "schema id outcome document_id idempotency_key request_fingerprint tenant provider kind operation failure_class error_class error_code error_message " +
			"http_status diagnostic stack_trace attempts retry_count class_changed ambiguous raw_payload_ref request job first_attempt_at failed_at retry_not_before " +
			"occurrences replays resolution trace_id",
		"attempts":   "n started_at duration_ms http_status error_class error_code waited_ms wait_source upstream_request_id",
		"request":    request,
		"job":        "id start",
		"replays":    "at outcome error_class http_status",
		"resolution": "by at note label",
	} {
		raw := json.RawMessage(data)
		if part != "" {
			var all map[string]json.RawMessage
			require.NoError(t, json.Unmarshal(data, &all))
			raw = all[part]
		}
		require.Equal(t, strings.Fields(want), keys(t, raw), "fields of %q", part)
	}
}

// keys gives the names of an object, or of the first object in a list, in order.
func keys(t *testing.T, raw json.RawMessage) (names []string) {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(strings.Trim(strings.TrimSpace(string(raw)), "[]")))
	_, err := dec.Token()
	require.NoError(t, err)
	for dec.More() {
		name, err := dec.Token()
		require.NoError(t, err)
		names = append(names, name.(string)) //nolint:forcetypeassert // Names of fields are strings.
		var skipped json.RawMessage
		require.NoError(t, dec.Decode(&skipped))
	}
	return names
}

func TestEncodeNormalizes(t *testing.T) {
	zone := time.FixedZone("east", 3600)
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, zone)
	e := &Envelope{
		FailedAt: at, FirstAttemptAt: at, RetryNotBefore: &at,
		Attempts: []Attempt{{StartedAt: at, DurationMS: 1.23456, WaitedMS: math.Inf(1)}, {DurationMS: math.NaN(), WaitedMS: -1}},
	}
	data, err := e.encode()
	require.NoError(t, err)
	text := string(data)
	require.NotContains(t, text, "+01:00")
	for _, want := range []string{
		`"failed_at":"2026-01-02T02:04:05Z"`, `"retry_not_before":"2026-01-02T02:04:05Z"`, `"duration_ms":1.235`, `"waited_ms":0`, `"replays":[]`,
		`"headers":{}`, `"credentials":[]`, `"http_status":null`, `"job":null`, `"resolution":null`, `"occurrences":1`,
	} {
		require.Contains(t, text, want)
	}
}

func TestDecodeRefuses(t *testing.T) {
	good := `"schema":"` + Schema + `","id":"` + someID + `","outcome":"review","provider":"acct"`
	for name, c := range map[string]struct{ text, want string }{
		"nothing":           {"", "JSON"},
		"null":              {"null", "null"},
		"list":              {"[]", "array"},
		"half":              {"{" + good, "JSON"},
		"two":               {"{" + good + "}{}", "after top-level value"},
		"no schema":         {`{"id":"` + someID + `","outcome":"review","provider":"a"}`, "schema"},
		"other schema":      {strings.Replace("{"+good+"}", "/v1", "/v2", 1), "schema"},
		"no id":             {`{"schema":"` + Schema + `","outcome":"review","provider":"a"}`, "id"},
		"path for an id":    {strings.Replace("{"+good+"}", someID, "../../etc/passwd", 1), "id"},
		"upper-case id":     {strings.Replace("{"+good+"}", someID, strings.ToUpper(someID), 1), "id"},
		"id as urn":         {strings.Replace("{"+good+"}", someID, "urn:uuid:"+someID, 1), "id"},
		"no outcome":        {strings.Replace("{"+good+"}", "review", "", 1), "outcome"},
		"no provider":       {strings.Replace("{"+good+"}", "acct", "", 1), "provider"},
		"status is a word":  {"{" + good + `,"http_status":"500"}`, "http_status"},
		"time is no time":   {"{" + good + `,"failed_at":"yesterday"}`, "yesterday"},
		"attempts a number": {"{" + good + `,"attempts":3}`, "attempts"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Decode([]byte(c.text))
			require.ErrorIs(t, err, ErrUnreadable)
			require.ErrorContains(t, err, c.want)
		})
	}
	e, err := Decode([]byte("{" + good + `,"field_of_tomorrow":{"a":1}}`))
	require.NoError(t, err)
	require.NotNil(t, e.Attempts)
	require.NotNil(t, e.Request.Headers)
}

func TestPayloadSumTakesNothingElse(t *testing.T) {
	sum := hexSum("x")
	got, ok := payloadSum(payloadRef(sum))
	require.True(t, ok)
	require.Equal(t, sum, got)
	for _, ref := range []string{"", "payloads/../../etc/passwd", "/etc/passwd", "payloads/zz/" + sum, "payloads/00/" + sum, payloadRef(sum) + "/..", "x/" + payloadRef(sum), payloadRef(sum) + "\n", strings.ToUpper(payloadRef(sum))} {
		_, ok := payloadSum(ref)
		require.False(t, ok, "%q", ref)
	}
}

func FuzzDecode(f *testing.F) {
	e := letter("seed")
	e.Schema, e.ID = Schema, someID
	seed, err := e.encode()
	require.NoError(f, err)
	f.Add(seed)
	f.Add([]byte(`{"schema":"` + Schema + `","id":"` + someID + `","outcome":"a","provider":"b","request":{"headers":{"A":null}},"job":{"start":{}},"replays":null}`))
	f.Add([]byte("null"))
	f.Add(seed[:len(seed)/2])
	f.Fuzz(func(t *testing.T, data []byte) {
		e, err := Decode(data)
		if err != nil {
			require.ErrorIs(t, err, ErrUnreadable)
			return
		}
		require.True(t, validID(e.ID))
		once, err := e.encode()
		require.NoError(t, err)
		again, err := Decode(once)
		require.NoError(t, err)
		require.Equal(t, e, again)
	})
}
