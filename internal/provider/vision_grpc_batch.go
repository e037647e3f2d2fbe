package provider

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/ocr-proxy/ocr-proxy/internal/grpcwire"
)

const (
	// visionElements is the number of a batch's requests and of its responses in their messages.
	visionElements = 1
	// visionItemError is the number of an image's error in its part of the answer.
	visionItemError = 9
)

// visionMessageBatch is visionBatch for gRPC.
func visionMessageBatch() *Batch {
	return &Batch{
		Operation: "images:annotate",
		Failed: func(answer []byte) ([]ItemFault, int, error) {
			all, err := messageElements(answer)
			if err != nil {
				return nil, 0, err
			}
			var failed []ItemFault
			for i, item := range all.elements {
				if fault, bad := visionMessageItem(item); bad {
					fault.Place = i
					failed = append(failed, fault)
				}
			}
			return failed, len(all.elements), nil
		},
		Select: func(request []byte, places []int) ([]byte, error) {
			all, err := messageElements(request)
			if err != nil {
				return nil, err
			}
			var chosen [][]byte
			for _, place := range places {
				if place >= len(all.elements) {
					return nil, errItems
				}
				chosen = append(chosen, all.elements[place])
			}
			all.elements = chosen
			return all.write(), nil
		},
		Merge: func(answer, later []byte, places []int) ([]byte, error) {
			old, err := messageElements(answer)
			if err != nil {
				return nil, err
			}
			fresh, err := messageElements(later)
			if err != nil {
				return nil, err
			}
			if len(fresh.elements) != len(places) {
				return nil, fmt.Errorf("%d items asked for, %d answered: %w", len(places), len(fresh.elements), errItems)
			}
			for i, place := range places {
				if place >= len(old.elements) {
					return nil, errItems
				}
				if visionMessageBetter(old.elements[place], fresh.elements[i]) {
					old.elements[place] = fresh.elements[i]
				}
			}
			return old.write(), nil
		},
	}
}

// visionMessageItem reads the error of one item.
func visionMessageItem(item []byte) (ItemFault, bool) {
	found, err := Fields{visionItemError: {Name: "error", In: googleErrorFields()}}.Pick(bytes.NewReader(item), maxDetailText, maxDetailItems)
	if err != nil {
		return ItemFault{}, false
	}
	n, ok := found.Int("error.code")
	if !ok || n == 0 {
		return ItemFault{}, false
	}
	return visionItemFault(int(n)), true
}

// visionMessageBetter is visionBetter for messages.
func visionMessageBetter(earlier, later []byte) bool {
	if _, bad := visionMessageItem(later); !bad {
		return true
	}
	r := grpcwire.NewReader(bytes.NewReader(earlier))
	for {
		f, err := r.Next()
		if err != nil {
			return errors.Is(err, io.EOF)
		}
		if f.Number != visionItemError {
			return false
		}
	}
}

// messageParts are the elements of a batch, and all else of its message.
type messageParts struct {
	elements [][]byte
	rest     []byte
}

// messageElements takes a message in its frame apart. One that is compressed cannot be.
func messageElements(body []byte) (messageParts, error) {
	var parts messageParts
	if err := grpcwire.Check(bytes.NewReader(body), int64(len(body))); err != nil {
		return parts, err
	}
	message, err := grpcwire.Message(bytes.NewReader(body), "")
	if err != nil {
		return parts, err
	}
	r := grpcwire.NewReader(message)
	for {
		f, err := r.Next()
		if errors.Is(err, io.EOF) {
			return parts, nil
		}
		if err != nil {
			return parts, err
		}
		switch f.Type {
		case grpcwire.Bytes:
			data, err := io.ReadAll(r)
			if err != nil {
				return parts, err
			}
			if f.Number == visionElements {
				parts.elements = append(parts.elements, data)
			} else {
				parts.rest = grpcwire.AppendBytes(parts.rest, f.Number, data)
			}
		case grpcwire.Varint:
			parts.rest = grpcwire.AppendVarint(parts.rest, f.Number, f.Value)
		case grpcwire.Fixed32, grpcwire.Fixed64:
			return parts, fmt.Errorf("field %d is not known: %w", f.Number, errItems)
		}
	}
}

// write puts the message and its frame together again.
func (p messageParts) write() []byte {
	message := slices.Clone(p.rest)
	for _, element := range p.elements {
		message = grpcwire.AppendBytes(message, visionElements, element)
	}
	return grpcwire.Frame(message)
}
