package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ocr-proxy/ocr-proxy/internal/dlq"
)

// topFlags say how to group.
type topFlags struct {
	by     []string
	window string
}

func dlqTopCommand(f *dlqFlags) *cobra.Command {
	var top topFlags
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Group dead letters, and say what to do about each group",
		Long: "Group dead letters, the biggest group first, and say what to do about each group.\n\n" +
			"CHANGED counts the letters whose tries did not all fail in the same class: many of them mean that a rule may be wrong.\n" +
			"NEW are the codes that no open letter of the account had before --new-within.\n" +
			"With --config the running proxy is asked how many of the last hour's requests ended as dead letters.",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			options, err := top.options()
			if err != nil {
				return &usageError{cmd.CommandPath(), err}
			}
			r, filter, err := f.open(cmd)
			if err != nil {
				return err
			}
			groups, err := r.Top(filter, options)
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
			if err := printGroups(cmd.OutOrStdout(), groups, options, filter.Status == dlq.StatusResolved || filter.Status == dlq.StatusDiscarded, terminalWidth(cmd.OutOrStdout())); err != nil {
				return err
			}
			_, err = io.WriteString(cmd.OutOrStdout(), f.share(cmd))
			return err
		},
	}
	f.addFilters(cmd)
	cmd.Flags().StringSliceVar(&top.by, "by", []string{"provider", "outcome", "class", "code"}, "what the letters of a group have in common: "+dimensionNames())
	cmd.Flags().StringVar(&top.window, "new-within", "24h", "how long ago a code may have been seen first to be new: an age such as 90m, 24h, 1d or 2w")
	return cmd
}

func (t topFlags) options() (dlq.TopOptions, error) {
	by, err := dlq.ParseDimensions(t.by)
	if err != nil {
		return dlq.TopOptions{}, fmt.Errorf("--by: %w", err)
	}
	if len(by) == 0 {
		return dlq.TopOptions{}, errors.New("--by is empty: use " + dimensionNames())
	}
	window, err := parseAge(t.window)
	if err != nil || window <= 0 {
		return dlq.TopOptions{}, fmt.Errorf("--new-within %q is no age such as 90m, 24h, 1d or 2w", t.window)
	}
	return dlq.TopOptions{By: by, NewWithin: window}, nil
}

func dimensionNames() string {
	var names []string
	for _, d := range dlq.Dimensions() {
		names = append(names, string(d))
	}
	return strings.Join(names, ", ")
}

// cellOf shows one dimension of a group.
func cellOf(g dlq.Group, d dlq.Dimension) string {
	switch d {
	case dlq.ByProvider:
		return printable(g.Provider)
	case dlq.ByOutcome:
		return printable(g.Outcome)
	case dlq.ByClass:
		return printable(g.Class)
	case dlq.ByCode:
		return short(g.Code, 40)
	case dlq.ByOperation:
		return short(g.Operation, 40)
	case dlq.ByTenant:
		return short(g.Tenant, 40)
	case dlq.ByHour:
		return when(g.Hour)[:len("2006-01-02 15h")-1] + "h"
	}
	return ""
}

// printGroups writes the groups and, unless their letters are done with, what to do about them.
func printGroups(w io.Writer, groups []dlq.Group, o dlq.TopOptions, done bool, width int) error {
	if len(groups) == 0 {
		_, err := io.WriteString(w, "no dead letters\n")
		return err
	}
	heads := []string{"LETTERS", "DOCUMENTS", "SEEN"}
	for _, d := range o.By {
		heads = append(heads, strings.ToUpper(string(d)))
	}
	table := newGrid(append(heads, "CHANGED", "NEW", "OLDEST", "NEWEST")...)
	for _, g := range groups {
		cells := []string{strconv.Itoa(g.Letters), strconv.Itoa(g.Documents), strconv.Itoa(g.Occurrences)}
		for _, d := range o.By {
			cells = append(cells, cellOf(g, d))
		}
		table.add(append(cells, strconv.Itoa(g.ClassChanged), newCodes(g, o), when(g.Oldest), when(g.Newest))...)
	}
	ways := []narrowing{part("OLDEST", 5, 16), part("NEWEST", 5, 16), drop("OLDEST"), drop("SEEN")}
	if !slices.ContainsFunc(groups, func(g dlq.Group) bool { return g.ClassChanged > 0 }) {
		ways = append(ways, drop("CHANGED")) // It says nothing.
	}
	table.fit(width, append(ways, squeeze("CODE", 16), squeeze("OPERATION", 16), squeeze("PROVIDER", 10), drop("DOCUMENTS"), drop("NEWEST"), drop("CHANGED"),
		squeeze("TENANT", 10))...)
	if err := table.write(w); err != nil {
		return err
	}
	if done {
		return nil // There is nothing left to do.
	}
	_, err := io.WriteString(w, "\n"+actionsOf(groups))
	return err
}

// newCodes is a mark where the group is about one code, else the codes.
func newCodes(g dlq.Group, o dlq.TopOptions) string {
	switch {
	case len(g.NewCodes) == 0:
		return "-"
	case slices.Contains(o.By, dlq.ByCode):
		return "new"
	}
	return short(strings.Join(g.NewCodes, ", "), 40)
}

// actionsOf says what to do, each sentence once, for the most letters first.
func actionsOf(groups []dlq.Group) string {
	var order []string
	letters := map[string]int{}
	causes := map[string][]string{}
	for _, g := range groups {
		if letters[g.Action] == 0 {
			order = append(order, g.Action)
		}
		letters[g.Action] += g.Letters
		if cause := strings.Trim(g.Outcome+"/"+g.Class, "/"); cause != "" && !slices.Contains(causes[g.Action], cause) {
			causes[g.Action] = append(causes[g.Action], cause)
		}
	}
	slices.SortStableFunc(order, func(a, b string) int { return letters[b] - letters[a] })
	var b strings.Builder
	for _, action := range order {
		about := ""
		if len(causes[action]) > 0 {
			about = " (" + short(strings.Join(causes[action], ", "), 60) + ")"
		}
		fmt.Fprintf(&b, "%s%s: %s\n", lettersOf(letters[action]), about, action)
	}
	return b.String()
}
