package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// noArguments is for commands that take flags only. What comes without one is most often a file.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	for _, flag := range []string{"config", "kind"} {
		if f := cmd.Flags().Lookup(flag); f != nil && !f.Changed {
			return fmt.Errorf("%q has no flag before it (did you mean --%s %s?)", args[0], flag, args[0])
		}
	}
	return fmt.Errorf("%q is not expected: this command takes flags only", args[0])
}

// oneID is for commands about one letter.
func oneID(_ *cobra.Command, args []string) error {
	switch len(args) {
	case 0:
		return errors.New("say which letter: its id, or the first eight characters of it or more")
	case 1:
		return nil
	}
	return fmt.Errorf("%q is one id too many: one letter at a time", args[1])
}

// knownCommand is for commands that only hold others.
func knownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	cmd.SuggestionsMinimumDistance = 2 // letters that may differ; cobra's own default is not set for subcommands
	sentence := fmt.Sprintf("there is no command %q", args[0])
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		sentence += " (did you mean " + strings.Join(near, " or ") + "?)"
	}
	return errors.New(sentence)
}
