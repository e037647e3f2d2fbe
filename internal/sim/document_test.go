package sim

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestInspectTellsFormatAndPages(t *testing.T) {
	img := drawing(60, 40)
	tests := map[string]struct {
		data   []byte
		format Format
		pages  int
		width  int
	}{
		"png":         {pngOf(t, img), FormatPNG, 1, 60},
		"jpeg":        {jpegOf(t, img), FormatJPEG, 1, 60},
		"tiff":        {tiffOf(printed("a")), FormatTIFF, 1, 960},
		"tiff pages":  {tiffOf(printed("a"), printed("b"), printed("c")), FormatTIFF, 3, 960},
		"pdf":         {[]byte("%PDF-1.4\n"), FormatPDF, 1, 0},
		"pdf objects": {[]byte("%PDF-1.4\n<</Type /Pages>> <</Type /Page >> <</Type/Page/X 1>>"), FormatPDF, 2, 0},
		"pdf count":   {[]byte("%PDF-1.4\n<</Type/Pages/Count 7>>"), FormatPDF, 7, 0},
		"pdf lies":    {[]byte("%PDF-1.4\n<</Type/Pages/Count 999999>>"), FormatPDF, maxPages, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			doc, err := inspect(tt.data)
			require.NoError(t, err)
			require.Equal(t, tt.format, doc.Format)
			require.Equal(t, tt.pages, doc.Pages)
			require.Equal(t, tt.width, doc.Width)
		})
	}
}

func TestInspectRefusesWhatNoProviderReads(t *testing.T) {
	img := drawing(200, 200)
	cut := func(data []byte) []byte { return data[:len(data)/2] }
	tests := map[string]struct {
		data []byte
		want error
	}{
		"empty":          {nil, ErrUnsupported},
		"text":           {[]byte("hello"), ErrUnsupported},
		"gif":            {[]byte("GIF89a......"), ErrUnsupported},
		"late pdf mark":  {[]byte(strings.Repeat(" ", 2000) + "%PDF-1.4"), ErrUnsupported},
		"png cut":        {cut(pngOf(t, img)), ErrBroken},
		"png head only":  {pngOf(t, img)[:8], ErrBroken},
		"jpeg cut":       {cut(jpegOf(t, img)), ErrBroken},
		"tiff cut":       {cut(tiffOf(printed("a"))), ErrBroken},
		"tiff head only": {[]byte("II*\x00"), ErrBroken},
		"side too long":  {pngOf(t, drawing(maxSide+1, 1)), ErrBroken},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := inspect(tt.data)
			require.ErrorIs(t, err, tt.want)
		})
	}
}

func FuzzInspect(f *testing.F) {
	f.Add([]byte("II*\x00\x08\x00\x00\x00\x01\x00"))
	f.Add([]byte("MM\x00*\x00\x00\x00\x08"))
	f.Add([]byte("%PDF-1.7 /Count 12"))
	f.Add(tiffOf(printed("x")))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 4096 {
			return
		}
		doc, err := inspect(data)
		if err != nil {
			require.True(t, documentsFault(err), "%v", err)
			return
		}
		require.GreaterOrEqual(t, doc.Pages, 1)
		require.LessOrEqual(t, doc.Pages, maxPages)
	})
}

func TestDecodeBase64TakesBothAlphabets(t *testing.T) {
	want := []byte{0xfb, 0xff, 0xfe, 0x01}
	for _, text := range []string{"+//+AQ==", "-__-AQ==", "+//+AQ", "-__-\r\nAQ"} {
		got, err := decodeBase64(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	_, err := decodeBase64("not base64!")
	require.ErrorIs(t, err, errBase64)
}
