package main

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/ocr-proxy/ocr-proxy/internal/dlq"
)

func dlqTopCommand(f *dlqFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Group dead letters by provider, outcome, class and code",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, filter, err := f.open(cmd)
			if err != nil {
				return err
			}
			groups, err := r.Top(filter)
			switch {
			case dlq.PassedOver(err):
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
			g := newGrid("LETTERS", "DOCUMENTS", "SEEN", "PROVIDER", "OUTCOME", "CLASS", "CODE", "OLDEST", "NEWEST")
			for _, like := range groups {
				g.add(strconv.Itoa(like.Letters), strconv.Itoa(like.Documents), strconv.Itoa(like.Occurrences), printable(like.Provider),
					printable(like.Outcome), printable(like.Class), short(like.Code, 40), when(like.Oldest), when(like.Newest))
			}
			g.fit(terminalWidth(cmd.OutOrStdout()), part("OLDEST", 5, 16), part("NEWEST", 5, 16), drop("OLDEST"), drop("SEEN"), squeeze("CODE", 16),
				squeeze("PROVIDER", 10), drop("DOCUMENTS"))
			return g.write(cmd.OutOrStdout())
		},
	}
	f.addFilters(cmd)
	return cmd
}
