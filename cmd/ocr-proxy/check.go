package main

import (
	"github.com/spf13/cobra"

	"github.com/ocr-proxy/ocr-proxy/config"
)

func checkCommand(environ []string) *cobra.Command {
	var path string
	cmd := &cobra.Command{
		Use:   "check --config FILE",
		Short: "Validate a configuration and print what is in effect",
		Long:  "Reads the configuration as serve would and prints the effective one, secrets masked, or every problem found, one per line. Exit 0 or 2.",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := config.Load(path, environ)
			if err != nil {
				return err
			}
			text, err := cfg.YAML()
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(text)
			return err
		},
	}
	configFlag(cmd, &path)
	return cmd
}
