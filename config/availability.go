package config

// feature is a setting whose feature this build lacks.
type feature struct {
	key string
	on  bool
}

// missing lists the features of an account that are not available yet. Building one means deleting its line and, where
// it is on by default, changing Default.
func (p Provider) missing() []feature {
	return []feature{
		{"mode", p.Mode == "observe"},
		{"clients", p.Clients.TokenFile != ""},
	}
}

// missingInherited lists the features of the sections that accounts inherit.
func missingInherited(b Breaker, r Review) []feature {
	return []feature{
		{"breaker.on_sustained", b.OnSustained == "review" || b.OnSustained == "fallback"},
		{"review.empty_text", r.EmptyText == "review"},
		{"review.missing_pages", r.MissingPages == "review"},
		{"review.malformed_output", r.MalformedOutput == "review"},
	}
}

// availability refuses settings that turn on what this build lacks: better than to ignore them.
func (c *checker) availability() {
	refuse := func(s scope, features []feature) {
		for _, f := range features {
			s.need(!f.on, f.key, "is not available yet; leave it out or at its default")
		}
	}
	refuse(scope{checker: c}, missingInherited(c.cfg.Breaker, c.cfg.Review))
	for i, p := range c.cfg.Providers {
		refuse(c.entry(i), p.missing())
		refuse(c.entry(i), missingInherited(p.Breaker, p.Review))
	}
}
