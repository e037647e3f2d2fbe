//go:build unix

package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// The signal goes to all proxies of this process; those whose file has not changed take it once more.
func TestSIGHUPReadsTheConfigurationAtOnce(t *testing.T) {
	t.Parallel()
	p := serving(t, provide(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }), "retry: {max_attempts: 1}")
	_, header, _ := p.ask(http.MethodPost, p.account+"/ocr", "document")
	require.Equal(t, "1", header.Get("Ocr-Proxy-Attempts"))
	text, err := os.ReadFile(p.config)
	require.NoError(t, err)
	changed := strings.Replace(string(text), "max_attempts: 1", "max_attempts: 3, base_delay: 1ms", 1) + "\nlog: {format: console}\n"
	require.NoError(t, os.WriteFile(p.config, []byte(changed), 0o600))
	require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGHUP))
	require.Equal(t, []any{"log.format"}, p.log.find(t, "these settings were changed and need a restart; until then they stay as they are")["keys"])
	_, header, _ = p.ask(http.MethodPost, p.account+"/ocr", "document")
	require.Equal(t, "3", header.Get("Ocr-Proxy-Attempts"))
	_, _, metrics := p.ask(http.MethodGet, p.admin+"/metrics", "")
	require.Contains(t, metrics, "\nocrproxy_config_restart_pending 1\n")
	require.Contains(t, metrics, "\nocrproxy_config_last_reload_successful 1\n")
}

// Reading the configuration may take for ever, as from a network disk that has gone or, here, a pipe that nobody writes to. The end does not wait for it.
func TestAConfigurationThatCannotBeReadHoldsUpNoEnd(t *testing.T) {
	t.Parallel()
	p := serving(t, provide(t, echo), "")
	pipe := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	require.NoError(t, os.Rename(pipe, p.config))
	var writer *os.File
	require.Eventually(t, func() (read bool) {
		var err error
		writer, err = os.OpenFile(p.config, os.O_WRONLY|syscall.O_NONBLOCK, 0) // it fails until somebody reads
		return err == nil
	}, patience, idlePoll)
	defer func() { _ = writer.Close() }()
	status, _, _ := p.ask(http.MethodPost, p.account+"/ocr", "document")
	require.Equal(t, http.StatusOK, status)
	p.signal()
	require.Zero(t, p.end())
}
