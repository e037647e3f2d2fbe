package provider

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/ocr-proxy/ocr-proxy/internal/classify"
)

// Batch says how a call about several items, each of which fails by itself inside a good answer, is made again for some of them only.
type Batch struct {
	// Operation is the name of the call.
	Operation string
	// Failed lists the items of an answer that failed, and how many items it holds. An error says that the answer cannot be taken apart.
	Failed func(answer []byte) (failed []ItemFault, items int, err error)
	// Select makes the request for the items at those places alone, in their order.
	Select func(request []byte, places []int) ([]byte, error)
	// Merge puts the items of a later answer in their places in an earlier one. All else of the earlier answer stays byte for byte.
	Merge func(answer, later []byte, places []int) ([]byte, error)
}

// ItemFault is one failed item of a batch.
type ItemFault struct {
	Place int // from 0
	Class classify.Class
	Code  string
}

// errItems says that two parts of a batch do not belong together.
var errItems = errors.New("the items do not match")

// span is where one element of an array lies in a JSON text.
type span struct{ start, end int }

// elements finds the elements of the array that is the named member of a JSON object.
func elements(text []byte, member string) ([]span, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, fmt.Errorf("no JSON object: %w", errItems)
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		if name != member {
			var skipped json.RawMessage
			if err := d.Decode(&skipped); err != nil {
				return nil, err
			}
			continue
		}
		if t, err := d.Token(); err != nil || t != json.Delim('[') {
			return nil, fmt.Errorf("%s is no list: %w", member, errItems)
		}
		var all []span
		for d.More() {
			var element json.RawMessage
			if err := d.Decode(&element); err != nil {
				return nil, err
			}
			end := int(d.InputOffset())
			all = append(all, span{end - len(element), end})
		}
		return all, nil
	}
	return nil, fmt.Errorf("there is no %s: %w", member, errItems)
}

// selectElements keeps only the elements at those places of an array member.
func selectElements(text []byte, member string, places []int) ([]byte, error) {
	all, err := elements(text, member)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	for i, place := range places {
		if place >= len(all) {
			return nil, errItems
		}
		if i == 0 {
			out.Write(text[:all[0].start])
		} else {
			out.WriteByte(',')
		}
		out.Write(text[all[place].start:all[place].end])
	}
	if len(places) > 0 {
		out.Write(text[all[len(all)-1].end:])
	}
	return out.Bytes(), nil
}

// mergeElements replaces the elements at those places of an array member by those of a later text, one after the other, where better says so.
func mergeElements(text, later []byte, member string, places []int, better func(earlier, later []byte) bool) ([]byte, error) {
	old, err := elements(text, member)
	if err != nil {
		return nil, err
	}
	fresh, err := elements(later, member)
	if err != nil {
		return nil, err
	}
	if len(fresh) != len(places) {
		return nil, fmt.Errorf("%d items asked for, %d answered: %w", len(places), len(fresh), errItems)
	}
	var out bytes.Buffer
	at := 0
	for i, place := range places {
		if place >= len(old) {
			return nil, errItems
		}
		was, is := text[old[place].start:old[place].end], later[fresh[i].start:fresh[i].end]
		if !better(was, is) {
			continue
		}
		out.Write(text[at:old[place].start])
		out.Write(is)
		at = old[place].end
	}
	out.Write(text[at:])
	return out.Bytes(), nil
}
