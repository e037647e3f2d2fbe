package share

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// largestValue bounds a value, in bytes as JSON.
	largestValue = 64 << 10
	// mostTries bounds how often a change is tried anew because another process was faster.
	mostTries = 10
	// afterConflict is the longest that one waits before it tries again, times the number of the try.
	afterConflict = 2 * time.Millisecond
)

var (
	errTooLarge = errors.New("the value is larger than what is shared may be")
	errForm     = errors.New("the server's answer has another form")
	errConflict = errors.New("others changed the value each time")
)

// swap stores a value if the one that is there has the expected version, "0" for none; else it returns what is there. Versions never repeat,
// not even after a value has expired: they are the server's time in microseconds, or one more than the last. Returned are whether it was
// stored, the server's time, and the new version or what is there.
//
//nolint:gochecknoglobals // a constant in all but name
var swap = redis.NewScript(`
local time = redis.call('TIME')
local stored = redis.call('TYPE', KEYS[1]).ok == 'string' and redis.call('GET', KEYS[1])
local version = stored and string.match(stored, '^(%d+) ') or '0'
if version ~= ARGV[1] then
  return {0, time[1], time[2], stored or ''}
end
local next = string.format('%.0f', math.max(tonumber(version) + 1, time[1] * 1000000 + time[2]))
redis.call('SET', KEYS[1], next .. ' ' .. ARGV[2], 'PX', ARGV[3])
return {1, time[1], time[2], next}
`)

// Cell is a small value that all processes of an account read and change. It is read from a copy that is never much older than a fifth of a
// second while the server is there. The zero value of T stands for no value, and for one that this process cannot read.
type Cell[T any] struct {
	account *Account
	key     string
	ttl     time.Duration

	mu      sync.Mutex
	version string // "0": none
	value   T
	changes int // how often the copy was replaced, so that an older one does not replace it
	known   bool
	stirred chan struct{}
}

// NewCell returns the account's cell of that name. A value that nobody changes any more is forgotten after ttl.
func NewCell[T any](a *Account, name string, ttl time.Duration) *Cell[T] {
	c := &Cell[T]{account: a, key: a.key + name, ttl: ttl, version: "0", stirred: make(chan struct{}, 1)}
	a.store.mu.Lock()
	defer a.store.mu.Unlock()
	a.store.cells = append(a.store.cells, c)
	return c
}

// Stirred is sent to after the copy has changed. It has one reader.
func (c *Cell[T]) Stirred() <-chan struct{} { return c.stirred }

// Get returns the copy, and whether the value has been seen at all.
func (c *Cell[T]) Get() (value T, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.value, c.known
}

// Change replaces the value by what change makes of it at the server's time now, and returns what is there afterwards, with the server's time.
// The function must do nothing else and may be called several times; false says that the value may stay as it is, which costs no question
// when the copy says so. The error is ErrAway when the server could not be asked, and another when the value is too large or others were
// always faster; then nothing was changed that anybody knows of.
func (c *Cell[T]) Change(ctx context.Context, change func(value T, now time.Time) (T, bool)) (after T, now time.Time, err error) {
	s := c.account.store
	for try := range mostTries {
		if !s.health.usable.Load() {
			return after, now, ErrAway
		}
		if try > 1 {
			time.Sleep(rand.N(afterConflict * time.Duration(try))) //nolint:gosec // spreading a crowd needs no secrecy
		}
		c.mu.Lock()
		value, version := c.value, c.version
		c.mu.Unlock()
		now, _ = s.Now() // it is known whenever the store is usable
		next, worth := change(value, now)
		if !worth {
			return value, now, nil
		}
		stored, err := c.swap(ctx, version, next)
		if err != nil {
			return after, now, err
		}
		if stored {
			return next, now, nil
		}
	}
	return after, now, errConflict
}

// swap stores the value if the version is still there, and brings the copy up to date either way.
func (c *Cell[T]) swap(ctx context.Context, version string, next T) (stored bool, err error) {
	text, err := json.Marshal(next)
	if err != nil {
		return false, err
	}
	if len(text) > largestValue {
		return false, errTooLarge
	}
	s := c.account.store
	sent := time.Now()
	answer, err := swap.Run(ctx, s.client, []string{c.key}, version, text, c.ttl.Milliseconds()).Slice()
	if err == nil && len(answer) != 4 {
		err = errForm
	}
	if err != nil {
		s.health.failed(ctx)
		return false, ErrAway
	}
	seconds, micros := number(answer[1]), number(answer[2])
	s.clock.seen(fromServer(seconds, micros), sent)
	found, _ := answer[3].(string)
	if number(answer[0]) == 1 {
		c.take(found, next, true)
		return true, nil
	}
	c.read(found, true)
	return false, nil
}

// number reads an integer of an answer; 0 for anything else.
func number(v any) int64 {
	switch v := v.(type) {
	case int64:
		return v
	case string:
		n, _ := strconv.ParseInt(v, 10, 64)
		return n
	}
	return 0
}

// read takes in what is stored, "" for nothing.
func (c *Cell[T]) read(stored string, late bool) {
	var value T
	_, text, _ := strings.Cut(stored, " ")
	if len(text) > largestValue || json.Unmarshal([]byte(text), &value) != nil {
		var none T
		value = none // half of it may have been read
	}
	c.take(versionOf(stored), value, late)
}

// versionOf is the version of what is stored, as the server's script sees it.
func versionOf(stored string) string {
	version, _, found := strings.Cut(stored, " ")
	if !found || version == "" || strings.Trim(version, "0123456789") != "" {
		return "0"
	}
	return version
}

// take replaces the copy. Answers to changes may come late, after those to later ones.
func (c *Cell[T]) take(version string, value T, late bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changes++
	if c.known && (c.version == version || late && version != "0" && number(version) < number(c.version)) {
		return
	}
	c.known, c.version, c.value = true, version, value
	stir(c.stirred)
}

// watched is a cell of any type, as the watching goroutine sees it.
type watched interface {
	name() string
	mark() int
	refresh(stored string, mark int)
}

func (c *Cell[T]) name() string { return c.key }

// mark is to be asked before the question whose answer refresh is given.
func (c *Cell[T]) mark() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changes
}

// refresh takes in what a round has found, unless the copy has been replaced since the round began.
func (c *Cell[T]) refresh(stored string, mark int) {
	if c.mark() == mark {
		c.read(stored, false)
	}
}
