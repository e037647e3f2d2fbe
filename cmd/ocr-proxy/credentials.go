package main

import (
	"context"
	"fmt"

	"go.uber.org/zap"

	"github.com/ocr-proxy/ocr-proxy/config"
	"github.com/ocr-proxy/ocr-proxy/internal/credential"
)

// credential makes what an account proves with who it is. It reads files and the environment and asks nobody.
func (s *shared) credential(ctx context.Context, c config.Provider, key string, a config.Auth) (*credential.Credential, error) {
	log := s.log.With(zap.String("provider", c.Name))
	switch a.Type {
	case config.AuthPassthrough:
		return credential.Passthrough(), nil
	case config.AuthNone:
		return credential.None(), nil
	case config.AuthSigV4:
		return credential.SigV4(ctx, credential.SigV4Options{
			Account: c.Name, Region: a.Region, Service: a.Service, Profile: a.Profile, RoleARN: a.RoleARN, Log: log,
		})
	case config.AuthHeader:
		return s.header(ctx, key, a, log)
	case config.AuthGoogleADC:
		return credential.GoogleADC(credential.GoogleOptions{Account: c.Name, Scopes: a.Scopes}), nil
	case config.AuthAzureEntra:
		return credential.AzureEntra(credential.EntraOptions{Account: c.Name, Scope: a.Scope}), nil
	default:
		return nil, fmt.Errorf("there is no type %q", a.Type)
	}
}

// header is a key in a header: from a file, which is watched, or from the environment, which does not change.
func (s *shared) header(ctx context.Context, key string, a config.Auth, log *zap.Logger) (*credential.Credential, error) {
	if a.ValueFile == "" {
		value, err := config.ReadSecretEnv(key+".value_env", a.ValueEnv, s.environ)
		if err != nil {
			return nil, err
		}
		return credential.Header(a.Header, a.Scheme, value.Reveal()), nil
	}
	return credential.HeaderFile(ctx, credential.HeaderFileOptions{
		Header: a.Header, Scheme: a.Scheme, Path: a.ValueFile, Log: log,
		Read: func() (string, error) {
			value, err := config.ReadSecretFile(key+".value_file", a.ValueFile)
			return value.Reveal(), err
		},
	})
}
