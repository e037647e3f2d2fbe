package config

import (
	"fmt"
	"net/textproto"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

var (
	token     = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")
	awsRegion = regexp.MustCompile(`^[a-z0-9-]+$`)
	awsRole   = regexp.MustCompile(`^arn:aws[a-z-]*:iam::[0-9]{12}:role/[!-~]+$`)
)

// authFields returns the keys that belong to an auth type, and whether there is such a type.
func authFields(authType string) (keys []string, ok bool) {
	switch authType {
	case AuthPassthrough, AuthNone:
		return nil, true
	case AuthSigV4:
		return []string{"region", "service", "profile", "role_arn"}, true
	case AuthHeader:
		return []string{"header", "scheme", "value_file", "value_env"}, true
	case AuthGoogleADC:
		return []string{"scopes"}, true
	case AuthAzureEntra:
		return []string{"scope"}, true
	default:
		return nil, false
	}
}

func (s scope) auth(path string, a Auth) {
	own, ok := authFields(a.Type)
	if !ok {
		s.report(path+".type", "must be one of passthrough, none, sigv4, header, google_adc, azure_entra")
		return
	}
	value := reflect.ValueOf(a)
	for _, f := range fields(value.Type()) {
		if f.key != "type" && !isEmpty(value.Field(f.index)) && !slices.Contains(own, f.key) {
			s.report(path+"."+f.key, "has no effect with auth type %s; remove it or change the type", a.Type)
		}
	}
	switch a.Type {
	case AuthSigV4:
		if a.Region == "" && !s.secretless {
			s.report(path+".region", "is missing; give it here, or set AWS_REGION or AWS_DEFAULT_REGION")
		} else if a.Region != "" {
			s.need(awsRegion.MatchString(a.Region), path+".region", "must be an AWS region such as us-east-1")
		}
		s.need(a.RoleARN == "" || awsRole.MatchString(a.RoleARN), path+".role_arn", "must be the ARN of a role, such as arn:aws:iam::123456789012:role/ocr")
	case AuthHeader:
		s.headerAuth(path, a)
	case AuthGoogleADC:
		for i, scope := range a.Scopes {
			s.need(absolute(scope), fmt.Sprintf("%s.scopes[%d]", path, i), "must be an OAuth scope such as https://www.googleapis.com/auth/cloud-platform")
		}
	case AuthAzureEntra:
		s.need(absolute(a.Scope) && strings.HasSuffix(a.Scope, "/.default"), path+".scope",
			"must be the scope of a service, such as https://cognitiveservices.azure.com/.default")
	}
}

// absolute tells whether an OAuth scope is an address, as those of Google and Entra ID are, and one word.
func absolute(scope string) bool {
	u, err := url.Parse(scope)
	return err == nil && u.Scheme != "" && u.Host != "" && !strings.ContainsAny(scope, " ,")
}

func (s scope) headerAuth(path string, a Auth) {
	switch {
	case a.Header == "":
		s.report(path+".header", "is missing; name the header that carries the key, such as Authorization")
	case !token.MatchString(a.Header):
		s.report(path+".header", "is not a valid header name")
	case slices.Contains(framingHeaders(), textproto.CanonicalMIMEHeaderKey(a.Header)):
		s.report(path+".header", "cannot carry a key, because the proxy itself writes this header")
	}
	s.need(a.Scheme == "" || token.MatchString(a.Scheme), path+".scheme", "must be one word such as Bearer")

	switch {
	case a.ValueFile != "" && a.ValueEnv != "":
		s.report(path+".value_file", "value_env is given too; keep one of them")
	case a.ValueFile != "":
		s.secretFile(path+".value_file", a.ValueFile)
	case a.ValueEnv != "":
		s.secretVariable(path+".value_env", a.ValueEnv)
	default:
		s.report(path+".value_file", "is missing; name the file (value_file) or the environment variable (value_env) that holds the key")
	}
}

// framingHeaders returns headers that say where a message goes or ends.
func framingHeaders() []string {
	return []string{"Host", "Content-Length", "Transfer-Encoding", "Connection", "Te", "Trailer", "Upgrade"}
}
