package grpcwire

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestCheckWantsExactlyOneMessage(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		body string
		want error
	}{
		"empty":           {"", ErrFrame},
		"half a header":   {"\x00\x00\x00", ErrFrame},
		"no message":      {"\x00\x00\x00\x00\x00", nil},
		"one":             {"\x00\x00\x00\x00\x02ab", nil},
		"compressed":      {"\x01\x00\x00\x00\x02ab", nil},
		"cut off":         {"\x00\x00\x00\x00\x03ab", ErrFrame},
		"two":             {"\x00\x00\x00\x00\x01a\x00\x00\x00\x00\x00", ErrSeveral},
		"a reserved flag": {"\x02\x00\x00\x00\x01a", ErrFrame},
		"4 GiB":           {"\x00\xff\xff\xff\xffa", ErrFrame},
	} {
		require.ErrorIs(t, Check(strings.NewReader(tt.body), int64(len(tt.body))), tt.want, name)
	}
	broken := errors.New("disk")
	require.ErrorIs(t, Check(iotest.ErrReader(broken), 9), broken)
}

func TestMessageUndoesItsCompression(t *testing.T) {
	t.Parallel()
	read := func(body []byte, coding string) (string, error) {
		r, err := Message(bytes.NewReader(body), coding)
		if err != nil {
			return "", err
		}
		text, err := io.ReadAll(r)
		return string(text), err
	}
	got, err := read(Frame([]byte("abc")), "gzip")
	require.NoError(t, err)
	require.Equal(t, "abc", got, "a message that is not compressed although its call could be")
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write([]byte("abc"))
	require.NoError(t, z.Close())
	body := Frame(packed.Bytes())
	body[0] = 1
	got, err = read(body, "gzip")
	require.NoError(t, err)
	require.Equal(t, "abc", got)
	_, err = read(body, "zstd")
	require.ErrorIs(t, err, ErrCoding)
	_, err = read([]byte("\x00"), "")
	require.ErrorIs(t, err, ErrFrame)
}

func TestReaderGoesThroughAMessage(t *testing.T) {
	t.Parallel()
	inner := AppendBytes(AppendVarint(nil, 1, 300), 2, []byte("in"))
	message := AppendVarint(nil, 1, math.MaxUint64)
	message = AppendBytes(message, 2, inner)
	message = AppendFloat(message, 3, 0.5)
	message = append(message, 4<<3|1, 1, 0, 0, 0, 0, 0, 0, 0x80)
	message = AppendBytes(message, 536870911, bytes.Repeat([]byte("x"), 10_000))
	message = AppendBytes(message, 6, []byte("\xffend"))
	r := NewReader(iotest.OneByteReader(bytes.NewReader(message)))
	next := func() Field {
		f, err := r.Next()
		require.NoError(t, err)
		return f
	}
	require.Equal(t, Field{1, Varint, math.MaxUint64}, next())
	require.Equal(t, Field{2, Bytes, uint64(len(inner))}, next())
	in := r.Message()
	f, err := in.Next()
	require.NoError(t, err)
	require.Equal(t, Field{1, Varint, 300}, f)
	_, err = in.Next()
	require.NoError(t, err)
	text, err := in.Text(1)
	require.NoError(t, err)
	require.Equal(t, "i", text)
	_, err = in.Next()
	require.ErrorIs(t, err, io.EOF)
	require.Equal(t, Field{3, Fixed32, uint64(math.Float32bits(0.5))}, next())
	require.Equal(t, Field{4, Fixed64, 1<<63 | 1}, next())
	require.Equal(t, Field{536870911, Bytes, 10_000}, next(), "skipped unread")
	require.Equal(t, 6, next().Number)
	text, err = r.Text(100)
	require.NoError(t, err)
	require.Equal(t, "\uFFFDend", text)
	_, err = r.Next()
	require.ErrorIs(t, err, io.EOF)
}

func TestReaderRefusesWhatIsNoMessage(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		message string
		want    error
	}{
		"a tag alone":             {"\x08", io.ErrUnexpectedEOF},
		"half a tag":              {"\x88", io.ErrUnexpectedEOF},
		"half a fixed":            {"\x0d\x01\x02", io.ErrUnexpectedEOF},
		"bytes that are not here": {"\x0a\x05abc", io.ErrUnexpectedEOF},
		"field zero":              {"\x00\x01", ErrMalformed},
		"a group":                 {"\x0b\x0c", ErrMalformed},
		"wire type 7":             {"\x0f", ErrMalformed},
		"a length beyond any":     {"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", ErrMalformed},
		"a number of 11 bytes":    {"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", ErrMalformed},
		"inner beyond outer":      {"\x0a\x02\x0a\x05abcde", ErrMalformed},
		"inner number cut":        {"\x0a\x02\x08\xff\x01", ErrMalformed},
	} {
		r := NewReader(strings.NewReader(tt.message))
		var err error
		for err == nil {
			var f Field
			if f, err = r.Next(); err == nil && f.Type == Bytes && strings.HasPrefix(name, "inner") {
				in := r.Message()
				for err == nil {
					_, err = in.Next()
				}
			}
		}
		require.ErrorIs(t, err, tt.want, name)
	}
}

func TestStatusComesBackAsItWasWritten(t *testing.T) {
	t.Parallel()
	for _, s := range []Status{
		{Code: OK},
		{Code: Unavailable, Message: "100% down, «äh»\n"},
		{Code: ResourceExhausted, Message: "m", Details: []Detail{{"type.googleapis.com/google.rpc.RetryInfo", []byte{1, 2}}, {"x", []byte{}}}},
	} {
		h := http.Header{}
		s.Write(h)
		got, ok := ReadStatus(h)
		require.True(t, ok)
		require.Equal(t, s, got)
		for _, c := range []byte(h.Get("Grpc-Message")) {
			require.True(t, c >= ' ' && c <= '~')
		}
	}
}

func TestReadStatusIsLenient(t *testing.T) {
	t.Parallel()
	details := AppendBytes(AppendBytes(nil, 2, []byte("from the details")), 3, AppendBytes(nil, 1, []byte("t")))
	for name, tt := range map[string]struct {
		header http.Header
		want   Status
	}{
		"no number":       {http.Header{"Grpc-Status": {"x"}}, Status{Code: Unknown}},
		"negative":        {http.Header{"Grpc-Status": {"-1"}}, Status{Code: Unknown}},
		"beyond":          {http.Header{"Grpc-Status": {"17"}}, Status{Code: Unknown}},
		"bad escapes":     {http.Header{"Grpc-Status": {"3"}, "Grpc-Message": {"%zz 5% %e4%"}}, Status{Code: 3, Message: "%zz 5% \uFFFD%"}},
		"padded":          {http.Header{"Grpc-Status": {"3"}, "Grpc-Status-Details-Bin": {base64.StdEncoding.EncodeToString(details)}}, Status{3, "from the details", []Detail{{Type: "t"}}}},
		"no base64":       {http.Header{"Grpc-Status": {"3"}, "Grpc-Status-Details-Bin": {"!"}}, Status{Code: 3}},
		"malformed":       {http.Header{"Grpc-Status": {"3"}, "Grpc-Status-Details-Bin": {"AA"}}, Status{Code: 3}},
		"OK with details": {http.Header{"Grpc-Status": {"0"}, "Grpc-Status-Details-Bin": {"AA"}}, Status{}},
	} {
		got, ok := ReadStatus(tt.header)
		require.True(t, ok, name)
		require.Equal(t, tt.want, got, name)
	}
	_, ok := ReadStatus(http.Header{"Grpc-Message": {"x"}})
	require.False(t, ok)
}

func TestHTTPStatusOfEveryCode(t *testing.T) {
	t.Parallel()
	want := []int{200, 499, 500, 400, 504, 404, 409, 403, 429, 400, 409, 400, 501, 500, 503, 500, 401}
	for code, status := range want {
		require.Equal(t, status, HTTPStatus(code), code)
	}
	require.Equal(t, 500, HTTPStatus(17))
	require.Equal(t, 500, HTTPStatus(-1))
}

func TestTimeout(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]time.Duration{
		"1H": time.Hour, "2M": 2 * time.Minute, "300S": 300 * time.Second, "99999999m": 99999999 * time.Millisecond,
		"7u": 7 * time.Microsecond, "8n": 8, "99999999H": math.MaxInt64,
		"": 0, "S": 0, "1": 0, "1s": 0, "0S": 0, "-1S": 0, "+1S": 0, "1.5S": 0, "123456789S": 0, "1 S": 0,
	} {
		got, ok := Timeout(value)
		require.Equal(t, want > 0, ok, value)
		if ok {
			require.Equal(t, want, got, value)
		}
	}
}

func TestPlainIsTheMessageWithoutItsCompression(t *testing.T) {
	t.Parallel()
	plain := Frame([]byte("message"))
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write([]byte("message"))
	require.NoError(t, z.Close())
	squeezed := Frame(packed.Bytes())
	squeezed[0] = 1
	torn := Frame(packed.Bytes()[:packed.Len()-9])
	torn[0] = 1
	for name, tt := range map[string]struct {
		body   []byte
		coding string
		limit  int64
		err    error
	}{
		"plain":            {plain, "", 7, nil},
		"labelled only":    {plain, "gzip", 7, nil},
		"compressed":       {squeezed, "gzip", 7, nil},
		"unknown coding":   {squeezed, "zstd", 7, ErrCoding},
		"too large":        {plain, "", 6, ErrTooLarge},
		"too large inside": {squeezed, "gzip", 6, ErrTooLarge},
		"cut off":          {plain[:9], "", 7, ErrFrame},
		"several":          {append(Frame([]byte("message")), plain...), "", 7, ErrSeveral},
		"empty":            {nil, "", 7, ErrFrame},
		"torn inside":      {torn, "gzip", 7, io.ErrUnexpectedEOF},
	} {
		got, err := Plain(bytes.NewReader(tt.body), int64(len(tt.body)), tt.coding, tt.limit)
		require.ErrorIs(t, err, tt.err, name)
		if tt.err == nil {
			require.Equal(t, plain, got, name)
		}
	}
}

func FuzzMessage(f *testing.F) {
	f.Add(Frame(AppendBytes(AppendVarint(nil, 1, 7), 2, AppendBytes(nil, 1, []byte("x")))), "")
	f.Add([]byte("\x01\x00\x00\x00\x02\x1f\x8b"), "gzip")
	f.Fuzz(func(t *testing.T, body []byte, coding string) {
		if out, err := Plain(bytes.NewReader(body), int64(len(body)), coding, 1<<20); err == nil {
			require.NoError(t, Check(bytes.NewReader(out), int64(len(out))))
			if body[0] == 0 {
				require.Equal(t, body, out)
			}
		}
		whole := Check(bytes.NewReader(body), int64(len(body)))
		message, err := Message(bytes.NewReader(body), coding)
		if err != nil {
			return
		}
		plain, err := io.ReadAll(io.LimitReader(message, 1<<20))
		if err != nil {
			return
		}
		if whole == nil && body[0] == 0 {
			require.Equal(t, body, Frame(plain))
		}
		visit(t, NewReader(bytes.NewReader(plain)), int64(len(plain)), 0)
	})
}

// visit reads everything as if every field were a message, and checks that nothing is read beyond what there is.
func visit(t *testing.T, r *Reader, size int64, depth int) {
	for fields := int64(0); ; fields++ {
		f, err := r.Next()
		if err != nil {
			return
		}
		require.LessOrEqual(t, fields, size, "each field takes a byte at least")
		require.Positive(t, f.Number)
		if f.Type == Bytes && depth < 50 {
			visit(t, r.Message(), size, depth+1)
		}
		require.LessOrEqual(t, r.source.at, size)
	}
}

func FuzzReadStatus(f *testing.F) {
	f.Add("8", "a%20b", "CAgSAW0")
	f.Fuzz(func(t *testing.T, status, message, details string) {
		s, ok := ReadStatus(http.Header{"Grpc-Status": {status}, "Grpc-Message": {message}, "Grpc-Status-Details-Bin": {details}})
		require.True(t, ok)
		require.True(t, s.Code >= 0 && s.Code <= 16)
		require.LessOrEqual(t, len(s.Details), maxDetails)
		if s.Code == OK {
			return
		}
		h := http.Header{}
		s.Write(h)
		again, ok := ReadStatus(h)
		require.True(t, ok)
		require.Equal(t, s.Code, again.Code)
		require.Len(t, again.Details, len(s.Details))
	})
}
