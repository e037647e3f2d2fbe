package config

import (
	"net/textproto"
	"reflect"
	"regexp"
	"slices"
)

var (
	token     = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")
	awsRegion = regexp.MustCompile(`^[a-z0-9-]+$`)
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
		if a.Region == "" {
			s.report(path+".region", "is missing; give it here, or set AWS_REGION or AWS_DEFAULT_REGION")
		} else {
			s.need(awsRegion.MatchString(a.Region), path+".region", "must be an AWS region such as us-east-1")
		}
	case AuthHeader:
		s.headerAuth(path, a)
	}
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
		_, err := ReadSecretEnv(path+".value_env", a.ValueEnv, s.environ)
		s.adopt(err)
	default:
		s.report(path+".value_file", "is missing; name the file (value_file) or the environment variable (value_env) that holds the key")
	}
}

// framingHeaders returns headers that say where a message goes or ends.
func framingHeaders() []string {
	return []string{"Host", "Content-Length", "Transfer-Encoding", "Connection", "Te", "Trailer", "Upgrade"}
}
