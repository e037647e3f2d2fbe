package main

import (
	"bufio"
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/ocr-proxy/ocr-proxy/config"
)

// Whoever runs the proxy in a container or under a supervisor gives it a pipe, which cannot be synced. A warning goes out at once all the same,
// and zap has nothing to complain of on a line of its own.
func TestAWarningGoesOutAtOnceThroughAPipe(t *testing.T) {
	from, to, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { from.Close(); to.Close() })
	logger, _, flush, err := newLogger(config.Log{Level: "info", Format: "json"}, to)
	require.NoError(t, err)
	t.Cleanup(flush)
	logger.Info("first")
	require.NoError(t, logger.Core().Write(zapcore.Entry{Level: zap.WarnLevel, Message: "second", Time: time.Now()}, nil))
	lines := bufio.NewScanner(from)
	for _, want := range []string{"first", "second"} {
		require.True(t, lines.Scan())
		var line struct{ Msg string }
		require.NoError(t, json.Unmarshal(lines.Bytes(), &line))
		require.Equal(t, want, line.Msg)
	}
}
