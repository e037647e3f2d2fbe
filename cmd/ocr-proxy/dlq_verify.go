package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ocr-proxy/ocr-proxy/internal/dlq"
)

func dlqVerifyCommand(f *dlqFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "verify",
		Short: "Read every dead letter and payload and say what is wrong",
		Long: "Read every dead letter and payload and say what is wrong, which also makes the exit code 1.\n" +
			"Letters that cannot be read are moved to quarantine. Nothing is ever deleted.",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := f.folder(cmd)
			if err != nil {
				return err
			}
			report, err := dlq.Verify(dir)
			if err != nil {
				return err
			}
			if f.output == outputJSON {
				err = printJSON(cmd.OutOrStdout(), report)
			} else {
				err = printReport(cmd.OutOrStdout(), report)
			}
			if err == nil && !report.OK() {
				err = fmt.Errorf("%d unreadable letters and %d letters with a broken payload in %s: see the list above",
					len(report.Quarantined), len(report.Broken), dir)
			}
			return err
		},
	}
}

func printReport(w io.Writer, r dlq.Report) error {
	var b strings.Builder
	fmt.Fprintf(&b, "letters: %d open, %d claimed, %d resolved, %d discarded; %d whole payloads\n",
		r.Letters[dlq.StatusOpen], r.Letters[dlq.StatusClaimed], r.Letters[dlq.StatusResolved], r.Letters[dlq.StatusDiscarded], r.Payloads)
	for _, q := range r.Quarantined {
		fmt.Fprintf(&b, "moved to %s: %s\n", printable(q.Path), printable(q.Problem))
	}
	for _, u := range r.Unread {
		fmt.Fprintf(&b, "not read, left where it is: %s: %s\n", printable(u.Path), printable(u.Problem))
	}
	for _, p := range r.Broken {
		fmt.Fprintf(&b, "broken: %s: %s\n", printable(p.Path), printable(p.Problem))
	}
	for _, o := range r.Orphans {
		fmt.Fprintf(&b, "orphan: %s: no readable letter leads to it\n", printable(o))
	}
	if r.Unfinished > 0 {
		fmt.Fprintf(&b, "unfinished writes: %d, removed by the next start of the proxy\n", r.Unfinished)
	}
	if r.InQuarantine > 0 {
		fmt.Fprintf(&b, "in quarantine: %d\n", r.InQuarantine)
	}
	if r.OK() {
		b.WriteString("nothing is wrong\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}
