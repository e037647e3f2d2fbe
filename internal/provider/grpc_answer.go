package provider

import (
	"errors"
	"io"
	"math"
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
	found := jsonstream.Found{}
	w := walking{limit: limit, do: func(path string, v jsonstream.Value) {
		if most > 0 && v.Type != jsonstream.Ended {
			most--
			v.Index = slices.Clone(v.Index)
			found[path] = append(found[path], v)
		}
	}}
	err := w.message(grpcwire.NewReader(r), f.compile("", nil), make([]int, 0, mostLists))
	return found, err
}

// Each tells of the values at paths as jsonstream.Each does of the same answer in JSON, and of messages that end at paths with "{}". Other fields are
// passed over. Index is valid until do returns. The error is that of Pick.
func (f Fields) Each(r io.Reader, paths []string, limit int, do func(path string, v jsonstream.Value)) error {
	wanted := make(map[string]bool, len(paths))
	for _, path := range paths {
		wanted[path] = true
	}
	w := walking{limit: limit, do: do}
	return w.message(grpcwire.NewReader(r), f.compile("", wanted), make([]int, 0, mostLists))
}

// place is one field of a message with its whole path.
type place struct {
	AnswerField
	path string
	list bool
	ends string   // the path under which it is told when a message here ends; "": nobody wants to know
	in   []*place // by their numbers
}

// compile gives the fields their paths, and leaves out those that nobody wants; nil: all are wanted but the ends of messages.
func (f Fields) compile(prefix string, wanted map[string]bool) (all []*place) {
	for number, field := range f {
		p := &place{AnswerField: field, path: prefix, list: strings.HasSuffix(field.Name, "[]")}
		if field.Name != "" {
			p.path = strings.TrimPrefix(prefix+"."+field.Name, ".")
		}
		keep := wanted == nil || wanted[p.path] || field.Name == anyType
		if field.In != nil {
			p.in = field.In.compile(p.path, wanted)
			if ends := p.path + "{}"; wanted[ends] {
				p.ends = ends
			}
			keep = keep || p.ends != "" || len(p.in) > 0
		}
		if keep {
			if number >= len(all) {
				all = append(all, make([]*place, number+1-len(all))...)
			}
			all[number] = p
		}
	}
	return all
}

// anyType is the member that names the type of an Any, beside the message itself.
const anyType = "@type"

// mostLists is how many lists lie within each other, usually.
const mostLists = 8

type walking struct {
	limit int
	do    func(path string, v jsonstream.Value)
	digit []byte
}

// message reads one message whose places in the lists on the way to it are given.
func (w *walking) message(r *grpcwire.Reader, fields []*place, index []int) error {
	var (
		seen map[int]int // how many of each repeated field there were
		kind string      // that an Any names
	)
	for {
		f, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if f.Number >= len(fields) || fields[f.Number] == nil {
			continue
		}
		known := fields[f.Number]
		where := index
		if known.list {
			if seen == nil {
				seen = map[int]int{}
			}
			where = append(index, seen[f.Number]) //nolint:gocritic // the next item of the list takes its place
			seen[f.Number]++
		}
		switch {
		case known.If != "" && !strings.HasSuffix(kind, known.If):
		case known.In != nil && f.Type == grpcwire.Bytes:
			if err = w.message(r.Message(), known.in, where); err == nil && known.ends != "" {
				w.do(known.ends, jsonstream.Value{Type: jsonstream.Ended, Index: where})
			}
		case known.In == nil:
			var v jsonstream.Value
			if v, err = w.value(r, f, known); err == nil {
				if known.Name == anyType {
					kind = v.Text
				}
				v.Index = where
				w.do(known.path, v)
			}
		}
		if err != nil {
			return err
		}
	}
}

func (w *walking) value(r *grpcwire.Reader, f grpcwire.Field, known *place) (v jsonstream.Value, err error) {
	switch {
	case f.Type == grpcwire.Bytes:
		v.Type, v.Cut = jsonstream.String, f.Value > uint64(w.limit) //nolint:gosec // a limit is positive
		v.Text, err = r.Text(w.limit)
	case known.Bool:
		v.Type, v.Text = jsonstream.Bool, strconv.FormatBool(f.Value != 0)
	case f.Type == grpcwire.Fixed32:
		w.digit = strconv.AppendFloat(w.digit[:0], float64(math.Float32frombits(uint32(f.Value))), 'g', -1, 32) //nolint:gosec // so many bits it has
		v.Type, v.Text = jsonstream.Number, string(w.digit)
	default:
		v.Type, v.Text = jsonstream.Number, strconv.FormatInt(int64(f.Value), 10) //nolint:gosec // as protobuf writes negative numbers
	}
	return v, err
}
