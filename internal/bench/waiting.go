package main

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/ocr-proxy/ocr-proxy/internal/child"
)

// attempted counts the answers that make a request wait.
const attempted = `ocrproxy_attempts_total{class="transient"`

// memory holds many requests in their wait for the next attempt and reads what the proxy then takes.
func (b *bench) memory(ctx context.Context) error {
	if err := b.start(ctx, "faltering"); err != nil {
		return err
	}
	n, size := b.options.waiting, b.options.bodyBytes
	body := make([]byte, size)
	addr := b.addr("ocr-proxy")
	head := fmt.Appendf(nil, "POST /ocr HTTP/1.1\r\nHost: %s\r\nContent-Type: application/pdf\r\nContent-Length: %d\r\n\r\n", addr, size)
	began := time.Now()
	for i := range n {
		c, err := (&net.Dialer{Timeout: 10 * time.Second}).DialContext(ctx, "tcp", addr)
		if err != nil {
			return fmt.Errorf("connection %d (is the limit of open files at least %d?): %w", i+1, 3*n, err)
		}
		defer func() { _ = c.Close() }()
		copy(body, strconv.Itoa(i)) // no two documents are the same
		buffers := net.Buffers{head, body}
		if _, err := buffers.WriteTo(c); err != nil {
			return fmt.Errorf("request %d: %w", i+1, err)
		}
	}
	sent := time.Since(began)
	var metrics child.Metrics
	for range 60 { // until the last one has had its first answer
		time.Sleep(time.Second)
		var err error
		if metrics, err = child.Scrape(ctx, b.addr("admin")); err != nil {
			return err
		}
		if count, _ := metrics.Sum(attempted); int(count) >= n {
			break
		}
	}
	proxy := b.children[len(b.children)-1]
	resident, err := proxy.Resident()
	if err != nil {
		return err
	}
	peak, err := proxy.Peak()
	if err != nil {
		return err
	}
	fmt.Printf("%d requests of %d bytes waiting, sent in %s\n", n, size, sent.Round(time.Millisecond))
	fmt.Printf("%-28s %d kB\n%-28s %d kB\n", "resident", resident>>10, "its peak", peak>>10)
	for _, name := range []string{"ocrproxy_in_flight", attempted, "ocrproxy_body_memory_bytes", "ocrproxy_body_spilled_bytes"} {
		v, _ := metrics.Sum(name)
		fmt.Printf("%-28s %.0f\n", name, v)
	}
	return nil
}
