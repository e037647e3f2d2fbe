package demo

import (
	"context"
	"errors"
	"io"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRunRefusesWhatCannotBeTold(t *testing.T) {
	serve := func(context.Context, string, string) error { panic("not reached") }
	for problem, o := range map[string]Options{
		"19 documents: give 20 to 200":  {Documents: 19, Pace: 1},
		"201 documents: give 20 to 200": {Documents: 201, Pace: 1},
		"pace 0: must be above 0":       {Documents: 20},
		"pace NaN: must be above 0":     {Documents: 20, Pace: math.NaN()},
	} {
		o.Serve, o.Out = serve, io.Discard
		require.EqualError(t, Run(t.Context(), o), problem)
	}
}

func TestRunTellsThatTheProxyDoesNotStart(t *testing.T) {
	broken := errors.New("no room on the disk")
	o := Options{Documents: 20, Pace: 1, Discard: true, Out: io.Discard, Serve: func(context.Context, string, string) error { return broken }}
	require.ErrorIs(t, Run(t.Context(), o), broken)
}
