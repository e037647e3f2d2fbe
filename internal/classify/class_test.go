package classify

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The table that everything else follows from, written out once more.
func TestClasses(t *testing.T) {
	t.Parallel()
	rows := []struct {
		class   Class
		name    string
		retry   bool
		health  string
		failure string
	}{
		{Unknown, "unknown", false, "neutral", "fatal"},
		{Success, "success", false, "success", "success"},
		{Throttle, "throttle", true, "neutral", "transient"},
		{Transient, "transient", true, "failure", "transient"},
		{Permanent, "permanent", false, "success", "fatal"},
		{Auth, "auth", false, "neutral", "fatal"},
		{Quota, "quota", false, "neutral", "fatal"},
		{Soft, "soft", false, "success", "soft"},
	}
	var listed []Class
	for _, r := range rows {
		listed = append(listed, r.class)
		require.Equal(t, r.name, r.class.String())
		require.Equal(t, r.retry, r.class.Retryable(), r.name)
		require.Equal(t, r.health, r.class.Health().String(), r.name)
		require.Equal(t, r.failure, r.class.Failure(), r.name)
		parsed, err := Parse(r.name)
		require.NoError(t, err)
		require.Equal(t, r.class, parsed)
	}
	require.Equal(t, listed, Classes(), "a class is missing here or in the list")
	require.Zero(t, Unknown, "what nobody decided on must fail closed")
}

func TestClassesOutsideTheListFailClosed(t *testing.T) {
	t.Parallel()
	for c := len(Classes()); c < 256; c++ {
		require.Equal(t, "unknown", Class(c).String(), "a class without a place in Classes")
		require.False(t, Class(c).Retryable())
	}
	_, err := Parse("Success")
	require.ErrorContains(t, err, `"Success"`)
	require.Equal(t, "neutral", Health(9).String())
}

func TestStatuses(t *testing.T) {
	t.Parallel()
	want := map[Class][]int{
		Throttle:  {429, 509, 529},
		Transient: {408, 421, 425, 500, 502, 503, 504, 520, 521, 522, 523, 524, 530},
		Auth:      {401, 403, 407},
		Quota:     {402},
		Permanent: {
			400, 404, 405, 406, 409, 410, 411, 412, 413, 414, 415, 416, 417, 422, 423, 424, 426, 428, 431, 451, 501, 505, 525, 526,
		},
	}
	named := map[int]Class{}
	for class, statuses := range want {
		for _, status := range statuses {
			named[status] = class
		}
	}
	for status := range 1000 {
		expected := named[status] // Unknown where no list has it
		if status >= 200 && status < 400 {
			expected = Success
		}
		v := Decide(Attempt{Status: status, Sent: true}, Fault{}, nil, nil)
		require.Equal(t, expected, v.Class, status)
		require.NotEmpty(t, v.Reason)
		require.Empty(t, v.Code)
	}
}
