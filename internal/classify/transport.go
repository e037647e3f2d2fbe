package classify

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"
)

// TimeoutError is the cause that the proxy gives to a context whose time has run out, so that a timeout is known by its type.
type TimeoutError struct {
	What  string        // what ran out, such as "attempt timeout"
	After time.Duration // its length
}

// Error says which time ran out.
func (e *TimeoutError) Error() string {
	return fmt.Sprintf("no answer within the %s of %s", e.What, e.After)
}

// Timeout is true: it makes the error a timeout in the sense of net.Error.
func (e *TimeoutError) Timeout() bool { return true }

// Temporary completes net.Error.
func (e *TimeoutError) Temporary() bool { return true }

// CredentialError wraps what kept the proxy from applying its own credentials to an attempt; nothing was sent.
type CredentialError struct{ Err error }

// Error tells what is wrong with the credentials, without any of their values.
func (e *CredentialError) Error() string {
	return "the proxy's credentials cannot be used: " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *CredentialError) Unwrap() error { return e.Err }

// LocalError is trouble of the proxy's own, such as a full disk, that kept it from taking an answer which had come. It says nothing about the
// provider, who may have done the work and billed it.
type LocalError struct{ Err error }

// Error says what is wrong here.
func (e *LocalError) Error() string { return "the proxy could not take the answer: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *LocalError) Unwrap() error { return e.Err }

// TruncatedError says that an answer began and did not end as it should.
type TruncatedError struct{ Err error }

// Error says that the answer broke off.
func (e *TruncatedError) Error() string { return "the answer broke off: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *TruncatedError) Unwrap() error { return e.Err }

// transport classifies what went wrong on the way, by the types of the error chain and never by its text.
func transport(err error) Verdict {
	class, code := Transient, "transport"
	var (
		certificate *tls.CertificateVerificationError
		credential  *CredentialError
		truncated   *TruncatedError
		local       *LocalError
		dns         *net.DNSError
		timeout     net.Error
	)
	switch {
	case errors.As(err, &certificate):
		return Verdict{
			Class: Permanent, Code: "certificate", Message: err.Error(), Aside: true,
			Reason: "the upstream's certificate does not verify; asking again changes nothing",
		}
	case errors.As(err, &local):
		return Verdict{
			Class: Unknown, Code: "local", Message: err.Error(), Aside: true,
			Reason: "the proxy's own trouble; asking again would pay again",
		}
	case errors.As(err, &credential):
		class, code = Auth, "credentials"
	case IsTimeout(err):
		code = "timeout"
	case errors.As(err, &truncated):
		code = "truncated"
	case errors.Is(err, syscall.ECONNREFUSED):
		code = "connection_refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		code = "connection_reset"
	case errors.As(err, &dns):
		code = "name_not_resolved"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		code = "connection_closed"
	case errors.As(err, &timeout):
		code = "network"
	}
	return Verdict{Class: class, Code: code, Message: err.Error(), Reason: "no whole answer: " + code}
}

// IsTimeout reports whether the error is a time that ran out: the proxy's own or the network's.
func IsTimeout(err error) bool {
	var (
		own     *TimeoutError
		network net.Error
	)
	// The first net.Error of a chain, such as *url.Error, looks only one step further: what is wrapped deeper is asked for by itself.
	return errors.As(err, &own) || errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) ||
		errors.As(err, &network) && network.Timeout()
}
