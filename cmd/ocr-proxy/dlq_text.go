package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// printable makes a string from outside harmless for a terminal and keeps it on
// one line: whatever does not print, such as an escape sequence or a mark that
// reverses the writing direction, is spelled out.
func printable(s string) string {
	if s == "" {
		return "-"
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		}
		s = s[n:]
	}
	return b.String()
}

// short is printable, cut to a width that leaves the table a table.
func short(s string, width int) string {
	s = printable(s)
	if runes := []rune(s); len(runes) > width {
		return string(runes[:width-1]) + "…"
	}
	return s
}

// harmlessJSON spells out what JSON leaves as it is and a terminal may obey.
// Outside of strings JSON is ASCII, so the result means the same.
func harmlessJSON(data []byte) []byte {
	var b bytes.Buffer
	for _, r := range string(data) {
		switch {
		case r == '\n' || unicode.IsPrint(r):
			b.WriteRune(r)
		case r > 0xFFFF:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.Bytes()
}

// marshalJSON is indented JSON that is safe to print.
func marshalJSON(v any, prefix string) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent(prefix, "  ")
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return harmlessJSON(bytes.TrimRight(b.Bytes(), "\n")), nil
}

func printJSON(w io.Writer, v any) error {
	data, err := marshalJSON(v, "")
	if err != nil {
		return err
	}
	_, err = w.Write(append(data, '\n'))
	return err
}

// table writes rows of names and values whose columns line up.
type table struct{ w *tabwriter.Writer }

func newTable(w io.Writer) *table { return &table{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)} }

// row adds a line; its cells must be printable. Errors come with flush.
func (t *table) row(name, value string) { _, _ = io.WriteString(t.w, name+"\t"+value+"\n") }

func (t *table) flush() error { return t.w.Flush() }

// lettersOf counts letters in words.
func lettersOf(n int) string {
	if n == 1 {
		return "1 letter"
	}
	return strconv.Itoa(n) + " letters"
}

func when(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") }

func httpStatus(status *int) string {
	if status == nil {
		return "-"
	}
	return strconv.Itoa(*status)
}
