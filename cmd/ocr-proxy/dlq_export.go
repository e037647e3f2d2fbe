package main

import (
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ocr-proxy/ocr-proxy/internal/dlq"
	"github.com/ocr-proxy/ocr-proxy/internal/provider"
	"github.com/ocr-proxy/ocr-proxy/internal/testset"
)

func dlqExportCommand(f *dlqFlags) *cobra.Command {
	var to string
	cmd := &cobra.Command{
		Use:   "export --to DIR [ID...]",
		Short: "Write letters and their documents as a test set, for people who train, tune or measure models",
		Long: "Write the letters with these ids, or those that the filters select, as a test set: a folder for each letter with its document, and\n" +
			"metadata.jsonl with a line for each document (file_name, label, …), as Hugging Face's datasets load it. DIR must be new or empty.\n" +
			"No credential is written: a request's body that carries one stays behind. Letters that cannot be exported are named, and make the\n" +
			"exit code 1.",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return noFilters(cmd)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, id := range args {
				if err := dlq.CheckID(id); err != nil {
					return &usageError{cmd.CommandPath(), err}
				}
			}
			if to == "" {
				return &usageError{cmd.CommandPath(), errors.New("say where to with --to DIR")}
			}
			r, filter, err := f.open(cmd)
			if err != nil {
				return err
			}
			letters := r.List(filter)
			if len(args) > 0 {
				letters = find(r, args)
			}
			return (&export{to: to, reader: r, Failed: []exportFailure{}}).run(cmd, letters, f.output)
		},
	}
	f.addFilters(cmd)
	cmd.Flags().StringVar(&to, "to", "", "the new folder `DIR` (needed)")
	return cmd
}

// noFilters refuses flags that select letters.
func noFilters(cmd *cobra.Command) (err error) {
	cmd.LocalNonPersistentFlags().VisitAll(func(flag *pflag.Flag) {
		if flag.Changed && flag.Name != "to" {
			err = fmt.Errorf("give ids or --%s, not both", flag.Name)
		}
	})
	return err
}

// find gives the letters with these ids.
func find(r *dlq.Reader, ids []string) iter.Seq2[dlq.Letter, error] {
	return func(yield func(dlq.Letter, error) bool) {
		for _, id := range ids {
			if !yield(r.Find(id)) {
				return
			}
		}
	}
}

// export is one run of the command, and what it says in the end.
type export struct {
	to     string
	reader *dlq.Reader
	set    *testset.Writer

	Exported int             `json:"exported"`
	Failed   []exportFailure `json:"failed"`
}

type exportFailure struct {
	ID      string `json:"id"` // empty where the problem names it
	Problem string `json:"problem"`
}

func (x *export) run(cmd *cobra.Command, letters iter.Seq2[dlq.Letter, error], output string) (err error) {
	for letter, problem := range letters {
		if err = cmd.Context().Err(); err == nil && problem == nil {
			problem, err = x.add(letter)
		}
		if err != nil {
			break
		}
		if problem == nil {
			x.Exported++
			continue
		}
		failed := exportFailure{Problem: problem.Error()}
		if letter.Envelope != nil {
			failed.ID = letter.ID
		}
		x.Failed = append(x.Failed, failed)
	}
	if x.set != nil {
		err = errors.Join(err, x.set.Close())
	}
	if err != nil {
		return err
	}
	if output == outputJSON {
		err = printJSON(cmd.OutOrStdout(), x)
	} else {
		err = x.print(cmd.OutOrStdout(), cmd.ErrOrStderr())
	}
	if err == nil && len(x.Failed) > 0 {
		err = fmt.Errorf("%d of %d letters could not be exported: see above", len(x.Failed), len(x.Failed)+x.Exported)
	}
	return err
}

// add writes one letter. A problem is that of the letter, an error that of the set.
func (x *export) add(l dlq.Letter) (problem, err error) {
	if x.set == nil {
		if x.set, err = testset.Create(x.to); err != nil {
			return nil, fmt.Errorf("--to: %w", err)
		}
	}
	item := testset.Item{
		Letter:  l,
		Payload: func() (io.ReadCloser, error) { return x.reader.Payload(l.Envelope) },
		Result:  func() (io.ReadCloser, error) { return resultBody(x.reader, l.ID) },
	}
	if kind, err := provider.Find(l.Kind); err == nil { // else from a newer version: its payloads are taken as they are
		item.Layout = kind.Layout
	}
	return x.set.Add(item), nil
}

func (x *export) print(out, warn io.Writer) error {
	for _, f := range x.Failed {
		if _, err := fmt.Fprintf(warn, "not exported: %s: %s\n", printable(f.ID), printable(f.Problem)); err != nil {
			return err
		}
	}
	if x.Exported == 0 {
		_, err := io.WriteString(out, "no dead letters\n")
		return err
	}
	_, err := fmt.Fprintf(out, "exported %s to %s\n", lettersOf(x.Exported), printable(x.to))
	return err
}
