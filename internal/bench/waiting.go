package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
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
	var metrics string
	for range 60 { // until the last one has had its first answer
		time.Sleep(time.Second)
		var err error
		if metrics, err = b.metrics(ctx); err != nil {
			return err
		}
		if strings.HasSuffix(field(metrics, attempted), " "+strconv.Itoa(n)) {
			break
		}
	}
	proxy := b.children[len(b.children)-1].Process.Pid
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", proxy))
	if err != nil {
		return fmt.Errorf("the memory of a process is read from /proc: %w", err)
	}
	fmt.Printf("%d requests of %d bytes waiting, sent in %s\n", n, size, sent.Round(time.Millisecond))
	for _, name := range []string{"VmRSS", "VmHWM"} {
		fmt.Printf("%-28s %s\n", name, field(string(status), name+":"))
	}
	for _, name := range []string{"ocrproxy_in_flight", attempted, "ocrproxy_body_memory_bytes", "ocrproxy_body_spilled_bytes"} {
		fmt.Printf("%-28s %s\n", name, field(metrics, name))
	}
	return nil
}

func (b *bench) metrics(ctx context.Context) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+b.addr("admin")+"/metrics", http.NoBody)
	if err != nil {
		return "", err
	}
	resp, err := (&http.Client{Timeout: 10 * time.Second}).Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	return string(text), err
}

// field is the rest of the first line that begins with that text.
func field(text, prefix string) string {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, prefix); ok {
			return strings.Join(strings.Fields(rest), " ")
		}
	}
	return "not found"
}
