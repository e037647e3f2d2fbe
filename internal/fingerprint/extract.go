package fingerprint

import "io"

// Extract reads the body once and writes the documents that it carries at the places of the layout, decoded, each to a writer that next
// gives. It is false when there is none, when one lies elsewhere and is only named, and when one is not encoded as it should be; what was
// written then is not to be used. A body that is itself the document is none that it carries. A writer's errors are the caller's to
// remember; the only error is that of opening and reading the body.
func Extract(r Request, l Layout, next func() io.Writer) (ok bool, err error) {
	docs := newDocuments(everyRank)
	docs.place = next
	body, err := newComputation(r, l, func(string) bool { return false }).pass(docs)
	if err != nil {
		return false, err
	}
	return body.parsed && docs.count > 0 && !docs.pointed && !docs.undecoded, nil
}
