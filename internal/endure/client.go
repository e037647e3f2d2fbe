package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

const letterHeader = "Ocr-Proxy-Dead-Letter-Id"

// patience is how long a worker waits for an answer.
const patience = 60 * time.Second

// worker is a client with one kept connection, as plain as HTTP/1.1 allows, to leave the cores to what is tried.
type worker struct {
	addr string
	conn net.Conn
	in   *bufio.Reader
}

func dial(ctx context.Context, addr string) (*worker, error) {
	c, err := (&net.Dialer{Timeout: 10 * time.Second}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return &worker{addr: addr, conn: c, in: bufio.NewReaderSize(c, 4<<10)}, nil
}

func (w *worker) close() { _ = w.conn.Close() }

// answer is the head of an answer whose body came whole.
type answer struct {
	status int
	header http.Header
}

// post sends a document and waits for the whole answer.
func (w *worker) post(path, contentType string, body []byte) (a answer, err error) {
	if err := w.conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return a, err
	}
	head := fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n", path, w.addr, contentType, len(body))
	buffers := net.Buffers{head, body}
	if _, err := buffers.WriteTo(w.conn); err != nil {
		return a, err
	}
	resp, err := http.ReadResponse(w.in, nil)
	if err != nil {
		return a, err
	}
	defer func() { _ = resp.Body.Close() }()
	_, err = io.Copy(io.Discard, resp.Body)
	return answer{resp.StatusCode, resp.Header}, err
}
