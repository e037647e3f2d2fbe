package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// drive sends requests over that many kept connections for d and returns the answers per second. The client is as plain as HTTP/1.1 allows,
// to leave the cores to what is measured.
func drive(ctx context.Context, addr string, size, clients int, d time.Duration) (float64, error) {
	body := make([]byte, size)
	for i := range body {
		body[i] = byte(i * 7)
	}
	head := fmt.Appendf(nil, "POST /ocr HTTP/1.1\r\nHost: %s\r\nContent-Type: application/octet-stream\r\nContent-Length: %d\r\n\r\n", addr, size)
	var (
		wg    sync.WaitGroup
		done  atomic.Int64
		fault atomic.Pointer[error]
	)
	conns := make([]net.Conn, clients)
	for i := range conns {
		c, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "tcp", addr)
		if err != nil {
			return 0, err
		}
		defer func() { _ = c.Close() }()
		conns[i] = c
	}
	began := time.Now()
	end := began.Add(d)
	for _, c := range conns {
		wg.Go(func() {
			r := bufio.NewReaderSize(c, 32<<10)
			for time.Now().Before(end) {
				if err := one(c, r, head, body); err != nil {
					fault.Store(&err)
					return
				}
				done.Add(1)
			}
		})
	}
	wg.Wait()
	if err := fault.Load(); err != nil {
		return 0, *err
	}
	return float64(done.Load()) / time.Since(began).Seconds(), nil
}

func one(c net.Conn, r *bufio.Reader, head, body []byte) error {
	if err := c.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		return err
	}
	buffers := net.Buffers{head, body}
	if _, err := buffers.WriteTo(c); err != nil {
		return err
	}
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%w: %s", errStatus, resp.Status)
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}
