package provider

import (
	"encoding/json"

	"github.com/ocr-proxy/ocr-proxy/internal/classify"
)

// visionBatch repeats single images of a batch. Each image is billed by itself, so that sending the good ones again would pay for them twice.
func visionBatch() *Batch {
	const items, answers = "requests", "responses"
	return &Batch{
		Operation: "images:annotate",
		Failed: func(answer []byte) ([]ItemFault, int, error) {
			all, err := elements(answer, answers)
			if err != nil {
				return nil, 0, err
			}
			var failed []ItemFault
			for i, s := range all {
				if fault, bad := visionItem(answer[s.start:s.end]); bad {
					fault.Place = i
					failed = append(failed, fault)
				}
			}
			return failed, len(all), nil
		},
		Select: func(request []byte, places []int) ([]byte, error) { return selectElements(request, items, places) },
		Merge: func(answer, later []byte, places []int) ([]byte, error) {
			return mergeElements(answer, later, answers, places, visionBetter)
		},
	}
}

// visionItem reads the error of one item.
func visionItem(item []byte) (ItemFault, bool) {
	n, ok := classify.ReadBody(item).At("error", "code").Int()
	if !ok || n == 0 {
		return ItemFault{}, false
	}
	return visionItemFault(n), true
}

// visionItemFault is what the code of an item's error means.
func visionItemFault(n int) ItemFault {
	fault := ItemFault{Class: classify.Permanent, Code: canonical(n)}
	switch fault.Code {
	case "RESOURCE_EXHAUSTED":
		fault.Class = classify.Throttle
	case "DEADLINE_EXCEEDED", "INTERNAL", "UNAVAILABLE":
		fault.Class = classify.Transient
	}
	return fault
}

// visionBetter reports whether a later answer about an image should stand in place of the earlier one: a good one always, and another error
// only where the earlier item holds nothing but its error, since annotations beside an error are good.
func visionBetter(earlier, later []byte) bool {
	if _, bad := visionItem(later); !bad {
		return true
	}
	var members map[string]json.RawMessage
	return json.Unmarshal(earlier, &members) == nil && len(members) == 1
}
