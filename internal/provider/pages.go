package provider

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Pages says how a call about a document is made again for some of its pages only.
type Pages struct {
	// Operation is the name of the call.
	Operation string
	// Missing lists the pages that a good answer lacks of those that were asked for, or that it marks as failed, ascending and in the provider's
	// own numbers. It is empty when nothing is missing, when nothing at all came, and when either text cannot be understood.
	Missing func(request, answer []byte) []int
	// Select makes the request for those pages alone.
	Select func(request []byte, pages []int) ([]byte, error)
	// Merge puts a later answer's pages among those of an earlier one and lists the pages that it got. All else of the earlier answer stays byte
	// for byte. An error says that the later answer is not about those pages.
	Merge func(answer, later []byte, pages []int) (merged []byte, got []int, err error)
}

// maxPages bounds the numbers of pages that are considered.
const maxPages = 10_000

// inferred lists the pages from the first to the last that did not come, where no request says which are there. More of them than came are no
// pages that got lost: whatever counted them means something else, and asking for them would be a guess that is billed.
func inferred(first, last int, came func(page int) bool) []int {
	var missing []int
	good := 0
	for page := first; page <= min(last, maxPages); page++ {
		if came(page) {
			good++
		} else {
			missing = append(missing, page)
		}
	}
	if len(missing) > good {
		return nil
	}
	return missing
}

// withValue gives a member of a JSON object another value, or puts it in as the first; all else stays byte for byte.
func withValue(object []byte, name string, value []byte) ([]byte, error) {
	at, err := members(object, name)
	switch {
	case err != nil:
		return nil, err
	case len(at) > 1:
		return nil, fmt.Errorf("%s stands there twice: %w", name, errItems)
	case len(at) == 1:
		return bytes.Join([][]byte{object[:at[0].start], value, object[at[0].end:]}, nil), nil
	}
	start := bytes.IndexByte(object, '{') + 1
	member := fmt.Appendf(nil, "%q:%s", name, value)
	if !bytes.HasPrefix(bytes.TrimSpace(object[start:]), []byte("}")) {
		member = append(member, ',')
	}
	return bytes.Join([][]byte{object[:start], member, object[start:]}, nil), nil
}

// members finds the values of an object's members of that name.
func members(object []byte, name string) ([]span, error) {
	d := json.NewDecoder(bytes.NewReader(object))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, fmt.Errorf("no JSON object: %w", errItems)
	}
	var all []span
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, err
		}
		if key == name {
			end := int(d.InputOffset())
			all = append(all, span{end - len(value), end})
		}
	}
	_, err := d.Token() // its end
	return all, err
}
