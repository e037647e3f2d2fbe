package main

import (
	"github.com/coreos/go-systemd/v22/daemon"
	"go.uber.org/zap"
)

// notify tells systemd, where it has started the process with Type=notify, how it is.
func (s *server) notify(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		s.log.Warn("systemd could not be told of the process's state", zap.Error(err))
	}
}
