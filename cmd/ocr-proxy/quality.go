package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/ocr-proxy/ocr-proxy/config"
	"github.com/ocr-proxy/ocr-proxy/internal/quality"
)

// openQuality reads what earlier runs have kept. That it cannot be read costs its history and nothing else.
func openQuality(dir string, log *zap.Logger) *quality.Summary {
	s, err := quality.Open(dir)
	if err != nil {
		log.Warn("the summary of the answers' quality cannot be read; it begins anew, and the old file is kept with .unread behind its name", zap.Error(err))
	}
	return s
}

// keepFigures adds what the answers come to.
func keepFigures(s *quality.Summary) func(account, operation, kind, field string, figure float64) {
	return func(account, operation, kind, field string, figure float64) {
		s.Add(quality.Series{Account: account, Operation: operation, Type: kind, Field: field}, figure)
	}
}

func (s *server) qualityNotKept(err error) {
	s.log.Warn("the summary of the answers' quality cannot be written; it is tried again every minute", zap.Error(err))
}

// qualityFlags say what is shown.
type qualityFlags struct {
	config, dir, output                  string
	account, operation, documents, field string
	days, last                           int
	dropped                              bool
}

func qualityCommand(environ []string) *cobra.Command {
	var f qualityFlags
	cmd := &cobra.Command{
		Use:   "quality --config FILE",
		Short: "Show how sure the providers were of what they read, day by day, and mark drops",
		Long: "Show how sure the providers were of what they read over the last days: for each account and operation the figure of the answers'\n" +
			"words (review.aggregate), and for the fields that review.fields and review.required name their own scores, from 0 to 1.\n\n" +
			"DROP marks what was lower in the last days than before: by 0.02 or more, and by more than chance explains. It needs 30 answers in\n" +
			"the last days and 100 before. The figures lie beside the dead letters, are written every minute, and are kept for 35 days.",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return &usageError{cmd.CommandPath(), err}
			}
			dir, err := f.folder(environ)
			if err != nil {
				return err
			}
			s, err := quality.Load(dir)
			if err != nil {
				return err
			}
			return f.print(cmd.OutOrStdout(), s, time.Now(), terminalWidth(cmd.OutOrStdout()))
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.config, "config", "", "configuration file, which names the folder of the dead letters")
	flags.StringVar(&f.dir, "dir", "", "that folder, instead of --config")
	flags.IntVar(&f.days, "days", 14, "how many days are shown, today among them, 2 to 35")
	flags.IntVar(&f.last, "last", 3, "how many of them are held against those before")
	flags.StringVar(&f.account, "account", "", "only this account")
	flags.StringVar(&f.operation, "operation", "", "only this operation")
	flags.StringVar(&f.documents, "type", "", "only fields of this type of document")
	flags.StringVar(&f.field, "field", "", "only this field")
	flags.BoolVar(&f.dropped, "dropped", false, "only what has dropped")
	flags.StringVarP(&f.output, "output", "o", outputTable, "table or json")
	return cmd
}

func (f *qualityFlags) check() error {
	switch {
	case (f.config == "") == (f.dir == ""):
		return errors.New("give either --config or --dir")
	case f.days < 2 || f.days > 35:
		return fmt.Errorf("--days %d is not from 2 to 35", f.days)
	case f.last < 1 || f.last >= f.days:
		return fmt.Errorf("--last %d is not from 1 to %d, one less than --days", f.last, f.days-1)
	case f.output != outputTable && f.output != outputJSON:
		return fmt.Errorf("--output %q is neither table nor json", f.output)
	}
	return nil
}

// folder is that of the dead letters, which must be there: a name that is wrong must not look like a day without answers.
func (f *qualityFlags) folder(environ []string) (string, error) {
	dir := f.dir
	if dir == "" {
		cfg, err := config.Load(f.config, environ)
		if err != nil {
			return "", err
		}
		dir = cfg.DeadLetters.Dir
	}
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("the folder %s is not there; start the proxy once, or name another one", dir)
	case err != nil:
		return "", err
	case !info.IsDir():
		return "", fmt.Errorf("%s is no folder", dir)
	}
	return dir, nil
}

// shown is one series with its comparison, as JSON gives it.
type shown struct {
	quality.Series
	Now    *summed     `json:"now"`    // null: no answers
	Before *summed     `json:"before"` // null: as above
	Drop   bool        `json:"drop"`
	Days   []summedDay `json:"days"`
}

type summed struct {
	Count int     `json:"count"`
	Mean  float64 `json:"mean"`
	P10   float64 `json:"p10"`
}

type summedDay struct {
	Day string `json:"day"`
	summed
}

func sumUp(f quality.Figures) *summed {
	if f.N == 0 {
		return nil
	}
	return &summed{f.N, f.Mean(), f.P10()}
}

// series gives what the flags ask for.
func (f *qualityFlags) series(s *quality.Summary, now time.Time) []shown {
	wanted := func(asked, is string) bool { return asked == "" || strings.EqualFold(asked, is) }
	list := []shown{}
	for _, t := range s.Trends(f.days, now) {
		if !wanted(f.account, t.Account) || !wanted(f.operation, t.Operation) || !wanted(f.documents, t.Type) || !wanted(f.field, t.Field) {
			continue
		}
		c := t.Compare(f.last, now)
		if f.dropped && !c.Drop {
			continue
		}
		one := shown{Series: t.Series, Now: sumUp(c.Now), Before: sumUp(c.Before), Drop: c.Drop, Days: []summedDay{}}
		for _, d := range t.Days {
			one.Days = append(one.Days, summedDay{d.Day, *sumUp(d.Figures)})
		}
		list = append(list, one)
	}
	return list
}

func (f *qualityFlags) print(w io.Writer, s *quality.Summary, now time.Time, width int) error {
	list := f.series(s, now)
	if f.output == outputJSON {
		return printJSON(w, list)
	}
	if len(list) == 0 {
		nothing := "no answers with a confidence in the last " + strconv.Itoa(f.days) + " days; see review.threshold and review.fields, and whether the provider gives any\n"
		if f.dropped {
			nothing = "nothing has dropped\n"
		}
		_, err := io.WriteString(w, nothing)
		return err
	}
	table := newGrid("ACCOUNT", "OPERATION", "TYPE", "FIELD", "ANSWERS", "MEAN", "P10", "BEFORE", "MEAN BEFORE", "P10 BEFORE", "DROP", "BY DAY")
	for _, one := range list {
		fell := "-"
		if one.Drop {
			fell = "DROP " + strconv.FormatFloat(one.Now.Mean-one.Before.Mean, 'f', 2, 64)
		}
		cells := []string{printable(one.Account), printable(one.Operation), printable(one.Type), printable(one.Field)}
		for _, part := range []*summed{one.Now, one.Before} {
			cells = append(cells, part.cells()...)
		}
		table.add(append(cells, fell, one.line(f.days, now))...)
	}
	table.fit(width, drop("P10 BEFORE"), drop("BEFORE"), drop("P10"), drop("BY DAY"))
	if err := table.write(w); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\nThe last %d days against the %d before. BY DAY: the mean of each day in tenths, from %s to today.\n",
		f.last, f.days-f.last, now.UTC().AddDate(0, 0, 1-f.days).Format(time.DateOnly))
	return err
}

func (s *summed) cells() []string {
	if s == nil {
		return []string{"-", "-", "-"}
	}
	figure := func(v float64) string { return strconv.FormatFloat(v, 'f', 3, 64) }
	return []string{strconv.Itoa(s.Count), figure(s.Mean), figure(s.P10)}
}

// line is a digit a day: the tenths of its mean, rounded down, and a dot for a day without answers.
func (s *shown) line(days int, now time.Time) string {
	means := map[string]float64{}
	for _, d := range s.Days {
		means[d.Day] = d.Mean
	}
	var b strings.Builder
	for n := days - 1; n >= 0; n-- {
		mean, ok := means[now.UTC().AddDate(0, 0, -n).Format(time.DateOnly)]
		if !ok {
			b.WriteByte('.')
			continue
		}
		b.WriteByte("0123456789"[min(9, int(mean*10))])
	}
	return b.String()
}
