package credential

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials/stscreds"
	"github.com/aws/aws-sdk-go-v2/service/sts"
)

// awsChain is the SDK's own chain of credentials: environment, shared files with all that a profile can say (roles, SSO, programs), web
// identity, the role of the container or of the instance. The SDK resolves the chain once and keeps what it read from a file for ever; this
// one is resolved again when the files change and when the provider says that the credentials are no longer good.
type awsChain struct{ kept[aws.Config] }

const (
	// sessionWindow is how long before its end a session is replaced.
	sessionWindow = time.Minute
	// tryTimeout bounds how long credentials are tried that are to replace others.
	tryTimeout = 5 * time.Second
)

// newAWSChain reads files and asks nobody.
func newAWSChain(ctx context.Context, o SigV4Options, more ...func(*config.LoadOptions) error) (*awsChain, error) {
	load := append([]func(*config.LoadOptions) error{
		config.WithSharedConfigProfile(o.Profile),
		config.WithCredentialsCacheOptions(func(c *aws.CredentialsCacheOptions) { c.ExpiryWindow = sessionWindow }),
	}, more...)
	if o.Region != "" {
		load = append(load, config.WithRegion(o.Region))
	}
	c := &awsChain{kept[aws.Config]{log: o.Log, paths: []string{
		cmp.Or(os.Getenv("AWS_SHARED_CREDENTIALS_FILE"), config.DefaultSharedCredentialsFilename()),
		cmp.Or(os.Getenv("AWS_CONFIG_FILE"), config.DefaultSharedConfigFilename()),
	}}}
	c.load = func(ctx context.Context) (aws.Config, error) {
		cfg, err := config.LoadDefaultConfig(ctx, load...)
		if err != nil {
			return cfg, fmt.Errorf("load the AWS configuration: %s", reason(err))
		}
		if cfg.Region == "" {
			return cfg, errors.New("auth.region is empty and the environment names no AWS region; set auth.region")
		}
		if o.RoleARN != "" {
			cfg.Credentials = assumed(cfg, o)
		}
		if c.value.Load() == nil {
			return cfg, nil
		}
		return cfg, tried(ctx, cfg.Credentials)
	}
	return c, c.open(ctx)
}

// tried asks credentials that are to replace others for themselves. A file that is just being written reads as one without keys, and the chain
// goes on behind it to wherever there are none.
func tried(ctx context.Context, credentials aws.CredentialsProvider) error {
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	if _, err := credentials.Retrieve(ctx); err != nil {
		return fmt.Errorf("no AWS credentials: %s", reason(err))
	}
	return nil
}

// assumed takes on a role with the credentials of the chain.
func assumed(cfg aws.Config, o SigV4Options) aws.CredentialsProvider {
	const maxName = 64 // of a session, which the provider's own audit trail shows
	name := "ocr-proxy-" + o.Account
	role := stscreds.NewAssumeRoleProvider(sts.NewFromConfig(cfg), o.RoleARN, func(r *stscreds.AssumeRoleOptions) {
		r.RoleSessionName = name[:min(len(name), maxName)]
	})
	return aws.NewCredentialsCache(role, func(c *aws.CredentialsCacheOptions) { c.ExpiryWindow = sessionWindow })
}

// Retrieve returns the credentials of the moment.
func (c *awsChain) Retrieve(ctx context.Context) (aws.Credentials, error) {
	return c.get(ctx).Credentials.Retrieve(ctx)
}

// renewed reports whether there are other credentials than those of a refused attempt.
func (c *awsChain) renewed(ctx context.Context, refused http.Header) bool {
	other := func(cfg *aws.Config) bool {
		now, err := cfg.Credentials.Retrieve(ctx)
		if err != nil {
			return false
		}
		return now.SessionToken != refused.Get("X-Amz-Security-Token") ||
			!strings.Contains(refused.Get("Authorization"), "Credential="+now.AccessKeyID+"/")
	}
	current := c.get(ctx)
	if other(current) {
		return true
	}
	next := c.renew(ctx, current)
	return next != current && other(next)
}
