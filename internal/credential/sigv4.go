package credential

import (
	"context"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"go.uber.org/zap"
)

// SigV4Options say how requests to AWS are signed.
type SigV4Options struct {
	Account string // named in errors and, where a role is assumed, in the session's name
	Region  string // "": the environment's
	Service string // the signing name, such as "textract"
	Profile string // of the shared configuration files; "": the environment's
	RoleARN string // role that is assumed with the chain's credentials; "": none
	// Log is told about shared files that cannot be used any more and about a wrong clock. Nil: nobody is.
	Log *zap.Logger
}

// SigV4 signs each attempt for AWS with credentials of the SDK's own chain. A worker's signature cannot be passed on, because it covers the
// proxy's host name; all of it is replaced. Making it reads the shared files and asks nobody; an error says what is wrong with them.
func SigV4(ctx context.Context, o SigV4Options) (*Credential, error) {
	chain, err := newAWSChain(ctx, o)
	if err != nil {
		return nil, err
	}
	return newSigV4(ctx, o, chain).credential(o.Account), nil
}

func newSigV4(ctx context.Context, o SigV4Options, chain *awsChain) *sigV4 {
	return &sigV4{
		credentials: chain, renewed: chain.renewed, region: chain.get(ctx).Region, service: o.Service, signer: v4.NewSigner(), now: time.Now, log: o.Log,
	}
}

type sigV4 struct {
	credentials aws.CredentialsProvider
	renewed     func(ctx context.Context, refused http.Header) bool
	region      string
	service     string
	signer      *v4.Signer
	now         func() time.Time
	offset      atomic.Int64 // what is added to the clock, in nanoseconds, to have the provider's
	log         *zap.Logger  // nil: none
}

func (s *sigV4) credential(account string) *Credential {
	return &Credential{account: account, own: true, signs: true, apply: s.apply, mend: s.mend, refuses: refuseStreamingSignature}
}

// apply signs the content type and the x-amz headers that describe the call, and nothing that a hop on the way may change.
func (s *sigV4) apply(ctx context.Context, a Attempt) error {
	credentials, err := s.credentials.Retrieve(ctx)
	if err != nil {
		return fmt.Errorf("no AWS credentials: %s; check auth.profile, auth.role_arn and the identity that this process runs under", reason(err))
	}
	sum, err := a.Sum256()
	if err != nil {
		return fmt.Errorf("hash the body to sign it: %w", err)
	}
	r := a.Request
	remove(r)
	for _, name := range [...]string{"Date", "Amz-Sdk-Request"} {
		r.Header.Del(name) // the worker's clock, and its count of tries, which is not ours
	}
	signed := &http.Request{Method: r.Method, URL: r.URL, Host: r.Host, ContentLength: r.ContentLength, Header: http.Header{}}
	for name, values := range r.Header {
		if name == "Content-Type" || strings.HasPrefix(name, "X-Amz-") {
			signed.Header[name] = values
		}
	}
	at := s.now().Add(time.Duration(s.offset.Load()))
	err = s.signer.SignHTTP(ctx, credentials, signed, hex.EncodeToString(sum[:]), s.service, s.region, at)
	if err != nil {
		return fmt.Errorf("sign the request: %w", err)
	}
	for _, name := range [...]string{"Authorization", "X-Amz-Date", "X-Amz-Security-Token"} {
		if v := signed.Header.Get(name); v != "" {
			r.Header.Set(name, v)
		}
	}
	return nil
}

// mend sets the clock by the provider's, or has the credentials renewed. A signature that does not match for another reason would not match
// the next time.
func (s *sigV4) mend(ctx context.Context, r Refusal) bool {
	// Codes of a signature that may be refused for its date, and of credentials that have ended or were taken back; one can mean either.
	if r.has("InvalidSignatureException", "SignatureDoesNotMatch", "RequestTimeTooSkewed", "RequestExpired", "RequestInTheFuture",
		"AuthFailure", "AccessDeniedException") && s.setClock(r) {
		return true
	}
	return s.renewed != nil && r.has("ExpiredTokenException", "ExpiredToken", "RequestExpired", "UnrecognizedClientException", "InvalidClientTokenId") &&
		s.renewed(ctx, r.Sent)
}

const (
	// maxSkew is how far a signature's date may be from the provider's clock before the clock is held to be wrong.
	maxSkew = 4 * time.Minute
	// amzDate is the form of X-Amz-Date.
	amzDate = "20060102T150405Z"
)

// setClock reports whether the refused signature was made by a clock that differs from the provider's, which later ones then follow. A date
// that went through a cache is no clock.
func (s *sigV4) setClock(r Refusal) bool {
	theirs, err := http.ParseTime(r.Header.Get("Date"))
	if err != nil || r.Header.Get("Age") != "" {
		return false
	}
	signed, err := time.Parse(amzDate, r.Sent.Get("X-Amz-Date"))
	if err != nil || theirs.Sub(signed).Abs() <= maxSkew {
		return false
	}
	offset := theirs.Sub(s.now()).Round(time.Second)
	s.offset.Store(int64(offset))
	if s.log != nil {
		s.log.Warn("this machine's clock is not the provider's; requests are signed by the provider's, but set the clock", zap.Duration("offset", offset))
	}
	return true
}

// refuseStreamingSignature turns away bodies that are signed chunk by chunk: forwarded as they are they would be garbage under a new
// signature.
func refuseStreamingSignature(h http.Header) string {
	if strings.Contains(strings.ToLower(h.Get("Content-Encoding")), "aws-chunked") || strings.HasPrefix(h.Get("X-Amz-Content-Sha256"), "STREAMING-") {
		return "a body signed chunk by chunk (aws-chunked) cannot be signed anew; switch streaming signatures off in the SDK"
	}
	return ""
}
