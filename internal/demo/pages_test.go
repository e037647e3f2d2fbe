package demo

import (
	"bytes"
	"image/png"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPagesAreWholeImagesButForTheDamagedOne(t *testing.T) {
	documents, err := Pages(1, 4)
	require.NoError(t, err)
	require.Len(t, documents, 4)
	names := map[string]bool{}
	for i, d := range documents {
		names[d.Name] = true
		picture, err := png.Decode(bytes.NewReader(d.Data))
		require.Equal(t, i == 3, d.Corrupt, d.Name)
		if d.Corrupt {
			require.Error(t, err, d.Name)
			continue
		}
		require.NoError(t, err, d.Name)
		require.Equal(t, pageWidth, picture.Bounds().Dx())
		ink := 0
		for y := range pageHeight / 2 {
			for x := range pageWidth / 2 {
				if r, _, _, _ := picture.At(x, y).RGBA(); r < 0x4000 {
					ink++
				}
			}
		}
		require.Greater(t, ink, 2000, "%s has nothing written on it", d.Name)
	}
	require.Len(t, names, 4, "names must be unique")
}

func TestPagesFollowTheSeed(t *testing.T) {
	one, err := Pages(1, 2)
	require.NoError(t, err)
	again, err := Pages(1, 2)
	require.NoError(t, err)
	other, err := Pages(2, 2)
	require.NoError(t, err)
	require.Equal(t, one, again)
	require.NotEqual(t, one[0].Data, other[0].Data)
	require.NotEqual(t, one[0].Data, one[1].Data)
}

func TestDivideGivesEveryPartEnough(t *testing.T) {
	for n := MinDocuments; n <= MaxDocuments; n++ {
		documents := make([]Document, n)
		documents[n-1].Corrupt = true
		p := divide(documents)
		require.Equal(t, n, len(p.calm)+len(p.throttle)+len(p.outage)+1+len(p.recovery), "%d documents", n)
		require.True(t, p.calm[len(p.calm)-1].document.Corrupt)
		require.Equal(t, mistral, p.probe.account)
		require.NotEmpty(t, p.recovery)
		count := func(errands []errand, account string) (n int) {
			for _, e := range errands {
				if e.account == account {
					n++
				}
			}
			return n
		}
		require.Positive(t, count(p.calm, azure), "azure's two errors need a document")
		require.GreaterOrEqual(t, count(p.throttle, textract), 3, "throttling needs a crowd")
		require.GreaterOrEqual(t, count(p.outage, mistral), 2, "opening the breaker takes more than one document")
	}
}
