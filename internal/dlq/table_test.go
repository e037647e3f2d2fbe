package dlq

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

func TestIDsInSixteenBytes(t *testing.T) {
	var all []string
	for range 200 {
		id := uuid.New()
		all = append(all, id.String())
	}
	all = append(all, someID, "00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff")
	byID := slices.Clone(all)
	slices.SortFunc(byID, func(a, b string) int {
		x, ok := parseUID(a)
		require.True(t, ok, a)
		require.Equal(t, a, x.String())
		y, _ := parseUID(b)
		return x.compare(y)
	})
	slices.Sort(all)
	require.Equal(t, all, byID, "the order is that of the files' names")
	bytes := [16]byte{0: 1, 7: 2, 8: 3, 15: 4}
	require.Equal(t, bytes, uidOf(bytes[:]).bytes())
	for _, bad := range []string{"", someID[1:], someID + "0", strings.ToUpper(someID), strings.Replace(someID, "-", "0", 1), strings.Replace(someID, "0192", "01-2", 1), "g" + someID[1:], "urn:uuid:" + someID} {
		_, ok := parseUID(bad)
		require.Equal(t, validID(bad), ok, bad)
		require.False(t, ok, bad)
	}
}

// someFacts is one of few letters, so that they meet.
func someFacts(r *rand.Rand) facts {
	return facts{
		id: uid{hi: r.Uint64N(3), lo: r.Uint64N(40)}, key: r.Uint64N(6), stamp: r.Uint32(), first: time.Unix(r.Int64N(50), 0),
		bodyBytes: r.Int64N(2), unsized: r.IntN(3) == 0,
		facets: &facets{operation: strconv.Itoa(r.IntN(2)), provider: strconv.Itoa(r.IntN(3)), outcome: strconv.Itoa(r.IntN(2))},
	}
}

func TestTableAgainstAModel(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	table := table{waiting: newWaitingCalls()}
	model := map[uid]facts{}
	for range 4_000 {
		f := someFacts(r)
		if r.IntN(2) == 0 {
			table.put(&f, 1)
			model[f.id] = f
		} else {
			table.drop(f.id)
			delete(model, f.id)
		}
		require.Equal(t, len(model), table.len())
		other := someFacts(r)
		want, open := model[other.id]
		e := table.get(other.id)
		require.Equal(t, open, e != nil)
		if open {
			require.Equal(t, entry{id: want.id, key: want.key, call: table.waiting.number(want.operation, want.size()), since: secondsOf(want.first), stamp: want.stamp, series: e.series, round: 1, used: true}, *e)
		}
		var same []uid
		counts := map[series]int{}
		calls := map[string]map[uint32]int32{"0": {}, "1": {}, "2": {}}
		oldest := time.Time{}
		for id, f := range model {
			if f.key == other.key && f.key != 0 {
				same = append(same, id)
			}
			counts[seriesOf(f.provider, f.outcome)]++
			if f.key != 0 {
				calls[f.provider][table.waiting.number(f.operation, f.size())]++
			}
			if oldest.IsZero() || f.first.Before(oldest) {
				oldest = f.first
			}
		}
		found := table.find(other.key)
		slices.SortFunc(found, uid.compare)
		slices.SortFunc(same, uid.compare)
		require.Equal(t, same, found)
		require.True(t, oldest.Equal(table.since()), "%s %s", oldest, table.since())
		for i, s := range table.series {
			require.Equal(t, counts[s], table.counts[i])
		}
		for account, calls := range calls {
			require.Equal(t, calls, table.waiting.of(account).calls)
		}
	}
	require.LessOrEqual(t, table.made, uint32(3*40), "places are used again")
}

func TestMoreSeriesThanThereIsRoomFor(t *testing.T) {
	table := table{waiting: newWaitingCalls()}
	for i := range maxSeries + 10 {
		f := facts{id: uid{lo: uint64(i)}, facets: &facets{provider: strconv.Itoa(i)}}
		table.put(&f, 1)
	}
	require.Len(t, table.series, maxSeries)
	require.Equal(t, 11, table.counts[maxSeries-1])
	table.drop(uid{lo: maxSeries + 5})
	require.Equal(t, 10, table.counts[maxSeries-1])
}

func TestNumbersThatAllMeet(t *testing.T) {
	var h numbers
	hashOf := func(n uint32) uint64 { return uint64(n % 3) }
	seek := func(n uint32) bool {
		_, ok := h.seek(hashOf(n), func(m uint32) bool { return m == n })
		return ok
	}
	for n := range uint32(300) {
		h.add(hashOf(n), n, hashOf)
	}
	for n := uint32(0); n < 300; n += 2 {
		h.remove(hashOf(n), n, hashOf)
		h.remove(hashOf(n), n, hashOf) // Of what is gone: nothing happens.
	}
	for n := range uint32(301) {
		require.Equal(t, n%2 == 1 && n < 300, seek(n), n)
	}
	require.Equal(t, 150, h.count)
}

func BenchmarkTable(b *testing.B) {
	facets := &facets{provider: "acct", outcome: "exhausted"}
	table := table{waiting: newWaitingCalls()}
	n := uint64(0)
	for b.Loop() {
		n++
		table.put(&facts{id: uid{n, n * n}, key: n, facets: facets}, 1)
		table.place(uid{cmp.Or(n/2, 1), n / 2 * (n / 2)})
	}
}
