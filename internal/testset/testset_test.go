package testset

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ocr-proxy/ocr-proxy/internal/dlq"
	"github.com/ocr-proxy/ocr-proxy/internal/fingerprint"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	pdf = "%PDF-1.7 a scan"
	png = "\x89PNG\r\n\x1a\n a picture"
)

func opening(text string) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }
}

func nothing() (io.ReadCloser, error) { return nil, fs.ErrNotExist }

// item is a letter about one request.
func item(id, contentType, body string) Item {
	sum := sha256.Sum256([]byte(body))
	return Item{
		Letter: dlq.Letter{Status: "resolved", Envelope: &dlq.Envelope{
			ID: id, Provider: "acct", DocumentID: "lease-18", Outcome: "permanent", ErrorCode: "Bad",
			Request:    dlq.Request{ContentType: contentType, BodySHA256: hex.EncodeToString(sum[:])},
			Resolution: &dlq.Resolution{Label: "handwriting", Note: "typed in\nby hand"},
		}},
		Payload: opening(body), Result: nothing, Layout: fingerprint.Layout{Inline: []string{"doc", "pages[]"}, Refs: []string{"at"}, FormRefs: []string{"url"}},
	}
}

// written are the files of a set.
func written(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		require.NoError(t, err)
		info, err := d.Info()
		require.NoError(t, err)
		if d.IsDir() {
			if path != dir {
				require.Equal(t, folderMode, info.Mode().Perm(), path)
			}
			return nil
		}
		require.Equal(t, fileMode, info.Mode().Perm(), path)
		data, err := os.ReadFile(path)
		rel, _ := filepath.Rel(dir, path)
		all[filepath.ToSlash(rel)] = string(data)
		return err
	}))
	return all
}

func rows(t *testing.T, metadata string) (all []row) {
	t.Helper()
	for d := json.NewDecoder(strings.NewReader(metadata)); d.More(); {
		var r row
		require.NoError(t, d.Decode(&r))
		all = append(all, r)
	}
	return all
}

func TestASetHasADocumentAndALabelOnEachLine(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "new", "set")
	w, err := Create(dir)
	require.NoError(t, err)
	whole := item("a", "application/octet-stream", pdf)
	whole.Result = opening(`{"text":"t"}`)
	require.NoError(t, w.Add(whole))
	embedded := `{"doc":"` + base64.StdEncoding.EncodeToString([]byte(png)) + `","lang":"en"}`
	require.NoError(t, w.Add(item("b", "application/json", embedded)))
	require.NoError(t, w.Close())

	set := written(t, dir)
	require.Equal(t, pdf, set["a/document.pdf"], "told by its content")
	require.Equal(t, `{"text":"t"}`, set["a/result.json"])
	require.Contains(t, set["a/letter.json"], `"status": "resolved"`)
	require.Equal(t, png, set["b/document.png"])
	require.Equal(t, embedded, set["b/payload.json"])
	require.Len(t, set, 7)
	require.Equal(t, 2, strings.Count(set[metadataName], "\n"))
	require.Equal(t, []row{
		{
			FileName: "a/document.pdf", Label: "handwriting", Note: "typed in\nby hand", ID: "a", Status: "resolved", DocumentID: "lease-18", Provider: "acct",
			Outcome: "permanent", ErrorCode: "Bad", Result: "a/result.json",
		},
		{
			FileName: "b/document.png", Label: "handwriting", Note: "typed in\nby hand", ID: "b", Status: "resolved", DocumentID: "lease-18", Provider: "acct",
			Outcome: "permanent", ErrorCode: "Bad",
		},
	}, rows(t, set[metadataName]))
}

func TestWhatBecomesOfAPayload(t *testing.T) {
	t.Parallel()
	b64 := base64.StdEncoding.EncodeToString
	multipart := "--x\r\nContent-Disposition: form-data; name=f; filename=a\r\n\r\n" + pdf + "\r\n--x--\r\n"
	for name, c := range map[string]struct {
		contentType, body string
		want              []string // beside letter.json
		fails             error
	}{
		"several documents":            {"application/json", `{"pages":["` + b64([]byte(png)) + `","` + b64([]byte(pdf)) + `"]}`, []string{"document-1.png", "document-2.pdf", "payload.json"}, nil},
		"a file of a form":             {"multipart/form-data; boundary=x", multipart, []string{"document.pdf", "payload.form"}, nil},
		"a declared type":              {"application/vnd.openxmlformats-officedocument.wordprocessingml.document", "a text", []string{"document.docx"}, nil},
		"TIFF":                         {"", "II*\x00rest", []string{"document.tiff"}, nil},
		"nothing is known":             {"", "rest", []string{"document.bin"}, nil},
		"an empty body":                {"application/pdf", "", []string{"document.pdf"}, nil},
		"a location":                   {"application/json", `{"at":"s3://bucket/name"}`, []string{"payload.json"}, nil},
		"a credential in JSON":         {"application/json", `{"api_key":"PLANTED","at":"s3://bucket/name"}`, nil, errCredential},
		"JSON without a type":          {"", ` {"api_key":"PLANTED"}`, nil, errCredential},
		"a credential beside one":      {"application/json", `{"api_key":"PLANTED","doc":"` + b64([]byte(png)) + `"}`, []string{"document.png"}, nil},
		"an escaped name":              {"application/json", `{"api\u005fkey":"PLANTED","doc":"` + b64([]byte(png)) + `"}`, []string{"document.png"}, nil},
		"a signed address":             {"application/json", `{"at":"https://x.example/a.pdf?sig=PLANTED"}`, nil, errCredential},
		"a signed address deep inside": {"application/json", `{"a":[{"b":"see https://x.example/a.pdf?v=1&X-Amz-Signature=PLANTED"}]}`, nil, errCredential},
		"an address with a password":   {"application/json", `{"a":["https://reader:PLANTED@x.example/a.pdf"]}`, nil, errCredential},
		"an address with a port":       {"application/json", `{"a":["https://x.example:8443/a@b.pdf"]}`, []string{"payload.json"}, nil},
		"no credential":                {"application/json", `{"options":{"key":"value"},"at":"https://x.example/a.pdf?page=1"}`, []string{"payload.json"}, nil},
		"a signed address in a form":   {"application/x-www-form-urlencoded", "url=https%3A%2F%2Fx.example%2Fa.pdf%3Fsig%3DPLANTED", nil, errCredential},
		"an address in a form":         {"application/x-www-form-urlencoded", "url=https%3A%2F%2Fx.example%2Fa.pdf%3Fpage%3D1", []string{"payload.form"}, nil},
		"broken JSON":                  {"application/json", `{"api_key`, nil, errCredential},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			w, err := Create(dir)
			require.NoError(t, err)
			err = w.Add(item("id", c.contentType, c.body))
			require.ErrorIs(t, err, c.fails)
			require.NoError(t, w.Close())
			set := written(t, dir)
			require.NotContains(t, strings.Join(valuesOf(set), "\n"), "PLANTED")
			if c.fails != nil {
				require.Len(t, set, 1, "nothing is left of it")
				require.Empty(t, set[metadataName])
				return
			}
			for _, file := range c.want {
				require.Contains(t, set, "id/"+file)
			}
			require.Len(t, set, len(c.want)+2, "%v", set)
		})
	}
}

func valuesOf(set map[string]string) (all []string) {
	for _, text := range set {
		all = append(all, text)
	}
	return all
}

func TestALetterThatFailsLeavesRoomForTheNext(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w, err := Create(dir)
	require.NoError(t, err)
	without := item("a", "application/pdf", pdf)
	without.Payload = nothing
	require.ErrorIs(t, w.Add(without), fs.ErrNotExist)
	broken := item("b", "application/pdf", pdf)
	broken.Payload = opening("something else")
	require.ErrorIs(t, w.Add(broken), errChanged)
	disk := errors.New("input/output error")
	unread := item("c", "application/pdf", pdf)
	unread.Result = func() (io.ReadCloser, error) { return nil, disk }
	require.ErrorIs(t, w.Add(unread), disk)
	require.NoError(t, w.Add(item("d", "application/pdf", pdf)))
	require.ErrorIs(t, w.Add(item("d", "application/pdf", pdf)), fs.ErrExist, "nothing is overwritten")
	require.NoError(t, w.Close())
	set := written(t, dir)
	require.Len(t, set, 3)
	require.Len(t, rows(t, set[metadataName]), 1)
}

func TestNothingIsOverwritten(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "mine"), []byte("x"), 0o600))
	_, err := Create(dir)
	require.ErrorIs(t, err, ErrNotEmpty)
	require.Len(t, written(t, dir), 1)
	_, err = Create(filepath.Join(dir, "mine"))
	require.Error(t, err)
}

func TestLongTextsAreNotHeld(t *testing.T) {
	t.Parallel()
	l := &looker{}
	l.Begin('{')
	for range 100 {
		l.Key(bytes.Repeat([]byte("k"), 4096), false)
		l.String(bytes.Repeat([]byte("x"), 64<<10), false)
	}
	l.String(nil, true)
	require.LessOrEqual(t, cap(l.text), 4*maxLooked)
	require.False(t, l.found)
}
