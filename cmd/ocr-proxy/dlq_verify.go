package main

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ocr-proxy/ocr-proxy/internal/dlq"
)

func dlqVerifyCommand(f *dlqFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "verify",
		Short: "Read every dead letter and payload and say what is wrong",
		Long: "Read every dead letter and payload and say what is wrong, which also makes the exit code 1.\n" +
			"Files that make no sense are moved to the folder quarantine, and it is said from where to where each goes, on standard error where the\n" +
			"report is JSON. Files that cannot be read now stay. Nothing is ever deleted.",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := f.folder(cmd)
			if err != nil {
				return err
			}
			say, show := cmd.OutOrStdout(), printReport
			if f.output == outputJSON {
				say, show = cmd.ErrOrStderr(), func(w io.Writer, r dlq.Report) error { return printJSON(w, r) }
			}
			report, err := dlq.Verify(dir, func(m dlq.Move) { sayMoved(say, dir, m) })
			if err != nil {
				return err
			}
			if err = show(cmd.OutOrStdout(), report); err == nil && !report.OK() {
				err = fmt.Errorf("not all is well in %s (moved to quarantine: %d, not readable now: %d, broken payloads: %d): see the list above",
					dir, len(report.Quarantined), len(report.Unread), len(report.Broken))
			}
			return err
		},
	}
}

// sayMoved tells from where to where a file went. An output that is closed stops nothing: the report has it too.
func sayMoved(w io.Writer, dir string, m dlq.Move) {
	at := func(name string) string { return printable(filepath.Join(dir, filepath.FromSlash(name))) }
	_, _ = fmt.Fprintf(w, "moved %s to %s: %s\n", at(m.From), at(m.Path), printable(m.Problem))
}

// printReport writes what there is to say beside the files that were moved, each of which was told when it went.
func printReport(w io.Writer, r dlq.Report) error {
	var b strings.Builder
	fmt.Fprintf(&b, "letters: %d open, %d claimed, %d resolved, %d discarded; %d whole payloads\n",
		r.Letters[dlq.StatusOpen], r.Letters[dlq.StatusClaimed], r.Letters[dlq.StatusResolved], r.Letters[dlq.StatusDiscarded], r.Payloads)
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
		fmt.Fprintf(&b, "in quarantine: %d. Nothing reads or deletes them there. To have one back, mend it and move it to the folder it came from, under its old name\n", r.InQuarantine)
	}
	if r.OK() {
		b.WriteString("nothing is wrong\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}
