// Command drive reads one page with one Go client through the proxy: drive CLIENT SCENARIO on|off BASE_URL PAGE. It prints one line of JSON, as
// drive.py does.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"runtime/debug"
	"strings"
	"time"
)

const (
	patience = 60 * time.Second        // how long a call waits for its answer
	hurry    = 1500 * time.Millisecond // in the scenario hangup the answer takes longer
	pause    = 3500 * time.Millisecond // until a worker without retries calls again; by then the answer is there
)

// cell is what a client is built for.
type cell struct {
	scenario string
	retries  bool // the library's own
	base     string
	page     []byte
}

// reading is one call: the text that was read, or the error with what the proxy said in its headers where the library gives them.
type reading func(ctx context.Context, c cell, timeout time.Duration) (text string, told told, err error)

type told struct {
	Class  string `json:"class"`
	Reason string `json:"reason"`
}

// line is what the driver prints.
type line struct {
	Client    string `json:"client"`
	Version   string `json:"version"`
	Scenario  string `json:"scenario"`
	Retries   string `json:"retries"`
	Result    string `json:"result"`
	Exception string `json:"exception"`
	Message   string `json:"message,omitempty"`
	Calls     int    `json:"calls"`
	told
}

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "drive:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) != 5 {
		return errors.New("the arguments are CLIENT SCENARIO on|off BASE_URL PAGE")
	}
	page, err := os.ReadFile(args[4])
	if err != nil {
		return fmt.Errorf("the page: %w", err)
	}
	c := cell{scenario: args[1], retries: args[2] == "on", base: args[3], page: page}
	read, module, ok := client(args[0])
	if !ok {
		return fmt.Errorf("there is no client %s", args[0])
	}
	out := line{Client: args[0], Version: version(module), Scenario: args[1], Retries: args[2], Result: "error"}
	for _, timeout := range timeouts(c) {
		if out.Calls > 0 {
			time.Sleep(pause)
		}
		out.Calls++
		text, told, err := read(ctx, c, timeout)
		if err == nil {
			out.Result = "ok"
			if strings.TrimSpace(text) == "" {
				out.Result = "empty"
			}
			break
		}
		out.Exception, out.Message, out.told = kind(err), err.Error()[:min(200, len(err.Error()))], told
	}
	return json.NewEncoder(os.Stdout).Encode(out)
}

func timeouts(c cell) []time.Duration {
	switch {
	case c.scenario != "hangup":
		return []time.Duration{patience}
	case c.retries:
		return []time.Duration{hurry}
	default:
		return []time.Duration{hurry, patience}
	}
}

func client(name string) (read reading, module string, ok bool) {
	switch name {
	case "go-textract":
		return readTextract, "github.com/aws/aws-sdk-go-v2/service/textract", true
	case "go-documentai":
		return readDocumentAI, "cloud.google.com/go/documentai", true
	case "go-documentai-grpc":
		return readDocumentAIOverGRPC, "cloud.google.com/go/documentai", true
	}
	return nil, "", false
}

// version is that of a module which this program was built with.
func version(module string) string {
	info, _ := debug.ReadBuildInfo()
	for _, dep := range info.Deps {
		if dep.Path == module {
			return dep.Version
		}
	}
	return "?"
}

// kind is the type that a caller finds with errors.As: the innermost that is exported by another package than errors and fmt.
func kind(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return "context.DeadlineExceeded"
	}
	name := "error"
	for e := err; e != nil; e = errors.Unwrap(e) {
		t := reflect.TypeOf(e)
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		if path := t.PkgPath(); t.Name() != "" && t.Name()[0] <= 'Z' && path != "" && strings.Contains(path, ".") {
			name = t.String()
		}
	}
	return name
}
