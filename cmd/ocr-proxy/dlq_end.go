package main

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/user"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ocr-proxy/ocr-proxy/internal/admin"
	"github.com/ocr-proxy/ocr-proxy/internal/admin/client"
	"github.com/ocr-proxy/ocr-proxy/internal/dlq"
)

func dlqResolveCommand(f *dlqFlags) *cobra.Command {
	e := ending{dlqFlags: f, verb: "resolve", done: dlq.StatusResolved, alone: (*dlq.Store).Resolve}
	return e.command("Say that an open letter's document was dealt with after all", false)
}

func dlqDiscardCommand(f *dlqFlags) *cobra.Command {
	e := ending{dlqFlags: f, verb: "discard", done: dlq.StatusDiscarded, alone: (*dlq.Store).Discard}
	return e.command("Give an open letter up; it stays, with its payload, until it is pruned", true)
}

// ending is a command that brings one letter to its end.
type ending struct {
	*dlqFlags

	verb, done string
	alone      func(s *dlq.Store, id string, r dlq.Resolution) (dlq.Letter, error)
	needsNote  bool
	decision   admin.Decision
}

func (e *ending) command(short string, needsNote bool) *cobra.Command {
	e.needsNote = needsNote
	note := "what was done, in a few words"
	if needsNote {
		note = "why, in a few words (needed)"
	}
	cmd := &cobra.Command{Use: e.verb + " ID", Short: short + "; the beginning of its id will do", Args: oneID, RunE: e.run}
	cmd.Flags().StringVar(&e.decision.Note, "note", "", note)
	cmd.Flags().StringVar(&e.decision.Label, "label", "", "a word to group by, or the truth about the document; dlq export puts it beside the payload")
	return cmd
}

func (e *ending) run(cmd *cobra.Command, args []string) error {
	err := dlq.CheckID(args[0])
	if err == nil && e.needsNote && strings.TrimSpace(e.decision.Note) == "" {
		err = errors.New("say why with --note")
	}
	if err != nil {
		return &usageError{cmd.CommandPath(), err}
	}
	e.decision.By = person()
	var letter dlq.Letter
	err = e.change(cmd, func(c *client.Client) error {
		return c.Do(cmd.Context(), http.MethodPost, "/api/v1/dead-letters/"+url.PathEscape(args[0])+"/"+e.verb, e.decision, &letter)
	}, func(s *dlq.Store) (err error) {
		letter, err = e.alone(s, args[0], dlq.Resolution{By: e.decision.By, Note: e.decision.Note, Label: e.decision.Label})
		return err
	})
	if err != nil {
		return err
	}
	if e.output == outputJSON {
		return printJSON(cmd.OutOrStdout(), letter)
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s %s: %s\n", e.done, letter.ID, documentOf(letter.Envelope))
	return err
}

// person is who runs this command.
func person() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username
	}
	return cmp.Or(os.Getenv("USER"), "user "+strconv.Itoa(os.Geteuid())) // in a container without a list of users
}
