package main

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/ocr-proxy/ocr-proxy/internal/dlq"
)

func dlqShowCommand(f *dlqFlags) *cobra.Command {
	var result bool
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show one dead letter, in whatever state; the beginning of its id will do",
		Args:  oneID,
		RunE: func(cmd *cobra.Command, args []string) error {
			r, _, err := f.open(cmd)
			if err != nil {
				return err
			}
			l, err := r.Find(args[0])
			if errors.Is(err, dlq.ErrInvalidID) {
				return &usageError{cmd.CommandPath(), err}
			}
			if err != nil {
				return err
			}
			switch {
			case result:
				return writeResult(cmd.OutOrStdout(), r, l.ID)
			case f.output == outputJSON:
				return printJSON(cmd.OutOrStdout(), l)
			}
			return printLetter(cmd.OutOrStdout(), r, l)
		},
	}
	cmd.Flags().BoolVar(&result, "result", false, "write what its replay brought back: the body of the provider's answer, byte for byte")
	return cmd
}

// writeResult writes the body of the answer that a replay brought.
func writeResult(w io.Writer, r *dlq.Reader, id string) error {
	body, err := resultBody(r, id)
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }()
	_, err = io.Copy(w, body)
	return err
}

// resultBody opens the body of the answer that a replay brought, without status line and headers.
func resultBody(r *dlq.Reader, id string) (io.ReadCloser, error) {
	kept, err := r.Result(id)
	if err != nil {
		return nil, err
	}
	answer, err := http.ReadResponse(bufio.NewReader(kept), nil) //nolint:bodyclose // It reads from kept, which the caller closes.
	if err != nil {
		return nil, errors.Join(fmt.Errorf("result of dead letter %s: %w", id, err), kept.Close())
	}
	return struct {
		io.Reader
		io.Closer
	}{answer.Body, kept}, nil
}

// printLetter writes what a person needs who decides about the letter.
func printLetter(w io.Writer, r *dlq.Reader, l dlq.Letter) error {
	if _, err := fmt.Fprintf(w, "%s\n\n", printable(l.Diagnostic)); err != nil {
		return err
	}
	t := newTable(w)
	t.row("id", l.ID)
	t.row("status", l.Status)
	t.row("outcome", printable(l.Outcome))
	t.row("error", errorLine(l.Envelope))
	t.row("provider", printable(l.Provider)+" ("+printable(l.Kind)+", "+printable(l.Operation)+")")
	t.row("document", printable(l.DocumentID))
	t.row("tenant", printable(l.Tenant))
	t.row("request", printable(strings.TrimSpace(l.Request.Method+" "+target(l.Request))))
	t.row("payload", payloadLine(r, l.Envelope))
	if len(l.Request.Credentials) > 0 {
		t.row("cut out", printable(strings.Join(l.Request.Credentials, ", ")))
	}
	if l.Job != nil {
		t.row("job", printable(l.Job.ID))
	}
	t.row("first attempt", when(l.FirstAttemptAt))
	t.row("failed", when(l.FailedAt))
	if l.RetryNotBefore != nil {
		t.row("retry not before", when(*l.RetryNotBefore))
	}
	t.row("occurrences", strconv.Itoa(l.Occurrences))
	if l.Ambiguous {
		t.row("ambiguous", "the provider may have done the work of the last attempt")
	}
	for _, p := range l.Replays {
		t.row("replayed", when(p.At)+" "+printable(p.Outcome)+" "+printable(p.ErrorClass)+" "+httpStatus(p.HTTPStatus))
	}
	if s := l.Resolution; s != nil {
		t.row(l.Status, resolutionLine(s))
	}
	if l.TraceID != "" {
		t.row("trace", printable(l.TraceID))
	}
	if err := t.flush(); err != nil {
		return err
	}
	return printAttempts(w, l.Provider, l.Attempts)
}

func resolutionLine(s *dlq.Resolution) string {
	line := when(s.At) + " by " + printable(s.By)
	if s.Label != "" {
		line += ", label " + printable(s.Label)
	}
	if s.Note != "" {
		line += ": " + printable(s.Note)
	}
	return line
}

func printAttempts(w io.Writer, account string, attempts []dlq.Attempt) error {
	if len(attempts) == 0 {
		_, err := io.WriteString(w, "\nno attempt was made\n")
		return err
	}
	if _, err := io.WriteString(w, "\n"); err != nil {
		return err
	}
	head := []string{"TRY", "STARTED", "WAITED", "FOR", "TOOK", "HTTP", "CLASS", "CODE", "REQUEST ID"}
	moved := slices.ContainsFunc(attempts, func(a dlq.Attempt) bool { return a.Account != "" })
	if moved {
		head = append(head, "ACCOUNT")
	}
	g := newGrid(head...)
	for _, a := range attempts {
		line := []string{
			strconv.Itoa(a.N), when(a.StartedAt), millis(a.WaitedMS), printable(a.WaitSource), millis(a.DurationMS),
			httpStatus(a.HTTPStatus), printable(a.ErrorClass), short(a.ErrorCode, 40), short(a.UpstreamRequestID, 48),
		}
		if moved {
			line = append(line, short(cmp.Or(a.Account, account), 24))
		}
		g.add(line...)
	}
	g.fit(terminalWidth(w), part("STARTED", 11, 20), squeeze("CODE", 20), drop("STARTED"), squeeze("CODE", 12), squeeze("REQUEST ID", 12))
	return g.write(w)
}

func errorLine(e *dlq.Envelope) string {
	line := printable(e.ErrorClass)
	if e.HTTPStatus != nil {
		line += ", HTTP " + strconv.Itoa(*e.HTTPStatus)
	}
	if e.ErrorCode != "" {
		line += ", " + printable(e.ErrorCode)
	}
	if e.ErrorMessage != "" {
		line += ": " + printable(e.ErrorMessage)
	}
	return line
}

func target(r dlq.Request) string {
	if r.Query == "" {
		return r.Path
	}
	return r.Path + "?" + r.Query
}

func payloadLine(r *dlq.Reader, e *dlq.Envelope) string {
	path, size, err := r.PayloadPath(e)
	switch {
	case err != nil:
		return "missing: " + printable(path)
	case path != "":
		return printable(path) + " (" + bytesOf(size) + ")"
	case e.RawPayloadRef != "":
		return printable(e.RawPayloadRef)
	}
	return "not kept (" + bytesOf(e.Request.BodyBytes) + " were received)"
}

func bytesOf(n int64) string { return humanize.IBytes(uint64(max(n, 0))) }

func millis(ms float64) string {
	return time.Duration(ms * float64(time.Millisecond)).Round(time.Millisecond).String()
}
