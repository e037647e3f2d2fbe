package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ocr-proxy/ocr-proxy/config"
)

func checkCommand(environ []string) *cobra.Command {
	var path string
	cmd := &cobra.Command{
		Use:   "check --config FILE",
		Short: "Validate a configuration and print what is in effect",
		Long: "Reads the configuration as serve would and prints the effective one, secrets masked, or every problem found, one per line.\n" +
			"Standard error tells what is allowed and hardly meant, and that all is well. Exit 0 or 2.",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := config.Load(path, environ)
			if err != nil {
				return err
			}
			text, err := cfg.YAML()
			if err != nil {
				return err
			}
			if _, err := cmd.OutOrStdout().Write(text); err != nil {
				return err
			}
			return sayChecked(cmd.ErrOrStderr(), cfg)
		},
	}
	configFlag(cmd, &path)
	return cmd
}

// sayChecked tells a person what the configuration, which goes elsewhere, does not tell.
func sayChecked(w io.Writer, cfg *config.Config) error {
	var b strings.Builder
	for _, warning := range cfg.Warnings() {
		fmt.Fprintf(&b, "warning: %s: %s\n", warning.Key, warning.Message)
	}
	for _, p := range cfg.Providers {
		if p.Observes() {
			fmt.Fprintf(&b, "observe: %s changes nothing: calls pass once, as they come, and the proxy only tells what it would have done\n", p.Name)
		}
	}
	noun := "accounts"
	if len(cfg.Providers) == 1 {
		noun = "account"
	}
	names := make([]string, 0, len(cfg.Providers))
	for _, p := range cfg.Providers {
		names = append(names, p.Name+" on "+p.Listen)
	}
	fmt.Fprintf(&b, "ok: %d %s: %s\n", len(names), noun, strings.Join(names, ", "))
	_, err := io.WriteString(w, b.String())
	return err
}
