package credential

import (
	"context"
	"net/http"

	"go.uber.org/zap"
)

// Header sends a fixed value in a header, after the scheme's word if there is one ("Bearer"), in place of every credential of the worker's.
func Header(name, scheme, value string) *Credential {
	value = inScheme(scheme, value)
	return &Credential{own: true, headers: []string{name}, apply: func(_ context.Context, a Attempt) error {
		replace(a.Request, name, value)
		return nil
	}}
}

// HeaderFileOptions say which header carries a key that is kept in a file.
type HeaderFileOptions struct {
	Header string // its name
	Scheme string // word before the key, such as "Bearer"; "": none
	Path   string // of the file, watched for changes
	// Read returns the file's key, or an error that says what is wrong with it and never repeats it.
	Read func() (string, error)
	// Log is told, once each time, about new contents that cannot be used. Nil: nobody is.
	Log *zap.Logger
}

// HeaderFile sends the key in a file as Header does, and reads it again when the file changes (a switched symbolic link is a change) and when
// the provider refuses it. A new content that cannot be used changes nothing. The error is Read's, for a first content that cannot be used.
func HeaderFile(ctx context.Context, o HeaderFileOptions) (*Credential, error) {
	key := &kept[string]{
		paths: []string{o.Path}, log: o.Log,
		load: func(context.Context) (string, error) { return o.Read() },
	}
	if err := key.open(ctx); err != nil {
		return nil, err
	}
	return &Credential{
		own: true, headers: []string{o.Header},
		apply: func(ctx context.Context, a Attempt) error {
			replace(a.Request, o.Header, inScheme(o.Scheme, *key.get(ctx)))
			return nil
		},
		mend: func(ctx context.Context, r Refusal) bool {
			other := func(value *string) bool { return inScheme(o.Scheme, *value) != r.Sent.Get(o.Header) }
			current := key.get(ctx)
			return other(current) || other(key.renew(ctx, current))
		},
	}, nil
}

func inScheme(scheme, value string) string {
	if scheme == "" {
		return value
	}
	return scheme + " " + value
}

// replace puts one header in the place of all that the worker sent to prove who it is.
func replace(r *http.Request, name, value string) {
	remove(r)
	r.Header.Set(name, value)
}
