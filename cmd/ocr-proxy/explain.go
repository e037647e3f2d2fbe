package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ocr-proxy/ocr-proxy/internal/classify"
	"github.com/ocr-proxy/ocr-proxy/internal/provider"
	"github.com/ocr-proxy/ocr-proxy/internal/proxy"
)

// maxExplained bounds the body that explain reads, in bytes.
const maxExplained = 64 << 20

// explanation is the classifier's verdict as explain prints it.
type explanation struct {
	Class        string   `json:"class"`
	FailureClass string   `json:"failure_class"`
	ErrorCode    string   `json:"error_code"`
	ErrorMessage string   `json:"error_message"`
	Retry        bool     `json:"retry"`
	RetryAfter   *float64 `json:"retry_after_seconds"`
	Breaker      string   `json:"breaker"`
	Reason       string   `json:"reason"`
}

func explainCommand() *cobra.Command {
	var (
		kind, operation, file string
		status                int
		headers               []string
	)
	cmd := &cobra.Command{
		Use:   "explain --kind KIND --status N [--operation OP] [--header 'K: V']... [--body FILE or -]",
		Short: "Show what the classifier makes of one upstream answer",
		Example: `  echo '{"__type":"ThrottlingException"}' | ocr-proxy explain --kind textract --status 400 --body -
  ocr-proxy explain --kind azure --status 429 --header 'Retry-After: 7'`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := provider.Find(kind)
			if err != nil {
				return &usageError{cmd.CommandPath(), err}
			}
			if status < 100 || status > 999 {
				return &usageError{cmd.CommandPath(), fmt.Errorf("--status %d is no HTTP status", status)}
			}
			seen := classify.Attempt{Operation: operation, Sent: true, Status: status, Header: http.Header{}}
			for _, line := range headers {
				name, value, ok := strings.Cut(line, ":")
				if !ok {
					return &usageError{cmd.CommandPath(), fmt.Errorf("--header %q has no colon", line)}
				}
				seen.Header.Add(strings.TrimSpace(name), strings.TrimSpace(value))
			}
			if seen.Body, err = readBody(file, cmd.InOrStdin()); err != nil {
				return err
			}
			if status >= http.StatusBadRequest {
				seen.Body = proxy.Decode(seen.Header.Get("Content-Encoding"), seen.Body)
			}
			v := proxy.Explain(p, nil, seen, time.Now())
			out := explanation{
				Class: v.Class.String(), FailureClass: v.Class.Failure(), ErrorCode: v.Code, ErrorMessage: v.Message,
				Retry: v.Class.Retryable(), Breaker: v.Health().String(), Reason: v.Reason,
			}
			if v.Wait > 0 {
				seconds := v.Wait.Seconds()
				out.RetryAfter = &seconds
			}
			encoder := json.NewEncoder(cmd.OutOrStdout())
			encoder.SetIndent("", "  ")
			encoder.SetEscapeHTML(false)
			return encoder.Encode(out)
		},
	}
	f := cmd.Flags()
	f.StringVar(&kind, "kind", "", "provider kind, such as textract")
	f.IntVar(&status, "status", 0, "HTTP status of the answer")
	f.StringVar(&operation, "operation", "", "the provider's operation, where its meaning depends on it")
	f.StringArrayVar(&headers, "header", nil, "a header of the answer, 'Name: value'; may be repeated")
	f.StringVar(&file, "body", "", "file with the answer's body, - for standard input")
	_ = cmd.MarkFlagRequired("kind")
	_ = cmd.MarkFlagRequired("status")
	return cmd
}

func readBody(file string, stdin io.Reader) ([]byte, error) {
	switch file {
	case "":
		return nil, nil
	case "-":
		return io.ReadAll(io.LimitReader(stdin, maxExplained))
	}
	f, err := os.Open(file) //nolint:gosec // the user names the file
	if err != nil {
		return nil, fmt.Errorf("read the body: %w", err)
	}
	defer func() { _ = f.Close() }()
	return io.ReadAll(io.LimitReader(f, maxExplained))
}
