package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ocr-proxy/ocr-proxy/config"
	"github.com/ocr-proxy/ocr-proxy/internal/classify"
	"github.com/ocr-proxy/ocr-proxy/internal/dlq"
	"github.com/ocr-proxy/ocr-proxy/internal/proxy"
)

// Values of the flag --output.
const (
	outputTable = "table"
	outputJSON  = "json"
)

// dlqFlags are the flags that the commands about dead letters share.
type dlqFlags struct {
	config string
	dir    string
	output string
	since  string
	until  string
	filter dlq.Filter

	environ []string
}

// dlqCommand is `ocr-proxy dlq` with the commands that look at dead letters and decide about them.
func dlqCommand(environ []string) *cobra.Command {
	f := &dlqFlags{environ: environ}
	cmd := &cobra.Command{
		Use:   "dlq",
		Short: "Look at dead letters and decide about them: the documents that could not be processed",
		Long: "Look at dead letters and decide about them: the documents that could not be processed.\n\n" +
			"Say where they lie with --config (its dead_letters.dir) or --dir, which wins.\n" +
			"list, show, top, verify and export work beside a running proxy and need none of its secrets.\n" +
			"replay, resolve, discard and prune ask the running proxy through its admin listener, which takes --config;\n" +
			"where no proxy runs all of them but replay do it themselves.",
		Args: knownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	p := cmd.PersistentFlags()
	p.StringVar(&f.config, "config", "", "the proxy's configuration `FILE`")
	p.StringVar(&f.dir, "dir", "", "the dead-letter folder `DIR` (wins over --config)")
	p.StringVar(&f.output, "output", outputTable, "table or json")
	cmd.AddCommand(dlqListCommand(f), dlqShowCommand(f), dlqTopCommand(f), dlqResolveCommand(f), dlqDiscardCommand(f), dlqExportCommand(f),
		dlqPruneCommand(f), dlqVerifyCommand(f), dlqReplayCommand(f))
	return cmd
}

// addFilters gives a command the flags that select letters.
func (f *dlqFlags) addFilters(cmd *cobra.Command) {
	p := cmd.Flags()
	p.StringVar(&f.filter.Document, "document", "", "only this document: its id, or the first 12 characters or more of one that is a hash")
	p.StringVar(&f.filter.Provider, "provider", "", "only this provider account")
	p.StringVar(&f.filter.Class, "class", "", "only this error class: "+strings.Join(letterClasses(), ", "))
	p.StringVar(&f.filter.Outcome, "outcome", "", "only this outcome: "+strings.Join(letterOutcomes(), ", "))
	p.StringVar(&f.filter.Code, "code", "", "only this error code of the provider")
	p.StringVar(&f.filter.Operation, "operation", "", "only this call of the provider")
	p.StringVar(&f.filter.Tenant, "tenant", "", "only this tenant")
	p.StringVar(&f.since, "since", "", "only what failed since then: an age such as 90m, 24h, 1d or 2w, or an RFC 3339 time")
	p.StringVar(&f.until, "until", "", "only what failed before then, in the same words")
	p.StringVar(&f.filter.Status, "status", "", strings.Join(letterStatuses(), ", ")+" (default open)")
}

// The words that a filter may ask for.

func letterStatuses() []string {
	return []string{dlq.StatusOpen, dlq.StatusClaimed, dlq.StatusResolved, dlq.StatusDiscarded}
}

func letterOutcomes() []string {
	return []string{string(proxy.Permanent), string(proxy.Exhausted), string(proxy.CircuitOpen), string(proxy.Review), string(proxy.Rejected)}
}

func letterClasses() []string {
	var all []string
	for _, class := range classify.Classes() {
		if class != classify.Success {
			all = append(all, class.String())
		}
	}
	return all
}

// check finds what makes no sense before anything is read.
func (f *dlqFlags) check() error {
	for _, flag := range []struct {
		name, value string
		known       []string
	}{
		{"output", f.output, []string{outputTable, outputJSON}},
		{"status", f.filter.Status, letterStatuses()},
		{"outcome", f.filter.Outcome, letterOutcomes()},
		{"class", f.filter.Class, letterClasses()},
	} {
		if flag.value != "" && !slices.Contains(flag.known, flag.value) {
			return fmt.Errorf("--%s %q is unknown: use %s", flag.name, flag.value, strings.Join(flag.known, ", "))
		}
	}
	if f.dir == "" && f.config == "" {
		return errors.New("say where the dead letters lie: --dir DIR or --config FILE")
	}
	return nil
}

// folder says where the dead letters lie.
func (f *dlqFlags) folder(cmd *cobra.Command) (string, error) {
	if err := f.check(); err != nil {
		return "", &usageError{cmd.CommandPath(), err}
	}
	if f.dir != "" {
		return f.dir, nil
	}
	c, err := config.LoadWithoutSecrets(f.config, f.environ)
	if err != nil {
		return "", err
	}
	return c.DeadLetters.Dir, nil
}

// open gives a reader for the folder and the filter that the flags describe.
func (f *dlqFlags) open(cmd *cobra.Command) (*dlq.Reader, dlq.Filter, error) {
	filter := f.filter
	dir, err := f.folder(cmd)
	if err != nil {
		return nil, filter, err
	}
	now := time.Now()
	if filter.Since, err = parseTime("since", f.since, now); err == nil {
		filter.Until, err = parseTime("until", f.until, now)
	}
	if err != nil {
		return nil, filter, &usageError{cmd.CommandPath(), err}
	}
	r, err := dlq.View(dir)
	return r, filter, err
}

// parseTime reads a flag's point in time, or an age before now; empty is the zero time.
func parseTime(flag, s string, now time.Time) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	if d, err := parseAge(s); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return time.Time{}, fmt.Errorf("--%s %q is neither an age such as 90m, 24h, 1d or 2w nor a time such as 2026-01-31T08:00:00Z", flag, s)
	}
	return t, nil
}

// parseAge reads a Go duration, or a whole number of days or weeks.
func parseAge(s string) (time.Duration, error) {
	const day, most = 24 * time.Hour, 10_000 // more would not fit into a duration
	for suffix, unit := range map[string]time.Duration{"d": day, "w": 7 * day} {
		if number, ok := strings.CutSuffix(s, suffix); ok {
			n, err := strconv.ParseUint(number, 10, 32)
			if err != nil || n > most {
				return 0, fmt.Errorf("%q is no number of days or weeks", number)
			}
			return time.Duration(n) * unit, nil
		}
	}
	return time.ParseDuration(s)
}
