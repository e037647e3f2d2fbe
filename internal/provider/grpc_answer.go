package provider

import (
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/ocr-proxy/ocr-proxy/internal/grpcwire"
	"github.com/ocr-proxy/ocr-proxy/internal/jsonstream"
)

// Pick finds in a message the values that Watch would find in the same answer as JSON, under the same paths. Texts are cut to limit
// bytes, and of all values at most so many are kept.
// The error is grpcwire.ErrMalformed where the message is none, or what kept it from being read; what was found before it comes with it.
func (f Fields) Pick(r io.Reader, limit, most int) (jsonstream.Found, error) {
	p := picking{found: jsonstream.Found{}, limit: limit, left: most}
	err := p.message(grpcwire.NewReader(r), f, "", nil)
	return p.found, err
}

type picking struct {
	found jsonstream.Found
	limit int
	left  int
}

// message reads one message whose path and whose places in the lists on the way to it are given.
func (p *picking) message(r *grpcwire.Reader, fields Fields, path string, index []int) error {
	seen := map[int]int{} // how many of each repeated field there were
	for {
		f, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		known, ok := fields[f.Number]
		if !ok || p.left <= 0 {
			continue
		}
		at, where := path, index
		if known.Name != "" {
			at = strings.TrimPrefix(path+"."+known.Name, ".")
		}
		if strings.HasSuffix(known.Name, "[]") {
			where = append(slices.Clip(index), seen[f.Number])
			seen[f.Number]++
		}
		switch {
		case known.If != "" && !strings.HasSuffix(p.found.String(at+".@type"), known.If):
		case known.In != nil && f.Type == grpcwire.Bytes:
			err = p.message(r.Message(), known.In, at, where)
		case known.In == nil:
			err = p.value(r, f, known, at, where)
		}
		if err != nil {
			return err
		}
	}
}

func (p *picking) value(r *grpcwire.Reader, f grpcwire.Field, known AnswerField, path string, index []int) error {
	v := jsonstream.Value{Index: index}
	switch {
	case f.Type == grpcwire.Bytes:
		text, err := r.Text(p.limit)
		if err != nil {
			return err
		}
		v.Type, v.Text, v.Cut = jsonstream.String, text, f.Value > uint64(p.limit) //nolint:gosec // a limit is positive
	case known.Bool:
		v.Type, v.Text = jsonstream.Bool, strconv.FormatBool(f.Value != 0)
	default:
		v.Type, v.Text = jsonstream.Number, strconv.FormatInt(int64(f.Value), 10) //nolint:gosec // as protobuf writes negative numbers
	}
	p.left--
	p.found[path] = append(p.found[path], v)
	return nil
}
