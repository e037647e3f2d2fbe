package dlq

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// heard notes what it is told and then uses the store, which would wait for ever if a lock of it were held.
type heard struct {
	t     *testing.T
	store *Store
	all   []string
}

func (h *heard) Created(e *Envelope) {
	require.Equal(h.t, []string{"open/" + e.ID + ".json"}, files(h.t, h.store.dir, StatusOpen), "the letter is there already")
	h.all = append(h.all, "created "+e.DocumentID)
	c, err := h.store.Claim(e.ID)
	require.NoError(h.t, err)
	require.NoError(h.t, c.Release(nil))
}

func (h *heard) Resolved(e *Envelope) {
	require.Equal(h.t, []string{"resolved/" + e.ID + ".json"}, files(h.t, h.store.dir, StatusResolved))
	h.all = append(h.all, "resolved "+e.DocumentID+" by "+e.Resolution.By)
	require.False(h.t, e.Resolution.At.IsZero())
	_, err := h.store.Claim(e.ID)
	require.Error(h.t, err)
}

func TestTheObserverHearsOfNewAndResolvedLetters(t *testing.T) {
	h := &heard{t: t}
	o := keeping()
	o.Observer = h
	h.store = newStore(t, t.TempDir(), o)
	id := put(t, h.store, letter("1"), "x")
	require.Equal(t, id, put(t, h.store, letter("1"), "x"), "a letter that is raised is not new")
	c, err := h.store.Claim(id)
	require.NoError(t, err)
	require.NoError(t, c.Resolve(strings.NewReader("result"), Resolution{By: "me"}))
	require.ErrorIs(t, c.Resolve(nil, Resolution{By: "me again"}), ErrSettled)

	id = put(t, h.store, letter("2"), "x")
	c, err = h.store.Claim(id)
	require.NoError(t, err)
	require.NoError(t, c.Discard(Resolution{By: "me"}))
	require.Equal(t, []string{"created 1", "resolved 1 by me", "created 2"}, h.all)

	full := keeping()
	full.MaxBytes, full.Observer = 10, h
	_, err = newStore(t, t.TempDir(), full).Put(t.Context(), letter("3"), strings.NewReader("x"))
	require.ErrorIs(t, err, ErrFull)
	require.Len(t, h.all, 3, "what was not kept did not happen")
}
