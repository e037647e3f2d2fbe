package sim

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/image/draw"
	"golang.org/x/image/font"
	"golang.org/x/image/font/basicfont"
	"golang.org/x/image/math/fixed"
)

// provider is a simulator on a real socket.
type provider struct {
	*Server
	url string
}

func launch(t *testing.T, o Options) *provider {
	t.Helper()
	s, err := New(o)
	require.NoError(t, err)
	ts := httptest.NewServer(s)
	t.Cleanup(ts.Close)
	return &provider{Server: s, url: ts.URL}
}

type received struct {
	status int
	header http.Header
	raw    string
	body   map[string]any
}

// send returns the answer or the transport's error.
func (p *provider) send(t *testing.T, method, path, body string, header ...string) (received, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, p.url+path, strings.NewReader(body))
	require.NoError(t, err)
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	transport := &http.Transport{DisableKeepAlives: true}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return received{}, err
	}
	defer func() { require.NoError(t, resp.Body.Close()) }()
	raw, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	got := received{status: resp.StatusCode, header: resp.Header, raw: string(raw)}
	if strings.HasPrefix(got.raw, "{") {
		require.NoError(t, json.Unmarshal(raw, &got.body))
	}
	return got, nil
}

func (p *provider) must(t *testing.T, method, path, body string, header ...string) received {
	t.Helper()
	got, err := p.send(t, method, path, body, header...)
	require.NoError(t, err)
	return got
}

// textract sends one operation with the body given as JSON.
func (p *provider) textract(t *testing.T, operation, body string) received {
	t.Helper()
	return p.must(t, http.MethodPost, "/", body, "X-Amz-Target", "Textract."+operation, "Content-Type", "application/x-amz-json-1.1")
}

// at walks down a decoded JSON value by keys and indexes.
func at(t *testing.T, v any, path ...any) any {
	t.Helper()
	for _, step := range path {
		switch step := step.(type) {
		case string:
			m, ok := v.(map[string]any)
			require.True(t, ok, "no object at %v of %v", step, path)
			require.Contains(t, m, step)
			v = m[step]
		case int:
			list, ok := v.([]any)
			require.True(t, ok, "no list at %v of %v", step, path)
			require.Greater(t, len(list), step)
			v = list[step]
		}
	}
	return v
}

func encode(data []byte) string { return base64.StdEncoding.EncodeToString(data) }

func drawing(w, h int) image.Image {
	img := image.NewGray(image.Rect(0, 0, w, h))
	draw.Draw(img, img.Bounds(), image.White, image.Point{}, draw.Src)
	for i := range w {
		img.SetGray(i, (i*i)%h, color.Gray{Y: uint8(i)})
	}
	return img
}

func pngOf(t *testing.T, img image.Image) []byte {
	t.Helper()
	var buf bytes.Buffer
	require.NoError(t, png.Encode(&buf, img))
	return buf.Bytes()
}

func jpegOf(t *testing.T, img image.Image) []byte {
	t.Helper()
	var buf bytes.Buffer
	require.NoError(t, jpeg.Encode(&buf, img, nil))
	return buf.Bytes()
}

// printed is a page with the lines in letters large enough to be read by a machine.
func printed(lines ...string) *image.Gray {
	const scale = 3
	small := image.NewGray(image.Rect(0, 0, 320, 40+24*len(lines)))
	draw.Draw(small, small.Bounds(), image.White, image.Point{}, draw.Src)
	d := font.Drawer{Dst: small, Src: image.Black, Face: basicfont.Face7x13}
	for i, line := range lines {
		d.Dot = fixed.P(20, 30+24*i)
		d.DrawString(line)
	}
	big := image.NewGray(image.Rect(0, 0, small.Rect.Dx()*scale, small.Rect.Dy()*scale))
	draw.BiLinear.Scale(big, big.Bounds(), small, small.Bounds(), draw.Src, nil)
	return big
}
