package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/ocr-proxy/ocr-proxy/config"
	"github.com/ocr-proxy/ocr-proxy/internal/dlq"
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
	filter dlq.Filter
}

// dlqCommand is `ocr-proxy dlq` with the commands that look at dead letters.
func dlqCommand() *cobra.Command {
	f := &dlqFlags{}
	cmd := &cobra.Command{
		Use:   "dlq",
		Short: "Look at dead letters: the documents that could not be processed",
		Long: "Look at dead letters: the documents that could not be processed.\n\n" +
			"Say where they lie with --config (its dead_letters.dir) or --dir, which wins.\n" +
			"These commands work beside a running proxy.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	p := cmd.PersistentFlags()
	p.StringVar(&f.config, "config", "", "the proxy's configuration `FILE`")
	p.StringVar(&f.dir, "dir", "", "the dead-letter folder `DIR` (wins over --config)")
	p.StringVar(&f.output, "output", outputTable, "table or json")
	cmd.AddCommand(dlqListCommand(f), dlqShowCommand(f), dlqTopCommand(f), dlqVerifyCommand(f))
	return cmd
}

// addFilters gives a command the flags that select letters.
func (f *dlqFlags) addFilters(cmd *cobra.Command) {
	p := cmd.Flags()
	p.StringVar(&f.filter.Provider, "provider", "", "only this provider account")
	p.StringVar(&f.filter.Class, "class", "", "only this error class, for example throttle")
	p.StringVar(&f.filter.Outcome, "outcome", "", "only this outcome, for example exhausted")
	p.StringVar(&f.filter.Code, "code", "", "only this error code of the provider")
	p.StringVar(&f.filter.Tenant, "tenant", "", "only this tenant")
	p.StringVar(&f.since, "since", "", "only what failed since then: a duration such as 24h, or an RFC 3339 time")
	p.StringVar(&f.filter.Status, "status", "", "open, claimed, resolved or discarded (default open)")
}

// folder says where the dead letters lie.
func (f *dlqFlags) folder() (string, error) {
	switch f.output {
	case outputTable, outputJSON:
	default:
		return "", fmt.Errorf("--output %q is unknown: use table or json", f.output)
	}
	switch {
	case f.dir != "":
		return f.dir, nil
	case f.config == "":
		return "", errors.New("say where the dead letters lie: --dir DIR or --config FILE")
	}
	c, err := config.Load(f.config, os.Environ())
	if err != nil {
		return "", err
	}
	return c.DeadLetters.Dir, nil
}

// open gives a reader for the folder and the filter that the flags describe.
func (f *dlqFlags) open(now time.Time) (*dlq.Reader, dlq.Filter, error) {
	dir, err := f.folder()
	if err != nil {
		return nil, f.filter, err
	}
	filter := f.filter
	if filter.Since, err = parseSince(f.since, now); err != nil {
		return nil, filter, err
	}
	r, err := dlq.View(dir)
	return r, filter, err
}

// parseSince reads a point in time, or an age before now; empty is the zero time.
func parseSince(s string, now time.Time) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(s); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return time.Time{}, fmt.Errorf("--since %q is neither a duration such as 24h nor a time such as 2026-01-31T08:00:00Z", s)
	}
	return t, nil
}
