// Command ocr-proxy is a sidecar reverse proxy between document workers and their OCR provider. See README.md.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/ocr-proxy/ocr-proxy/config"
)

// The exit codes that users rely on.
const (
	exitOK        = 0
	exitFailure   = 1
	exitBadConfig = 2
)

func main() {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		cancel() // begin to end
		<-signals
		os.Exit(exitFailure) // the second signal does not wait
	}()
	os.Exit(run(ctx, os.Args[1:], os.Environ(), os.Stdin, os.Stdout, os.Stderr))
}

// run is the whole program but for its process: tests drive it with a context that they end.
func run(ctx context.Context, args, environ []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := rootCommand(environ)
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	began := false
	markBegin(root, &began)
	cmd, err := root.ExecuteContextC(ctx)
	var (
		bad   *config.InvalidError
		usage *usageError
	)
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &bad):
		_, _ = fmt.Fprintln(stderr, bad.Error())
		return exitBadConfig
	case errors.As(err, &usage):
		_, _ = fmt.Fprintf(stderr, "ocr-proxy: %v; see %s --help\n", err, usage.command)
		return exitBadConfig
	case !began: // an unknown flag, one that is missing, an argument too many
		_, _ = fmt.Fprintf(stderr, "ocr-proxy: %v; see %s --help\n", err, cmd.CommandPath())
		return exitBadConfig
	}
	_, _ = fmt.Fprintf(stderr, "ocr-proxy: %v\n", err)
	return exitFailure
}

// markBegin has began set when a command's own work begins: what fails before that is the command line.
func markBegin(cmd *cobra.Command, began *bool) {
	if work := cmd.RunE; work != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			*began = true
			return work(cmd, args)
		}
	}
	for _, sub := range cmd.Commands() {
		markBegin(sub, began)
	}
}

// usageError is a command line that makes no sense, found by a command that had begun.
type usageError struct {
	command string
	err     error
}

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func rootCommand(environ []string) *cobra.Command {
	root := &cobra.Command{
		Use:           "ocr-proxy",
		Short:         "A sidecar proxy that makes OCR calls fail well",
		Long:          "ocr-proxy stands between document workers and their OCR provider. It retries what is worth retrying, stops asking a\nprovider that is down, and writes every document that could not be read as a dead letter that says why.",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          knownCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		Version:       thisBuild().String(),
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetVersionTemplate("{{.Version}}\n")
	root.AddCommand(
		serveCommand(environ),
		checkCommand(environ),
		explainCommand(),
		simCommand(),
		demoCommand(),
		dlqCommand(environ),
		qualityCommand(environ),
		healthCommand(environ),
		versionCommand(),
	)
	return root
}

// configFlag adds the flag that every command about a running proxy takes.
func configFlag(cmd *cobra.Command, path *string) {
	cmd.Flags().StringVar(path, "config", "", "configuration `FILE` (YAML)")
	_ = cmd.MarkFlagRequired("config") // fails only for a flag that does not exist
}
