package dlq

// severalReasons is the action for a group of letters that need different ones.
const severalReasons = "These failed for several reasons: group by outcome and class to see what to do about each."

// actions says what to do about letters, the first row that fits. Empty fits everything.
func actions() []struct{ outcome, class, sentence string } {
	return []struct{ outcome, class, sentence string }{
		{"review", "", "Look at the results yourself: the provider answered, and its answer is not to be trusted; resolve them, or replay with other options."},
		{"", "auth", "Renew or mend the credential, then replay."},
		{"", "quota", "Raise the account's limit, or wait until it renews, then replay."},
		{"", "throttle", "Replay at a lower rate, after retry_not_before where it is set."},
		{"circuit_open", "", "Replay when the provider is well again and its circuit is closed."},
		{"exhausted", "", "Replay at a low rate when the provider is well again; look first at those that are ambiguous."},
		{"", "unknown", "Read the error_message of one, add a rule for it, then replay."},
		{"rejected", "permanent", "Look at what error_message says of one of the documents: mend it and send it anew, discard it, or replay it, which sends it unchecked."},
		{"permanent", "permanent", "Look at one of the documents and the options it was sent with: mend it and send it anew, or discard it."},
		{"", "", "Look at one of them with `ocr-proxy dlq show`."},
	}
}

// Action says in one sentence what to do about letters of an outcome and an
// error class.
func Action(outcome, class string) string {
	for _, a := range actions() {
		if (a.outcome == "" || a.outcome == outcome) && (a.class == "" || a.class == class) {
			return a.sentence
		}
	}
	return ""
}
