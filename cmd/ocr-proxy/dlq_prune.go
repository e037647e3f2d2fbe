package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ocr-proxy/ocr-proxy/config"
	"github.com/ocr-proxy/ocr-proxy/internal/admin"
	"github.com/ocr-proxy/ocr-proxy/internal/admin/client"
	"github.com/ocr-proxy/ocr-proxy/internal/dlq"
)

func dlqPruneCommand(f *dlqFlags) *cobra.Command {
	var (
		olderThan string
		dryRun    bool
	)
	cmd := &cobra.Command{
		Use:   "prune",
		Short: "Remove resolved and discarded letters that are old, and what no letter needs any more",
		Long: "Remove resolved and discarded letters that are older than dead_letters.retention, where 0s keeps them, and payloads and results\n" +
			"that no letter leads to any more. Open letters and the quarantine are never touched.",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			age, err := parseOlderThan(olderThan)
			if err != nil {
				return &usageError{cmd.CommandPath(), err}
			}
			order := admin.Prune{DryRun: dryRun}
			if age > 0 {
				order.OlderThan = age.String()
			} else if age, err = f.retention(); err != nil {
				return err
			}
			var report dlq.PruneReport
			err = f.change(cmd, func(c *client.Client) error {
				return c.Do(cmd.Context(), http.MethodPost, "/api/v1/dead-letters/prune", order, &report)
			}, func(s *dlq.Store) (err error) {
				report, err = s.Prune(cmd.Context(), dlq.PruneOptions{OlderThan: age, DryRun: dryRun})
				return err
			})
			if err != nil {
				return err
			}
			if f.output == outputJSON {
				err = printJSON(cmd.OutOrStdout(), report)
			} else {
				err = printPruned(cmd.OutOrStdout(), report, age > 0)
			}
			if err == nil && report.Failed > 0 {
				err = fmt.Errorf("%d files could not be removed: the log names them", report.Failed)
			}
			return err
		},
	}
	cmd.Flags().StringVar(&olderThan, "older-than", "", "remove letters from this age on, such as 36h, 30d or 2w, whatever the configuration says")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "say what would go and remove nothing")
	return cmd
}

// parseOlderThan reads an age above zero; 0 for an empty text.
func parseOlderThan(s string) (time.Duration, error) {
	if s == "" {
		return 0, nil
	}
	age, err := parseAge(s)
	if err != nil || age <= 0 {
		return 0, fmt.Errorf("--older-than %q is no age above zero, such as 36h, 30d or 2w", s)
	}
	return age, nil
}

// retention is what the configuration says; 0 without one.
func (f *dlqFlags) retention() (time.Duration, error) {
	if f.config == "" {
		return 0, nil
	}
	c, err := config.LoadWithoutSecrets(f.config, f.environ)
	if err != nil {
		return 0, err
	}
	return c.DeadLetters.Retention, nil
}

func printPruned(w io.Writer, r dlq.PruneReport, letters bool) error {
	var b strings.Builder
	done := "removed"
	if r.DryRun {
		done = "would remove"
	}
	fmt.Fprintf(&b, "%s %d letters, %d payloads and %d results: %s\n", done, r.Letters, r.Payloads, r.Results, bytesOf(r.Bytes))
	if !letters {
		b.WriteString("resolved and discarded letters are kept: dead_letters.retention is not set; --older-than 30d would take the older ones\n")
	}
	if r.Unclear > 0 {
		fmt.Fprintf(&b, "all payloads are kept: %d unreadable letters do not tell which is theirs; mend them or move them out of quarantine\n", r.Unclear)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
