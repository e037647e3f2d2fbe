package child

import (
	"context"
	"net"
)

// FreeAddress is one on the loopback interface that nobody listens on.
func FreeAddress(ctx context.Context) (string, error) {
	addrs, err := FreeAddresses(ctx, 1)
	if err != nil {
		return "", err
	}
	return addrs[0], nil
}

// FreeAddresses are several, no two of them the same, as they might be if they were asked for one by one.
func FreeAddresses(ctx context.Context, n int) (addrs []string, err error) {
	for range n {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer func() { _ = l.Close() }()
		addrs = append(addrs, l.Addr().String())
	}
	return addrs, nil
}
