package share

import (
	"context"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// refreshEvery is the time between two looks at all cells.
	refreshEvery = 200 * time.Millisecond
	// announceEvery is the time between two signs of life.
	announceEvery = time.Second
	// forgottenAfter is how long a process that gives no sign of life is counted.
	forgottenAfter = 5 * time.Second
)

// announce notes that a process is alive, forgets those that have been silent for too long, or that spoke before the server's clock was put
// back, and returns how many there are. What is no list of processes is not one that anybody here has made.
//
//nolint:gochecknoglobals // a constant in all but name
var announce = redis.NewScript(`
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if redis.call('TYPE', KEYS[1]).ok ~= 'zset' then
  redis.call('DEL', KEYS[1])
end
redis.call('ZADD', KEYS[1], now, ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - ARGV[2])
redis.call('ZREMRANGEBYSCORE', KEYS[1], now + ARGV[2], '+inf')
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return redis.call('ZCARD', KEYS[1])
`)

func (a *Account) members() string { return a.key + "members" }

// watch keeps the copies of all cells fresh, and this process known to the others, until the store is closed.
func (s *Store) watch() {
	tick := time.NewTicker(refreshEvery)
	defer tick.Stop()
	var announced time.Time
	for {
		err := s.refresh()
		if err == nil && time.Since(announced) >= announceEvery {
			announced = time.Now()
			err = s.announce()
		}
		if s.ending.Err() != nil {
			return
		}
		if err != nil {
			s.health.failed(s.ending)
			announced = time.Time{} // the others are to hear at once when the server is back
		}
		s.health.round(err)
		select {
		case <-s.ending.Done():
			return
		case <-tick.C:
		}
	}
}

// refresh asks for the server's time and for all cells, in one trip.
func (s *Store) refresh() error {
	s.mu.Lock()
	cells := slices.Clip(s.cells)
	s.mu.Unlock()
	keys, marks := make([]string, len(cells)), make([]int, len(cells))
	for i, c := range cells {
		keys[i], marks[i] = c.name(), c.mark()
	}
	sent := time.Now()
	pipe := s.client.Pipeline()
	now := pipe.Time(s.ending)
	var values *redis.SliceCmd
	if len(keys) > 0 {
		values = pipe.MGet(s.ending, keys...)
	}
	if _, err := pipe.Exec(s.ending); err != nil {
		return err
	}
	if values != nil && len(values.Val()) != len(cells) {
		return errForm
	}
	s.clock.seen(now.Val().UTC(), sent)
	if values == nil {
		return nil
	}
	for i, v := range values.Val() {
		text, _ := v.(string) // nil where there is none
		cells[i].refresh(text, marks[i])
	}
	return nil
}

// announce gives a sign of life for each account, and counts the others.
func (s *Store) announce() error {
	s.mu.Lock()
	accounts := slices.Clip(s.accounts)
	s.mu.Unlock()
	for _, a := range accounts {
		n, err := announce.Run(s.ending, s.client, []string{a.members()}, s.me, forgottenAfter.Milliseconds()).Int64()
		if err != nil {
			return err
		}
		a.peers.Store(max(1, n))
		s.peers.WithLabelValues(a.name).Set(float64(max(1, n)))
	}
	return nil
}

// leave takes this process out of all counts.
func (s *Store) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	pipe := s.client.Pipeline()
	for _, a := range s.accounts {
		pipe.ZRem(ctx, a.members(), s.me)
	}
	if pipe.Len() > 0 {
		_, _ = pipe.Exec(ctx) // they will see soon enough
	}
}
