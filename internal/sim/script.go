package sim

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	yaml "go.yaml.in/yaml/v3"
)

// ScriptHelp describes the format that ParseScript reads.
const ScriptHelp = `A script has one step for each request, in order of arrival; after the last step the simulator
behaves normally (with its other faults). A step is a line

    503                                                  an error in the provider's shape
    400 code=ThrottlingException header=Retry-After:2    with the provider's error code and a header
    500 delay=2s times=3                                 after two seconds; for three requests
    200 body='{"pages": []}'                             exactly these bytes
    ok                                                   the normal answer
    lose                                                 the work is done, the answer is lost
    hang                                                 no answer until the client gives up

A body has the provider's content type unless a header sets another one. Values with spaces stand in
single quotes (as they are) or double quotes (with escapes such as \n).
Empty lines and lines that begin with # do not count. The same as a YAML list:

    - status: 503
    - {status: 400, code: ThrottlingException, headers: {Retry-After: "2"}}
    - {status: 500, delay: 2s, times: 3}
    - {ok: true, delay: 1s}
    - lose: true
    - hang: true`

const (
	maxScriptBytes = 1 << 20
	maxScriptSteps = 10_000
)

// Step is one scripted fate. The zero value is the normal answer.
type Step struct {
	// Status is the answer's status, 200 to 599; 0 means the normal answer, or none with Lose or Hang.
	Status int
	// Code is the provider's error code; empty means the usual one for the status. Only with a status from 400 on.
	Code string
	// Body replaces the answer's body; empty means the provider's error shape from 400 on and no body below.
	Body string
	// Headers are added to the answer.
	Headers map[string]string
	// Delay goes before the answer.
	Delay time.Duration
	// Lose does the work and loses the answer.
	Lose bool
	// Hang gives no answer.
	Hang bool
}

func (s Step) action() action {
	switch {
	case s.Hang:
		return actHang
	case s.Lose:
		return actLose
	case s.Status != 0:
		return actScript
	default:
		return actAnswer
	}
}

// outcome counts a scripted answer; providers that throttle with 400 are known by the code.
func (s Step) outcome() outcome {
	if strings.Contains(s.Code, "Throttl") || s.Code == textractThrottleCode {
		return outcomeThrottled
	}
	return outcomeOf(s.Status)
}

func (s Step) reply(p protocol) reply {
	rep := reply{status: s.Status}
	switch {
	case s.Body != "":
		rep.body = []byte(s.Body)
		rep.header = p.failure(s.Status, "", "").header // The provider's content type.
	case s.Status >= http.StatusBadRequest:
		rep = p.failure(s.Status, s.Code, "The simulator's script says so.")
	}
	for name, value := range s.Headers {
		rep.setHeader(name, value)
	}
	return rep
}

func (s Step) validate() error {
	kinds := 0
	for _, set := range []bool{s.Status != 0, s.Lose, s.Hang} {
		if set {
			kinds++
		}
	}
	switch {
	case kinds > 1:
		return errors.New("a status, lose and hang exclude one another")
	case s.Status != 0 && (s.Status < 200 || s.Status > 599):
		return fmt.Errorf("status %d: must be from 200 to 599", s.Status)
	case s.Code != "" && s.Status < http.StatusBadRequest:
		return errors.New("a code needs a status from 400 on")
	case s.Body != "" && s.Status == 0:
		return errors.New("a body needs a status")
	case s.Body != "" && (s.Status == http.StatusNoContent || s.Status == http.StatusNotModified):
		return fmt.Errorf("status %d: has no body", s.Status)
	case s.Code != "" && s.Body != "":
		return errors.New("code and body exclude one another: put the code into the body")
	case len(s.Headers) > 0 && (s.Lose || s.Hang):
		return errors.New("headers need an answer")
	case s.Delay < 0 || s.Delay > 24*time.Hour:
		return fmt.Errorf("delay %s: must be from 0s to 24h", s.Delay)
	}
	for name, value := range s.Headers {
		if err := validateHeader(name, value); err != nil {
			return err
		}
	}
	return nil
}

func validateHeader(name, value string) error {
	const allowed = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	if name == "" || strings.Trim(name, allowed) != "" {
		return fmt.Errorf("header %q: not a header name", name)
	}
	switch http.CanonicalHeaderKey(name) {
	case "Content-Length", "Transfer-Encoding", "Connection", "Trailer":
		return fmt.Errorf("header %s: belongs to the connection, a script cannot set it", name)
	}
	for _, r := range value {
		if r < ' ' && r != '\t' || r == 0x7f {
			return fmt.Errorf("header %s: the value has a control character", name)
		}
	}
	return nil
}

// ParseScript reads a script in either form that ScriptHelp shows, at most 1 MiB and 10,000 steps. The error names the line
// or the step that is wrong.
func ParseScript(r io.Reader) ([]Step, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxScriptBytes+1))
	if err != nil {
		return nil, fmt.Errorf("reading the script: %w", err)
	}
	if len(text) > maxScriptBytes {
		return nil, fmt.Errorf("script: larger than %d bytes", maxScriptBytes)
	}
	if isYAML(text) {
		return parseYAMLScript(text)
	}
	return parseLineScript(string(text))
}

// isYAML looks at the first line that says something: no step line begins with a dash or a bracket.
func isYAML(text []byte) bool {
	for line := range bytes.Lines(text) {
		line = bytes.TrimSpace(line)
		if len(line) > 0 && line[0] != '#' {
			return line[0] == '-' || line[0] == '['
		}
	}
	return false
}

// scriptStep is a step as YAML has it.
type scriptStep struct {
	OK      bool              `yaml:"ok"`
	Status  int               `yaml:"status"`
	Code    string            `yaml:"code"`
	Body    string            `yaml:"body"`
	Headers map[string]string `yaml:"headers"`
	Delay   string            `yaml:"delay"` // As text: YAML would take a bare number for nanoseconds.
	Lose    bool              `yaml:"lose"`
	Hang    bool              `yaml:"hang"`
	Times   *int              `yaml:"times"`
}

func parseYAMLScript(text []byte) ([]Step, error) {
	var list []scriptStep
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	if err := dec.Decode(&list); err != nil {
		return nil, fmt.Errorf("script: %w", err)
	}
	var steps []Step
	for i, e := range list {
		step := Step{Status: e.Status, Code: e.Code, Body: e.Body, Headers: e.Headers, Lose: e.Lose, Hang: e.Hang}
		times := 1
		if e.Times != nil {
			times = *e.Times
		}
		var err error
		switch {
		case e.OK && step.action() != actAnswer:
			err = errors.New("ok excludes status, lose and hang")
		case !e.OK && step.action() == actAnswer:
			err = errors.New("give a status, ok, lose or hang")
		case e.Delay != "":
			step.Delay, err = parseDelay(e.Delay)
		}
		if err == nil {
			steps, err = appendSteps(steps, step, times)
		}
		if err != nil {
			return nil, fmt.Errorf("script step %d: %w", i+1, err)
		}
	}
	return steps, nil
}

func parseLineScript(text string) ([]Step, error) {
	var steps []Step
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		step, times, err := parseLine(line)
		if err == nil {
			steps, err = appendSteps(steps, step, times)
		}
		if err != nil {
			return nil, fmt.Errorf("script line %d: %w", n, err)
		}
	}
	return steps, nil
}

func parseLine(line string) (Step, int, error) {
	var step Step
	times := 1
	word, rest, _ := strings.Cut(line, " ")
	switch word {
	case "ok":
	case "lose":
		step.Lose = true
	case "hang":
		step.Hang = true
	default:
		status, err := strconv.Atoi(word)
		if err != nil || status == 0 {
			return step, 0, fmt.Errorf("%q: begin with a status, ok, lose or hang", word)
		}
		step.Status = status
	}
	for rest = strings.TrimSpace(rest); rest != ""; rest = strings.TrimSpace(rest) {
		key, after, ok := strings.Cut(rest, "=")
		if !ok {
			return step, 0, fmt.Errorf("%q: write options as key=value", rest)
		}
		value, next, err := cutValue(after)
		if err != nil {
			return step, 0, fmt.Errorf("%s: %w", key, err)
		}
		rest = next
		switch key {
		case "code":
			step.Code = value
		case "body":
			step.Body = value
		case "delay":
			step.Delay, err = parseDelay(value)
		case "times":
			times, err = strconv.Atoi(value)
			if err != nil {
				err = fmt.Errorf("times %q: must be a whole number", value)
			}
		case "header":
			name, content, ok := strings.Cut(value, ":")
			if !ok {
				return step, 0, fmt.Errorf("header %q: write header=Name:value", value)
			}
			if step.Headers == nil {
				step.Headers = map[string]string{}
			}
			step.Headers[name] = strings.TrimSpace(content)
		default:
			return step, 0, fmt.Errorf("unknown option %q: use code, body, header, delay or times", key)
		}
		if err != nil {
			return step, 0, err
		}
	}
	return step, times, nil
}

// cutValue takes one value, quoted or not, from the front of s.
func cutValue(s string) (value, rest string, err error) {
	switch {
	case strings.HasPrefix(s, "'"):
		value, rest, ok := strings.Cut(s[1:], "'")
		if !ok {
			return "", "", errors.New("the closing quote is missing")
		}
		return value, rest, nil
	case strings.HasPrefix(s, `"`):
		quoted, err := strconv.QuotedPrefix(s)
		if err != nil {
			return "", "", errors.New("the quoted value is malformed")
		}
		value, err := strconv.Unquote(quoted)
		if err != nil {
			return "", "", errors.New("the quoted value is malformed")
		}
		return value, s[len(quoted):], nil
	default:
		value, rest, _ = strings.Cut(s, " ")
		return value, rest, nil
	}
}

func parseDelay(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("delay %q: must be a duration with a unit, such as 200ms", text)
	}
	return d, nil
}

func appendSteps(steps []Step, step Step, times int) ([]Step, error) {
	if err := step.validate(); err != nil {
		return nil, err
	}
	if times < 1 || times > maxScriptSteps-len(steps) {
		return nil, fmt.Errorf("times %d: must be from 1 on, and the whole script at most %d steps", times, maxScriptSteps)
	}
	for range times {
		steps = append(steps, step)
	}
	return steps, nil
}
