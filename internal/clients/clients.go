// Package clients knows the tokens of those who may use a listener that others can reach. A token is shown where a client library puts its key, so
// that no worker has to be written for it.
package clients

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/ocr-proxy/ocr-proxy/internal/scrub"
)

const (
	// maxTokens bounds those of one file: each is compared with what is shown.
	maxTokens = 256
	// leastLength and mostLength bound a token, in bytes.
	leastLength, mostLength = 16, 512
	// maxFile bounds the file, in bytes.
	maxFile = 1 << 20
	// maxShown bounds how many values of a request are compared.
	maxShown = 16
	// lookEvery is how often the file is looked at while tokens that are known are shown: so long does one that was taken out go on.
	lookEvery = 2 * time.Second
)

// Client names who has shown a token, without telling it: the token's SHA-256.
type Client [sha256.Size]byte

// Tokens are those of one file: one a line, empty lines and those that begin with # aside. The file is read again when it has changed, symbolic links
// followed; a new content that cannot be used changes nothing and is told of once. It is safe for concurrent use.
type Tokens struct {
	path string
	log  *zap.Logger

	mu     sync.Mutex
	known  []Client
	state  os.FileInfo
	looked time.Time
	told   string
}

// Open reads the file. The error says what is wrong with it and never repeats it.
func Open(path string, log *zap.Logger) (*Tokens, error) {
	t := &Tokens{path: path, log: log}
	return t, t.read()
}

func (t *Tokens) read() error {
	state, err := os.Stat(t.path)
	if err != nil {
		return err
	}
	t.state = state
	if state.Size() > maxFile {
		return fmt.Errorf("%s has more than %d bytes", t.path, maxFile)
	}
	text, err := os.ReadFile(t.path)
	if err != nil {
		return err
	}
	known, err := parse(text)
	if err != nil {
		return fmt.Errorf("%s: %w", t.path, err)
	}
	t.known = known
	return nil
}

func parse(text []byte) (known []Client, err error) {
	lines := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		token := strings.TrimSpace(lines.Text())
		switch {
		case token == "" || token[0] == '#':
			continue
		case len(token) < leastLength || len(token) > mostLength:
			return nil, fmt.Errorf("line %d: a token has %d to %d characters", n, leastLength, mostLength)
		case strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' || r == '/' || r == ',' || r == ':' }):
			return nil, fmt.Errorf("line %d: a token has printable ASCII characters other than space, slash, comma and colon", n)
		case len(known) == maxTokens:
			return nil, fmt.Errorf("there are more than %d tokens", maxTokens)
		}
		known = append(known, sha256.Sum256([]byte(token)))
	}
	if err := lines.Err(); err != nil {
		return nil, errors.New("a line is too long")
	}
	if len(known) == 0 {
		return nil, errors.New("there is no token in it")
	}
	return known, nil
}

// Find tells which client a request is from, by any token that it shows; false: it shows none that is known.
func (t *Tokens) Find(r *http.Request) (Client, bool) {
	shown := Shown(r)
	t.mu.Lock()
	defer t.mu.Unlock()
	if time.Since(t.looked) > lookEvery {
		t.look()
	}
	c, ok := t.find(shown)
	if !ok && len(shown) > 0 { // it may have been put in just now
		t.look()
		c, ok = t.find(shown)
	}
	return c, ok
}

// find compares each value with each token, in a time that does not tell how far they are alike.
func (t *Tokens) find(shown []string) (found Client, ok bool) {
	for _, value := range shown {
		sum := sha256.Sum256([]byte(value))
		for i := range t.known {
			if subtle.ConstantTimeCompare(sum[:], t.known[i][:]) == 1 {
				found, ok = t.known[i], true
			}
		}
	}
	return found, ok
}

// look reads the file again if it has changed; mu is held.
func (t *Tokens) look() {
	t.looked = time.Now()
	state, err := os.Stat(t.path)
	if err == nil {
		if os.SameFile(state, t.state) && state.ModTime().Equal(t.state.ModTime()) && state.Size() == t.state.Size() {
			return
		}
		err = t.read()
	}
	if err == nil {
		t.told = ""
		return
	}
	if err.Error() != t.told {
		t.told = err.Error()
		t.log.Error("the file of client tokens cannot be used; those that were read before go on", zap.Error(err))
	}
}

// Shown are the values that a request carries where client libraries put their keys: in headers, bare, behind a scheme's word, as a password or as the
// id of an AWS access key, and in parameters of the query.
func Shown(r *http.Request) (values []string) {
	add := func(value string) {
		if value != "" && len(value) <= mostLength && len(values) < maxShown {
			values = append(values, value)
		}
	}
	for name, all := range r.Header {
		if !scrub.Header(name) || name == "Cookie" {
			continue
		}
		for _, value := range all {
			add(value)
			scheme, rest, _ := strings.Cut(value, " ")
			rest = strings.TrimSpace(rest)
			add(rest)
			switch {
			case strings.EqualFold(scheme, "Basic"):
				if plain, err := base64.StdEncoding.DecodeString(rest); err == nil {
					_, password, _ := strings.Cut(string(plain), ":")
					add(password)
				}
			case strings.HasPrefix(scheme, "AWS4-"):
				_, id, _ := strings.Cut(rest, "Credential=")
				id, _, _ = strings.Cut(id, "/")
				add(id)
			}
		}
	}
	for _, pair := range scrub.Credentials(r.URL.RawQuery) {
		_, value, _ := strings.Cut(pair, "=")
		if plain, err := url.QueryUnescape(value); err == nil {
			add(plain)
		}
	}
	return values
}
