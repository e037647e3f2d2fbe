package config

import (
	"maps"
	"slices"
)

// Warnings returns what is allowed and hardly meant: values of which one makes the other pointless. The configuration
// works all the same. Nil means that there is nothing to say.
func (c *Config) Warnings() []Problem {
	var found problems
	top := scope{checker: &checker{cfg: c, found: &found}}
	top.doubtful(c.Retry)
	for i, p := range c.Providers {
		s := top.entry(i)
		s.doubtful(p.Retry)
		if p.Auth.Type == AuthPassthrough && signs(p.Kind) {
			s.report("auth.type", "AWS SDKs sign the address that they call, which is the proxy's, so that AWS refuses what is passed on; "+
				"use type sigv4, with which the proxy signs, unless the workers sign for the upstream's host")
		}
		s.ownPaths(p)
		if p.Breaker.OnSustained == "fallback" && len(p.Fallback) == 0 {
			s.report("breaker.on_sustained", "fallback has no account to fall back to here; name some under fallback, or leave it at alert")
		}
	}
	found.explain(c, nil)
	return found
}

// ownPaths warns of calls that another account can hardly answer, because their path names what this one has.
func (s scope) ownPaths(p Provider) {
	if p.Kind != "documentai" {
		return
	}
	const same = "paths of this kind name project, location and processor, and go to the other account as they are; they are understood there only if that account may use the very same processor"
	if len(p.Fallback) > 0 {
		s.report("fallback", same)
	}
	if len(p.Spread) > 0 {
		s.report("spread", same)
	}
}

func (s scope) doubtful(r Retry) {
	s.doubtfulTimes("retry", r.For(""))
	for _, name := range slices.Sorted(maps.Keys(r.Operations)) {
		if o := r.Operations[name]; o.AttemptTimeout != nil || o.TotalBudget != nil || o.BaseDelay != nil || o.CapDelay != nil {
			s.doubtfulTimes("retry.operations."+name, r.For(name))
		}
	}
}

func (s scope) doubtfulTimes(path string, r Retry) {
	if r.AttemptTimeout > r.TotalBudget {
		s.report(path+".attempt_timeout", "%s is more than total_budget (%s), which ends the attempt first; raise total_budget or lower attempt_timeout",
			formatDuration(r.AttemptTimeout), formatDuration(r.TotalBudget))
	}
	if r.BaseDelay > r.CapDelay {
		s.report(path+".base_delay", "%s is more than cap_delay (%s), which cuts every wait; raise cap_delay or lower base_delay",
			formatDuration(r.BaseDelay), formatDuration(r.CapDelay))
	}
}
