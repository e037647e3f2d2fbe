package config

import (
	"cmp"
	"reflect"
)

// What becomes of a change of a setting while the proxy runs, as the tag reload says it.
const (
	// Live settings are applied by a running proxy.
	Live = "live"
	// Restart settings are those of the process, or name what everything that was learned belongs to: a change waits for the next start.
	Restart = "restart"
)

// Settle makes of the wanted configuration the one that a proxy can run which runs another: settings that need a restart stay as they run, all
// others are as wanted. It changes neither. Pending names the keys that wait for a restart, in the order of the file. Accounts are the same
// where their names are; one that is new needs no restart for anything, and neither does the end of one. An entry that names another provider,
// by its kind or its upstream, stays as a whole as it runs: what else it says, such as a credential, is meant for that provider.
//
// The result is one that nobody wrote, so that it has to be checked with Validate where anything is pending.
func Settle(running, wanted *Config) (settled *Config, pending []string) {
	c := *wanted
	c.Providers = append([]Provider(nil), wanted.Providers...)
	pending = settle(reflect.ValueOf(running).Elem(), reflect.ValueOf(&c).Elem(), "", "")
	for i := range c.Providers {
		for _, p := range running.Providers {
			if p.Name != c.Providers[i].Name {
				continue
			}
			entry := &c.Providers[i]
			moves := entry.Kind != p.Kind || entry.Upstream != p.Upstream
			pending = append(pending, settle(reflect.ValueOf(p), reflect.ValueOf(entry).Elem(), "providers."+p.Name, "")...)
			if moves {
				*entry = p
			}
		}
	}
	return &c, pending
}

// settle puts the running values of a section's settings that need a restart over the wanted ones.
func settle(running, wanted reflect.Value, path, reload string) (pending []string) {
	for _, f := range fields(wanted.Type()) {
		at, reload := join(path, f.key), cmp.Or(f.reload, reload)
		is, want := running.Field(f.index), wanted.Field(f.index)
		switch {
		case f.typ.Kind() == reflect.Struct && want.Kind() == reflect.Struct:
			pending = append(pending, settle(is, want, at, reload)...)
		case reload == Restart && !reflect.DeepEqual(is.Interface(), want.Interface()):
			want.Set(is)
			pending = append(pending, at)
		}
	}
	return pending
}
