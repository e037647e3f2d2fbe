package main

import (
	"math"
	"runtime/debug"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/dustin/go-humanize"
	"go.uber.org/zap"
)

// memoryShare is how much of a container's limit the Go runtime may use. The rest is for what it does not count.
const memoryShare = 0.9

// boundMemory tells the Go runtime of the container's limit, unless GOMEMLIMIT already says one, so that the garbage collector works harder instead of
// the process being killed. It returns the limit in bytes; 0: there is none.
func boundMemory(log *zap.Logger) int64 {
	before := debug.SetMemoryLimit(-1)
	limit, err := memlimit.Set(memlimit.WithRatio(memoryShare), memlimit.WithProvider(memlimit.FromCgroup))
	if err == nil && limit != before && limit < math.MaxInt64 {
		log.Info("memory is bounded by the container's limit", zap.String("gomemlimit", humanize.IBytes(uint64(limit)))) //nolint:gosec // it is positive
	}
	if limit := debug.SetMemoryLimit(-1); limit < math.MaxInt64 {
		return limit
	}
	return 0
}

// bodyBudget is the memory of all bodies: what is configured, but no more than half of what the process may use. Bodies beyond it go to files.
func bodyBudget(configured, limit int64, log *zap.Logger) int64 {
	if limit == 0 || configured <= limit/2 {
		return configured
	}
	log.Warn("body.memory_total is more than half of the memory that the process may use; bodies get half, and what is beyond goes to files",
		zap.String("body.memory_total", humanize.IBytes(uint64(configured))), zap.String("used", humanize.IBytes(uint64(limit/2)))) //nolint:gosec // both are positive
	return limit / 2
}
