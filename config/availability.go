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
		{"clients", p.Clients.TokenFile != ""},
	}
}

// availability refuses settings that turn on what this build lacks: better than to ignore them.
func (c *checker) availability() {
	refuse := func(s scope, features []feature) {
		for _, f := range features {
			s.need(!f.on, f.key, "is not available yet; leave it out or at its default")
		}
	}
	for i, p := range c.cfg.Providers {
		refuse(c.entry(i), p.missing())
	}
}
