package credential

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/config"
)

// SigV4Options say how requests to AWS are signed.
type SigV4Options struct {
	Region  string // "": the environment's
	Service string // the signing name, such as "textract"
	Profile string // of the shared configuration files; "": the environment's
}

// SigV4 signs each attempt for AWS with credentials of the SDK's own chain: environment first, then the shared files. A worker's signature
// cannot be passed on, because it covers the proxy's host name; all of it is replaced.
func SigV4(ctx context.Context, o SigV4Options) (*Credential, error) {
	load := []func(*config.LoadOptions) error{config.WithSharedConfigProfile(o.Profile)}
	if o.Region != "" {
		load = append(load, config.WithRegion(o.Region))
	}
	cfg, err := config.LoadDefaultConfig(ctx, load...)
	if err != nil {
		return nil, fmt.Errorf("load the AWS configuration: %w", err)
	}
	if cfg.Region == "" {
		return nil, errors.New("auth.region is empty and the environment names no AWS region; set auth.region")
	}
	s := &sigV4{credentials: cfg.Credentials, region: cfg.Region, service: o.Service, signer: v4.NewSigner(), now: time.Now}
	return &Credential{own: true, apply: s.apply, refuses: refuseStreamingSignature}, nil
}

type sigV4 struct {
	credentials aws.CredentialsProvider
	region      string
	service     string
	signer      *v4.Signer
	now         func() time.Time
}

// apply signs the content type and the x-amz headers that describe the call, and nothing that a hop on the way may change.
func (s *sigV4) apply(ctx context.Context, a Attempt) error {
	credentials, err := s.credentials.Retrieve(ctx)
	if err != nil {
		return fmt.Errorf("no AWS credentials: %w", err)
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
	err = s.signer.SignHTTP(ctx, credentials, signed, hex.EncodeToString(sum[:]), s.service, s.region, s.now())
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

// refuseStreamingSignature turns away bodies that are signed chunk by chunk: forwarded as they are they would be garbage under a new
// signature.
func refuseStreamingSignature(h http.Header) string {
	if strings.Contains(strings.ToLower(h.Get("Content-Encoding")), "aws-chunked") || strings.HasPrefix(h.Get("X-Amz-Content-Sha256"), "STREAMING-") {
		return "a body signed chunk by chunk (aws-chunked) cannot be signed anew; switch streaming signatures off in the SDK"
	}
	return ""
}
