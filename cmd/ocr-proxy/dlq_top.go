package main

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/ocr-proxy/ocr-proxy/internal/dlq"
)

func dlqTopCommand(f *dlqFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Group dead letters by provider, outcome, class and code",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, filter, err := f.open(time.Now())
			if err != nil {
				return err
			}
			groups, err := r.Top(filter)
			switch {
			case errors.Is(err, dlq.ErrUnreadable):
				if err := warnUnreadable(cmd.ErrOrStderr(), err); err != nil {
					return err
				}
			case err != nil:
				return err
			}
			if f.output == outputJSON {
				return printJSON(cmd.OutOrStdout(), groups)
			}
			if len(groups) == 0 {
				_, err := fmt.Fprintln(cmd.OutOrStdout(), "no dead letters")
				return err
			}
			t := newTable(cmd.OutOrStdout(), "LETTERS", "DOCUMENTS", "SEEN", "PROVIDER", "OUTCOME", "CLASS", "CODE", "OLDEST", "NEWEST")
			for _, g := range groups {
				t.row(strconv.Itoa(g.Letters), strconv.Itoa(g.Documents), strconv.Itoa(g.Occurrences), printable(g.Provider), printable(g.Outcome),
					printable(g.Class), short(g.Code, 40), when(g.Oldest), when(g.Newest))
			}
			return t.flush()
		},
	}
	f.addFilters(cmd)
	return cmd
}
