package proxy

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// bare are accounts of which only the name counts.
func bare(names ...string) map[string]*Account {
	all := map[string]*Account{}
	for _, name := range names {
		all[name] = &Account{Name: name}
	}
	return all
}

func groupOf(accounts map[string]*Account, weights ...any) *Group {
	g := &Group{leads: &leads{unsure: map[string]lead{}}}
	for i := 0; i < len(weights); i += 2 {
		g.spread = append(g.spread, &share{Share: Share{accounts[weights[i].(string)], weights[i+1].(int)}}) //nolint:forcetypeassert // a test's table
		g.all = append(g.all, g.spread[i/2].Account)
	}
	return g
}

func always(*Account) bool { return true }

func TestTurnsAreTakenByWeightAndEvenly(t *testing.T) {
	t.Parallel()
	accounts := bare("a", "b", "c")
	g := groupOf(accounts, "a", 5, "b", 1, "c", 1)
	order := ""
	for range 14 {
		way := g.order("", always)
		require.Len(t, way, 3, "the others follow, in case the first fails")
		order += way[0].Name
	}
	require.Equal(t, "aabacaaaabacaa", order)
	// One that is not ready is passed over and does not catch up afterwards.
	down := func(a *Account) bool { return a.Name != "a" }
	count := map[string]int{}
	for range 100 {
		count[g.order("", down)[0].Name]++
	}
	require.Equal(t, map[string]int{"b": 50, "c": 50}, count)
	clear(count)
	for range 7 {
		count[g.order("", always)[0].Name]++
	}
	require.Equal(t, map[string]int{"a": 5, "b": 1, "c": 1}, count)
	require.NotNil(t, g.order("", func(*Account) bool { return false })[0], "somebody has to say no")
}

func TestAPrintMeetsTheSameAccountInProportionToItsWeight(t *testing.T) {
	t.Parallel()
	accounts := bare("a", "b", "c")
	g, without := groupOf(accounts, "a", 3, "b", 1, "c", 2), groupOf(accounts, "a", 3, "c", 2)
	const calls = 6000
	count := map[string]int{}
	for i := range calls {
		print := fmt.Sprint("print ", i)
		way := g.order(print, always)
		require.Equal(t, way, g.order(print, always))
		count[way[0].Name]++
		if way[0].Name != "b" {
			require.Equal(t, way[0], without.order(print, always)[0], "nobody moves for an account that was not its own")
		}
		down := g.order(print, func(a *Account) bool { return a != way[0] })
		require.Equal(t, []*Account{way[1], way[2], way[0]}, down, "the next in its own order takes its place")
	}
	for name, weight := range map[string]int{"a": 3, "b": 1, "c": 2} {
		require.InDelta(t, calls*weight/6, count[name], calls/40, name)
	}
}

func TestTheFallbackFollowsTheSpreadAndNobodyIsAskedTwice(t *testing.T) {
	t.Parallel()
	accounts := bare("a", "b", "c")
	g := groupOf(accounts, "a", 1, "b", 1)
	g.fallback = []*Account{accounts["b"], accounts["c"]}
	require.Equal(t, []*Account{accounts["a"], accounts["b"], accounts["c"]}, g.order("", always))
}

func TestLeadsAreBounded(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		accounts := bare("a", "b")
		g := groupOf(accounts, "a", 1, "b", 1)
		for i := range maxLeads + 10 {
			g.remember(strconv.Itoa(i), accounts["a"], leadTime)
		}
		require.Len(t, g.leads.unsure, maxLeads)
		last := strconv.Itoa(maxLeads + 9)
		require.Equal(t, accounts["a"], g.lead(last))
		g.remember(last, accounts["b"], leadTime)
		require.Len(t, g.leads.unsure, maxLeads)
		require.Equal(t, accounts["b"], g.lead(last))
		time.Sleep(leadTime)
		require.Nil(t, g.lead(last))
		require.Len(t, g.leads.unsure, maxLeads-1)
	})
}

// After a change of the configuration it is still known where an unsure call went, to the account as it is now, and the other way round.
func TestLeadsOutliveTheGroup(t *testing.T) {
	t.Parallel()
	before, now := bare("a", "b"), bare("a", "c")
	old, g := groupOf(before, "a", 1, "b", 1), groupOf(now, "a", 1, "c", 1)
	old.remember("1", before["a"], leadTime)
	old.remember("2", before["b"], leadTime)
	require.Nil(t, g.lead("1"))
	g.Follow(old)
	require.Same(t, now["a"], g.lead("1"))
	require.Nil(t, g.lead("2"), "the account is not of the group any more")
	old.remember("3", before["a"], leadTime) // by a request that was under way
	require.Same(t, now["a"], g.lead("3"))
	g.Follow(nil)
	require.Same(t, now["a"], g.lead("3"))
}
