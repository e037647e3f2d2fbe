package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/ocr-proxy/ocr-proxy/internal/dlq"
)

// replayFlags are the flags of `dlq replay` beside those of all commands about letters.
type replayFlags struct {
	*dlqFlags
	admin     string
	rate      float64
	max       int
	parallel  int
	dryRun    bool
	ambiguous bool
}

// maxParallel is how many letters the command has the proxy replay at one time, at most.
const maxParallel = 128

func dlqReplayCommand(shared *dlqFlags) *cobra.Command {
	f := &replayFlags{dlqFlags: shared}
	cmd := &cobra.Command{
		Use:   "replay [ID...]",
		Short: "Have the running proxy send dead letters again",
		Long: "Has the running proxy send dead letters again: those that are named, else every open one that the filters select, the oldest first.\n" +
			"The proxy sends them as it sends everything: with its credentials and addresses of today, past its circuit breaker and its queues. A letter that\n" +
			"succeeds is resolved, its answer kept under results/; one that fails again stays open with a longer history. Each is sent once in a run.\n" +
			"The command waits while a circuit is open and for the time that a letter is not to be sent before, and says so. It can be stopped and run again at\n" +
			"any time, also twice at once.\n\n" +
			"Exit 0 when nothing failed, also when there was nothing to do; 1 when a letter failed or was refused, or remains open because the run was stopped.",
		RunE: func(cmd *cobra.Command, ids []string) error { return f.run(cmd, ids) },
	}
	f.addFilters(cmd)
	p := cmd.Flags()
	p.StringVar(&f.admin, "admin", "", "`HOST:PORT` of the proxy's admin listener (default: admin.listen of the configuration)")
	p.Float64Var(&f.rate, "rate", 0, "letters per second; 0: as fast as the proxy allows")
	p.IntVar(&f.max, "max", 0, "send no more than this many letters; 0: all")
	p.IntVar(&f.parallel, "parallel", 16, "letters under way at one time, 1 to 128")
	p.BoolVar(&f.dryRun, "dry-run", false, "send nothing, say what it would cost")
	p.BoolVar(&f.ambiguous, "include-ambiguous", false, "also letters whose call may have been done and is not safe to repeat (\"ambiguous\" in docs/dead-letters.md)")
	return cmd
}

func (f *replayFlags) run(cmd *cobra.Command, ids []string) error {
	if err := f.checkReplay(cmd, ids); err != nil {
		return &usageError{cmd.CommandPath(), err}
	}
	letters, err := f.selected(cmd, ids)
	if err != nil {
		return err
	}
	client, err := f.client()
	if err != nil {
		return err
	}
	defer client.Close()
	if f.dryRun {
		return f.estimate(cmd, client, letters)
	}
	run := &replayRun{client: client, rate: f.rate, parallel: f.parallel, ambiguous: f.ambiguous, show: newReplayDisplay(cmd.ErrOrStderr(), len(letters))}
	run.all(cmd.Context(), letters)
	run.show.end()
	if err := run.tally.write(cmd, f.output); err != nil {
		return err
	}
	return run.verdict(cmd.Context())
}

// checkReplay finds what makes no sense before anything is read.
func (f *replayFlags) checkReplay(cmd *cobra.Command, ids []string) error {
	filtered := slices.ContainsFunc([]string{"document", "provider", "class", "outcome", "code", "tenant", "since"}, cmd.Flags().Changed)
	switch {
	case f.filter.Status != "" && f.filter.Status != dlq.StatusOpen:
		return fmt.Errorf("--status %s: only open letters can be replayed", f.filter.Status)
	case len(ids) > 0 && filtered:
		return errors.New("give ids or filters, not both")
	case f.config == "" && f.admin == "":
		return errors.New("say where the running proxy is: --config FILE or --admin HOST:PORT")
	case f.rate < 0 || f.max < 0:
		return errors.New("--rate and --max must be 0 or more")
	case f.parallel < 1 || f.parallel > maxParallel:
		return fmt.Errorf("--parallel must be 1 to %d", maxParallel)
	}
	return nil
}

// selectedLetter is what the run has to know of a letter.
type selectedLetter struct{ id, provider string }

// selected are the letters to send, oldest first. What they were selected for may have happened by the time they come to their turn.
func (f *replayFlags) selected(cmd *cobra.Command, ids []string) ([]selectedLetter, error) {
	r, filter, err := f.open(cmd)
	if err != nil {
		return nil, err
	}
	var letters []selectedLetter
	for _, id := range ids {
		l, err := r.Find(id)
		switch {
		case errors.Is(err, dlq.ErrInvalidID):
			return nil, &usageError{cmd.CommandPath(), err}
		case err != nil:
			return nil, err
		case l.Status == dlq.StatusDiscarded:
			return nil, fmt.Errorf("dead letter %s was discarded: move its file from discarded to open if it is to be sent", l.ID)
		case l.Status == dlq.StatusResolved:
			if _, err := fmt.Fprintf(cmd.ErrOrStderr(), "%s is resolved already\n", l.ID); err != nil {
				return nil, err
			}
			continue
		}
		letters = append(letters, selectedLetter{l.ID, l.Provider})
	}
	if len(ids) == 0 {
		for l, err := range r.List(filter) {
			switch {
			case errors.Is(err, dlq.ErrUnreadable):
				if err := warnUnreadable(cmd.ErrOrStderr(), err); err != nil {
					return nil, err
				}
			case err != nil:
				return nil, err
			default:
				letters = append(letters, selectedLetter{l.ID, l.Provider})
			}
		}
		slices.Reverse(letters)
	}
	if f.max > 0 && len(letters) > f.max {
		letters = letters[:f.max]
	}
	return letters, nil
}
