package child

import (
	"context"
	"net"
)

// FreeAddress is one on the loopback interface that nobody listens on.
func FreeAddress(ctx context.Context) (string, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}
