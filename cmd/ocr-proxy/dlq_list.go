package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ocr-proxy/ocr-proxy/internal/dlq"
)

func dlqListCommand(f *dlqFlags) *cobra.Command {
	var limit int
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List dead letters, the newest first",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 0 {
				return &usageError{cmd.CommandPath(), fmt.Errorf("--limit %d is no number of letters: use 1 or more, or 0 for all", limit)}
			}
			r, filter, err := f.open(cmd)
			if err != nil {
				return err
			}
			var to letterWriter = &letterTable{w: cmd.OutOrStdout(), width: terminalWidth(cmd.OutOrStdout())}
			if f.output == outputJSON {
				to = &letterArray{w: cmd.OutOrStdout()}
			}
			return listLetters(to, cmd.ErrOrStderr(), r, filter, limit)
		},
	}
	f.addFilters(cmd)
	cmd.Flags().StringVar(&f.filter.Before, "before", "", "only letters that are older than the one with this `ID`, to go on behind the last of a list")
	cmd.Flags().IntVar(&limit, "limit", 0, "at most so many letters (0: all)")
	return cmd
}

// letterWriter is one way of writing a list of letters.
type letterWriter interface {
	add(l dlq.Letter) error
	end() error
}

// listLetters writes the letters as they are read, so that a big store needs
// no memory. Unreadable files are named on warn and passed over. A limit of 0 is none.
func listLetters(to letterWriter, warn io.Writer, r *dlq.Reader, filter dlq.Filter, limit int) error {
	n := 0
	for l, err := range r.List(filter) {
		switch {
		case dlq.PassedOver(err):
			if err := warnUnreadable(warn, err); err != nil {
				return err
			}
		case err != nil:
			return err
		default:
			if err := to.add(l); err != nil {
				return err
			}
			if n++; n == limit {
				return to.end()
			}
		}
	}
	return to.end()
}

// warnUnreadable names the files that were passed over, one per line.
func warnUnreadable(w io.Writer, unreadable error) error {
	for line := range strings.Lines(unreadable.Error()) {
		if _, err := fmt.Fprintf(w, "passed over %s; run `ocr-proxy dlq verify`\n", printable(strings.TrimRight(line, "\n"))); err != nil {
			return err
		}
	}
	return nil
}

// letterArray writes one JSON array.
type letterArray struct {
	w io.Writer
	n int
}

func (a *letterArray) add(l dlq.Letter) error {
	data, err := marshalJSON(l, "  ")
	if err != nil {
		return err
	}
	before := ",\n  "
	if a.n == 0 {
		before = "[\n  "
	}
	a.n++
	_, err = io.WriteString(a.w, before+string(data))
	return err
}

func (a *letterArray) end() error {
	closing := "\n]\n"
	if a.n == 0 {
		closing = "[]\n"
	}
	_, err := io.WriteString(a.w, closing)
	return err
}

// letterTable writes columns. It writes a batch at a time: the columns of a
// batch line up, and a big store still needs no memory.
type letterTable struct {
	w     io.Writer
	width int // of the terminal; 0: as wide as it gets
	grid  *grid
	n     int
}

const tableBatch = 500

func (p *letterTable) add(l dlq.Letter) error {
	if p.n%tableBatch == 0 {
		if err := p.flush(); err != nil {
			return err
		}
		p.grid = newGrid("ID", "DOCUMENT", "OUTCOME", "CLASS", "CODE", "PROVIDER", "FAILED", "SEEN", "TRIES", "HTTP", "OPERATION")
	}
	p.n++
	p.grid.add(l.ID, documentOf(l.Envelope), printable(l.Outcome), printable(l.ErrorClass), short(l.ErrorCode, 40), printable(l.Provider),
		when(l.FailedAt), strconv.Itoa(l.Occurrences), strconv.Itoa(len(l.Attempts)), httpStatus(l.HTTPStatus), short(l.Operation, 40))
	return nil
}

// idLeast is how much of an id tells letters of one proxy apart: the time in it, and the place among those of the same moment.
const idLeast = 18

func (p *letterTable) flush() error {
	if p.grid == nil {
		return nil
	}
	p.grid.fit(p.width, drop("OPERATION"), drop("HTTP"), drop("TRIES"), cut("ID", idLeast), part("FAILED", 5, 16), squeeze("DOCUMENT", 16),
		squeeze("CODE", 16), drop("SEEN"), squeeze("DOCUMENT", 12), squeeze("PROVIDER", 10), drop("FAILED"),
		squeeze("CODE", 12), drop("CLASS"))
	return p.grid.write(p.w)
}

// documentOf is the worker's name for the document, or the beginning of the hash that stands for one.
func documentOf(e *dlq.Envelope) string {
	if dlq.IsHash(e.DocumentID) {
		return e.DocumentID[:dlq.ShortHash]
	}
	return short(e.DocumentID, 48)
}

func (p *letterTable) end() error {
	if p.n == 0 {
		_, err := io.WriteString(p.w, "no dead letters\n")
		return err
	}
	return p.flush()
}
