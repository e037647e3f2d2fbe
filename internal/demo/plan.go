package demo

// MinDocuments and MaxDocuments bound a batch: fewer would not fill every part of the story, more would only make it longer.
const (
	MinDocuments = 20
	MaxDocuments = 200
)

// errand is one document and the account that reads it.
type errand struct {
	account  string
	document Document
}

// plan is the batch, divided over the parts of the story.
type plan struct {
	calm     []errand // all is well, but for one file that nobody can read
	throttle []errand // textract is asked for more than it takes
	outage   []errand // mistral is down
	probe    errand   // the first for mistral afterwards
	recovery []errand
}

// divide shares the documents out. The last one is the damaged file; it goes early, while its provider is well.
func divide(documents []Document) plan {
	n := len(documents) - 1
	damaged, rest := documents[n], documents[:n]
	take := func(n int, turns ...string) []errand {
		share := make([]errand, 0, n)
		for i, d := range rest[:n] {
			share = append(share, errand{turns[i%len(turns)], d})
		}
		rest = rest[n:]
		return share
	}
	p := plan{
		calm:     append(take(n/5, azure, textract, mistral), errand{textract, damaged}),
		throttle: take(n*3/10, textract, textract, textract, azure, textract, mistral),
		outage:   take(n/4, mistral, mistral, textract, mistral, azure),
	}
	p.probe = take(1, mistral)[0]
	p.recovery = take(len(rest), textract, mistral, azure)
	return p
}
