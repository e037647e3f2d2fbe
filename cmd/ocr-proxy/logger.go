package main

import (
	"io"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/ocr-proxy/ocr-proxy/config"
)

const (
	// logBuffer is how much of the log is written at once, in bytes, and logFlush how long a line waits for company at most.
	logBuffer = 64 << 10
	logFlush  = 200 * time.Millisecond
)

// newLogger writes lines to w. Those below warn go out in batches, since at thousands of requests a second each write would be a call into
// the kernel; everything from warn on goes out at once, with what was waiting. The level may be changed at any time; the function writes the rest.
func newLogger(c config.Log, w io.Writer) (logger *zap.Logger, level zap.AtomicLevel, flush func(), err error) {
	level, err = zap.ParseAtomicLevel(c.Level)
	if err != nil {
		return nil, level, nil, err
	}
	entries := zap.NewProductionEncoderConfig()
	entries.EncodeTime = zapcore.TimeEncoderOfLayout(time.RFC3339Nano)
	encoder := zapcore.NewJSONEncoder(entries)
	if c.Format == "console" {
		entries.EncodeTime = zapcore.TimeEncoderOfLayout("15:04:05.000")
		entries.EncodeDuration = zapcore.StringDurationEncoder
		encoder = zapcore.NewConsoleEncoder(entries)
	}
	// Without its Sync: a pipe refuses to be synced, which zap then tells on a line that is no JSON, and a log is not worth waiting for a disk.
	plain := zapcore.AddSync(struct{ io.Writer }{w})
	buffered := &zapcore.BufferedWriteSyncer{WS: plain, Size: logBuffer, FlushInterval: logFlush}
	core := urgent{zapcore.NewCore(encoder, buffered, level)}
	return zap.New(core), level, func() { _ = buffered.Stop() }, nil // there is nowhere left to tell that the log cannot be written
}

// urgent writes everything from warn on without delay.
type urgent struct{ zapcore.Core }

// With keeps the urgency in loggers with more fields.
func (u urgent) With(fields []zapcore.Field) zapcore.Core { return urgent{u.Core.With(fields)} }

// Check adds this core, not the one within, to what writes the entry.
func (u urgent) Check(e zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if u.Enabled(e.Level) {
		return checked.AddCore(e, u)
	}
	return checked
}

// Write writes the entry and, when it is urgent, everything that waits.
func (u urgent) Write(e zapcore.Entry, fields []zapcore.Field) error {
	err := u.Core.Write(e, fields)
	if err == nil && e.Level >= zapcore.WarnLevel {
		err = u.Sync()
	}
	return err
}
