package provider

import "slices"

// Sign is how a good answer says that it is not all that was asked for.
type Sign struct {
	// Path is where it says so.
	Path string
	// Values are the words that say so.
	Values []string
	// Means is what they mean: Partial, Truncated or URLOnly.
	Means string
}

// The meanings of signs, as users see them.
const (
	Partial   = "partial"   // some of the document could not be read
	Truncated = "truncated" // the output ended at its limit
	URLOnly   = "url_only"  // the result lies at an address of which the proxy sees nothing
)

// Sign is what a value of a good answer means; "": nothing.
func (p *Provider) Sign(path, value string) string {
	for i := range p.Signs {
		if s := &p.Signs[i]; s.Path == path && slices.Contains(s.Values, value) {
			return s.Means
		}
	}
	return ""
}

// signPaths are the paths that have to be watched for signs alone.
func (p *Provider) signPaths() (paths []string) {
	for _, s := range p.Signs {
		if !slices.Contains(p.Watch, s.Path) && !slices.Contains(paths, s.Path) {
			paths = append(paths, s.Path)
		}
	}
	return paths
}

// Watched are the paths that have to be read for failures and for signs.
func (p *Provider) Watched() []string {
	if more := p.signPaths(); len(more) > 0 {
		return slices.Concat(p.Watch, more)
	}
	return p.Watch
}
