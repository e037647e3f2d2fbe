package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/ocr-proxy/ocr-proxy/config"
	"github.com/ocr-proxy/ocr-proxy/internal/demo"
	"github.com/ocr-proxy/ocr-proxy/internal/dlq"
)

const defaultDocuments = 40

func demoCommand() *cobra.Command {
	var (
		o     demo.Options
		keep  bool
		pages string
	)
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Tell the whole story on this machine, without an account",
		Long: "Sends a batch of drawn pages through the real proxy to simulated providers, of which one throttles and one goes down\n" +
			"for a while. At the end the numbers of workers, proxy, dead-letter folder and providers are compared: exit 0 when they\n" +
			"add up, 1 when one does not. It needs no account, no configuration and no network but 127.0.0.1, and takes about\n" +
			"twenty seconds. Configuration, log and dead letters stay in a temporary folder for you to look at.",
		Example: "  ocr-proxy demo\n  ocr-proxy demo --seed 7 --documents 80\n  ocr-proxy demo --keep=false",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if pages != "" {
				return drawPages(cmd.OutOrStdout(), pages, o.Seed, o.Documents)
			}
			if err := o.Check(); err != nil {
				return &usageError{cmd.CommandPath(), err}
			}
			o.Discard = !keep
			o.Out = cmd.OutOrStdout()
			o.Terminal = isTerminal(o.Out)
			o.Program = startedAs()
			o.Show = showLetter
			o.Serve = serveDemo
			return demo.Run(cmd.Context(), o)
		},
	}
	flags := cmd.Flags()
	flags.Uint64Var(&o.Seed, "seed", 1, "seed of the pages and of the providers' luck")
	flags.IntVar(&o.Documents, "documents", defaultDocuments, fmt.Sprintf("pages in the batch, %d to %d", demo.MinDocuments, demo.MaxDocuments))
	flags.BoolVar(&keep, "keep", true, "keep the folder with configuration, log and dead letters")
	flags.Float64Var(&o.Pace, "pace", 1, "length of the spells as a share of the usual")
	flags.StringVar(&pages, "pages", "", "only draw the pages into this folder")
	_ = flags.MarkHidden("pace") // fails only for a flag that does not exist
	_ = flags.MarkHidden("pages")
	return cmd
}

// serveDemo runs a proxy as serve does. The environment's settings are left out: they are meant for the user's own proxy.
func serveDemo(ctx context.Context, configPath, logPath string) error {
	cfg, err := config.Load(configPath, nil)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(logPath, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600) //nolint:gosec // the demo names the file
	if err != nil {
		return fmt.Errorf("open the log: %w", err)
	}
	defer func() { _ = file.Close() }()
	log, _, flush, err := newLogger(cfg.Log, file)
	if err != nil {
		return err
	}
	defer flush()
	return serve(ctx, cfg, nil, log, nil)
}

// startedAs is the program as its user started it, so that what the demo proposes can be pasted. What "go run" built is gone afterwards.
func startedAs() string {
	program := os.Args[0]
	if strings.Contains(filepath.ToSlash(program), "/go-build") {
		return "go run ./cmd/ocr-proxy"
	}
	return program
}

// showLetter tells a letter as "dlq show" does.
func showLetter(w io.Writer, dir string, letter dlq.Letter) error {
	r, err := dlq.View(dir)
	if err != nil {
		return err
	}
	return printLetter(w, r, letter)
}

// drawPages writes the pages of a batch as files and lists them.
func drawPages(w io.Writer, dir string, seed uint64, n int) error {
	documents, err := demo.Pages(seed, n)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return fmt.Errorf("make the folder for the pages: %w", err)
	}
	for _, d := range documents {
		path := filepath.Join(dir, d.Name)
		if err := os.WriteFile(path, d.Data, 0o600); err != nil {
			return fmt.Errorf("write a page: %w", err)
		}
		if _, err := fmt.Fprintln(w, path); err != nil {
			return err
		}
	}
	return nil
}

// isTerminal reports whether a person looks at what is written.
func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}
