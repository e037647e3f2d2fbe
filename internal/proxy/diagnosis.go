package proxy

import (
	"crypto/tls"
	"errors"
	"fmt"
	"strings"

	"github.com/ocr-proxy/ocr-proxy/internal/classify"
	"github.com/ocr-proxy/ocr-proxy/internal/retry"
)

// diagnostic is one sentence for the person who triages: what happened, and what to look at.
func (x *exchange) diagnostic() string {
	last := x.lastAttempt()
	code := last.verdict.Code
	if code == "" && last.status != 0 {
		code = fmt.Sprintf("status %d", last.status)
	}
	switch x.stop {
	case retry.Breaker:
		switch {
		case last.n == 0:
			return "The circuit of this account was open, so the call was not made; replay when the provider is well."
		case last.ambiguous:
			return fmt.Sprintf("The circuit opened and the answer to the last attempt was lost (%s): it may have been done and billed; replay with that in mind.", code)
		}
		return fmt.Sprintf("The circuit of this account opened after the last attempt (%s); replay when the provider is well.", code)
	case retry.Shutdown:
		return "The proxy was shut down while this request waited for its next attempt; replay it."
	case retry.Unsafe:
		return "The call was not repeated because the provider may already have done its work; look for the job before you replay."
	case retry.HintTooLong:
		if last.n == 0 {
			return "The account was throttled for longer than this request may take, so nothing was sent; replay it later."
		}
		return fmt.Sprintf("The account is throttled for longer than this request may take, its last attempt ended with %s; replay it later.", code)
	case retry.Crowded:
		return fmt.Sprintf("The call failed (%s) while too many others were being retried on this account; replay when the provider is well.", code)
	case retry.Full:
		return fmt.Sprintf("Too many requests waited for their turn at this account to try again after %s; replay it later.", code)
	case retry.Attempts, retry.Elapsed, retry.Overflow:
		switch {
		case x.queued && last.n == 0:
			return "Its turn at this account would have come after the time that the request may take, so nothing was sent; replay it later, or let fewer come at once."
		case x.queued:
			return fmt.Sprintf("Its next turn at this account would have come too late, its last attempt ended with %s; replay it later, or let fewer come at once.", code)
		case last.n == 0:
			return "The time that the request may take was over before an attempt could be made; replay it."
		}
		return fmt.Sprintf("All attempts or all the time were used up, the last attempt with %s; replay when the provider is well.", code)
	case retry.Continue, retry.Final, retry.Canceled:
	}
	switch last.verdict.Class {
	case classify.Permanent:
		if _, ok := errors.AsType[*tls.CertificateVerificationError](x.err); ok {
			return "The provider's certificate does not verify; check the upstream's address and upstream_tls.ca_file."
		}
		return fmt.Sprintf("The provider will never accept this request (%s); look at the document and the options.", code)
	case classify.Auth:
		if _, ok := errors.AsType[*classify.CredentialError](x.err); ok {
			return "The proxy found no usable credential for this account, so nothing was sent; set it, then replay."
		}
		return fmt.Sprintf("The provider refused the credentials (%s); mend them, then replay.", code)
	case classify.Quota:
		return fmt.Sprintf("The account has no quota left (%s); raise it or wait for its renewal, then replay.", code)
	case classify.Unknown:
		return fmt.Sprintf("No rule knows this answer (%s); add one under rules, then replay.", code)
	case classify.Soft:
		return "The answer is good and should be looked at by a person: " + last.verdict.Message + "."
	case classify.Success, classify.Throttle, classify.Transient:
	}
	return fmt.Sprintf("The request ended with %s.", code)
}

// story is one attempt in one line.
func (a attempt) story() string {
	var b strings.Builder
	fmt.Fprintf(&b, "attempt %d", a.n)
	if a.at != "" {
		fmt.Fprintf(&b, " at account %s", a.at)
	}
	fmt.Fprintf(&b, ": %s", a.verdict.Class)
	if a.status != 0 {
		fmt.Fprintf(&b, ", status %d", a.status)
	}
	if a.verdict.Code != "" {
		fmt.Fprintf(&b, ", code %s", a.verdict.Code)
	}
	fmt.Fprintf(&b, ", decided by %s", a.verdict.Reason)
	return b.String()
}

// short is how an attempt ended, in a word or two.
func (a attempt) short() string {
	switch {
	case a.status != 0 && a.verdict.Code != "":
		return fmt.Sprintf("%d %s", a.status, a.verdict.Code)
	case a.status != 0:
		return fmt.Sprintf("status %d", a.status)
	}
	return a.verdict.Code
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
