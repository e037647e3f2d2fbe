package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/ocr-proxy/ocr-proxy/config"
	"github.com/ocr-proxy/ocr-proxy/internal/admin/client"
)

const healthTimeout = 3 * time.Second

func healthCommand(environ []string) *cobra.Command {
	var path string
	cmd := &cobra.Command{
		Use:   "health [--config FILE]",
		Short: "Ask the admin listener whether the proxy is ready (for a container's HEALTHCHECK)",
		Long:  "Asks /readyz of the admin listener: exit 0 when it is ready, 1 when it is not. Without --config it asks the default address.",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			admin := config.Default().Admin
			if path != "" {
				cfg, err := config.LoadWithoutSecrets(path, environ)
				if err != nil {
					return err
				}
				admin = cfg.Admin
			}
			return askReady(cmd.Context(), admin)
		},
	}
	cmd.Flags().StringVar(&path, "config", "", "configuration `FILE` (YAML)")
	return cmd
}

func askReady(ctx context.Context, admin config.Admin) error {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	address, err := client.Address(admin.Listen)
	if err != nil {
		return err
	}
	scheme := "http"
	if admin.TLS.Enabled() {
		scheme = "https"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+address+"/readyz", http.NoBody)
	if err != nil {
		return err
	}
	asking := &http.Client{Transport: &http.Transport{
		// The question goes to this machine, and the answer carries nothing: the certificate's name need not be this address.
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}, //nolint:gosec // see above
		DisableKeepAlives: true,
	}}
	resp, err := asking.Do(req)
	if err != nil {
		return fmt.Errorf("not ready: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("not ready: status %d", resp.StatusCode)
	}
	return nil
}
