package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// Set by the linker: -X main.version=… -X main.commit=….
//
//nolint:gochecknoglobals // the linker can only set variables
var version, commit string

type build struct{ version, commit, goVersion string }

// thisBuild is what the linker was told, else what the Go toolchain recorded.
func thisBuild() build {
	b := build{version: version, commit: commit, goVersion: runtime.Version()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	b.version = cmp.Or(b.version, info.Main.Version)
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			b.commit = cmp.Or(b.commit, s.Value)
		}
	}
	b.commit = cmp.Or(b.commit, "unknown")
	return b
}

// String is what a person is told, in one line.
func (b build) String() string {
	return fmt.Sprintf("ocr-proxy %s (commit %s, %s %s/%s)", b.version, b.commit, b.goVersion, runtime.GOOS, runtime.GOARCH)
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print version, commit and Go version",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), thisBuild())
			return err
		},
	}
}
