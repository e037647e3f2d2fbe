package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// sender is who a document comes from.
type sender struct{ tenant, priority string } // "": not told

// worker is a client with one kept connection, as plain as HTTP/1.1 allows.
type worker struct {
	addr string
	conn net.Conn // nil: not connected
	in   *bufio.Reader
}

func (w *worker) close() {
	if w.conn != nil {
		_ = w.conn.Close()
		w.conn = nil
	}
}

// reply is what came back for a document.
type reply struct {
	status  int
	letter  string // id of the dead letter
	outcome string
}

// send sends a document and waits for its answer until the context's deadline. An error means that none came.
func (w *worker) send(ctx context.Context, from sender, n int) (r reply, err error) {
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	if w.conn == nil {
		if w.conn, err = (&net.Dialer{Timeout: 20 * time.Second}).DialContext(ctx, "tcp", w.addr); err != nil {
			return r, err
		}
		w.in = bufio.NewReaderSize(w.conn, 2<<10)
	}
	if deadline, ok := ctx.Deadline(); ok {
		if err := w.conn.SetDeadline(deadline); err != nil {
			return r, err
		}
	}
	body := document(n)
	head := fmt.Appendf(nil, "POST /ocr HTTP/1.1\r\nHost: %s\r\nContent-Type: application/pdf\r\nOcr-Proxy-Document-Id: %d\r\nContent-Length: %d\r\n", w.addr, n, len(body))
	if from.tenant != "" {
		head = fmt.Appendf(head, "Ocr-Proxy-Tenant: %s\r\n", from.tenant)
	}
	if from.priority != "" {
		head = fmt.Appendf(head, "Ocr-Proxy-Priority: %s\r\n", from.priority)
	}
	head = append(head, "\r\n"...)
	if _, err := w.conn.Write(append(head, body...)); err != nil {
		return r, err
	}
	resp, err := http.ReadResponse(w.in, nil)
	if err != nil {
		return r, err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return r, err
	}
	if resp.Close {
		defer w.close()
	}
	r = reply{resp.StatusCode, resp.Header.Get("Ocr-Proxy-Dead-Letter-Id"), resp.Header.Get("Ocr-Proxy-Outcome")}
	if r.status == http.StatusOK {
		var answer struct{ Document int }
		if err := json.Unmarshal(text, &answer); err != nil || answer.Document != n {
			return r, fmt.Errorf("document %d got the answer %q", n, text)
		}
	}
	return r, nil
}
