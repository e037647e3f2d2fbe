package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
)

// Widths of a desk's and of a phone's screen.
const desk, phone = 1280, 390

const hostile = `<script>alert("script")</script><img src=x onerror=alert("image")><b id="planted">bold</b> "quoted" 'single' ` + "\u202egnihtyna\u202c"

func refusal(message string) string {
	data, _ := json.Marshal(map[string]any{"error": map[string]any{"code": "bad_scan", "message": message}})
	return string(data)
}

func TestALetterIsResolvedByClicking(t *testing.T) {
	for _, width := range []int64{desk, phone} {
		t.Run(strconv.FormatInt(width, 10), func(t *testing.T) {
			e := newEngine(t, 400, refusal(hostile))
			p := startProxy(t, account{"engine", "generic", e.URL, "auth: {type: none}"})
			p.send(t, "engine", "/read", `{"page":1}`, `lease <i id="planted">1</i>`, `Ocr-Proxy-Tenant: <u id="planted">north</u>`)
			p.send(t, "engine", "/read", `{"page":2}`, strings.Repeat("a-long-name-without-a-blank", 7))
			b := open(t, p, width)
			nothingPlanted := func() {
				t.Helper()
				require.Zero(t, js[int](b, `document.querySelectorAll("#planted, main script, main img").length`))
			}

			b.visit("/")
			b.shows(".card", "engine")
			b.shows("main", "bad_scan")
			b.fits()
			b.shoot("overview")
			b.follow("main a", "2")
			b.shows("td", `<script>alert("script")</script>`)
			nothingPlanted()
			b.fits()
			b.shoot("letters")
			b.follow("td a", `lease <i id="planted">1</i>`)
			b.shows("pre", `<img src=x onerror=alert("image")>`)
			b.shows("main", `<u id="planted">north</u>`)
			b.shows(".life", "attempt 1, HTTP 400")
			nothingPlanted()
			b.fits()
			b.shoot("letter")

			b.click("button", "Resolve…")
			b.fill("#ask-note", "typed in by hand")
			b.fill("#ask-label", "handwriting")
			b.fill("#ask-by", "ann")
			b.fits()
			b.shoot("resolve")
			b.do(chromedp.SendKeys(chromedp.CSS("#ask-label"), kb.Enter)) // as good as the button
			b.shows("#ask-progress", "1 of 1 resolved")
			resolved := p.letters(t, "status=resolved")
			require.Len(t, resolved, 1)
			require.Equal(t, `lease <i id="planted">1</i>`, resolved[0].DocumentID)
			require.Equal(t, struct{ By, Note, Label string }{"ann", "typed in by hand", "handwriting"}, resolved[0].Resolution)
			b.click("dialog button", "Close")
			b.shows(".life", "resolved by ann")
			b.shoot("letter-resolved")

			b.visit("/letters")
			b.click("button", "Resolve all")
			require.Equal(t, "ann", js[string](b, `document.getElementById("ask-by").value`), "the name is remembered")
			b.click("dialog button", "Cancel")
			require.Len(t, p.letters(t, ""), 1, "cancelling does nothing")
		})
	}
}

func TestWhoWaitsIsShown(t *testing.T) {
	e := newEngine(t, 200, `{"text":"read"}`)
	p := startProxy(t, account{"engine", "generic", e.URL, "auth: {type: none}, pacing: {rate: 0.01}, retry: {total_budget: 1h}"})
	ctx, hangUp := context.WithCancel(t.Context())
	var workers sync.WaitGroup
	t.Cleanup(func() { hangUp(); workers.Wait() })
	for _, priority := range []string{"normal", "high", "normal", "low", "high"} {
		workers.Go(func() {
			r, _ := http.NewRequestWithContext(ctx, http.MethodPost, p.listen["engine"]+"/read", strings.NewReader(`{}`))
			r.Header.Set("Ocr-Proxy-Priority", priority)
			if got, err := http.DefaultClient.Do(r); err == nil {
				got.Body.Close()
			}
		})
	}
	for _, width := range []int64{desk, phone} {
		b := open(t, p, width)
		eventually(t, "four wait", func() bool {
			b.visit("/")
			return strings.Contains(js[string](b, `document.querySelector(".card").innerText`), "4 waiting")
		})
		b.shows(".queue", "0.01/s")
		b.fits()
		b.shoot("waiting")
	}
	var state struct {
		Providers []struct {
			Queue map[string]struct {
				Waiting map[string]int
			}
		}
	}
	getJSON(t, p.admin+"/api/v1/providers", &state)
	require.Len(t, state.Providers[0].Queue, 1)
	for _, q := range state.Providers[0].Queue {
		require.Equal(t, 4, q.Waiting["high"]+q.Waiting["normal"]+q.Waiting["low"])
	}
}

func TestADiscardAsksForItsNote(t *testing.T) {
	e := newEngine(t, 400, refusal("this page is blank"))
	p := startProxy(t, account{"engine", "generic", e.URL, "auth: {type: none}"})
	for i := range 3 {
		p.send(t, "engine", "/read", fmt.Sprintf(`{"page":%d}`, i), fmt.Sprintf("scan-%d", i))
	}
	b := open(t, p, desk)
	b.visit("/letters?document=scan-1")
	b.click("button", "Discard all")
	b.shows("#ask-title", "Discard 1 letter?")
	b.shows("#ask-text", "document scan-1")
	b.shows("#ask-words", "Note (needed)")
	b.fill("#ask-note", "  ")
	b.click("dialog button", "Discard")
	b.shows("#ask-progress", "A discard needs a note.")
	b.shoot("discard")
	require.Empty(t, p.letters(t, "status=discarded"))
	b.fill("#ask-note", "blank")
	b.click("dialog button", "Discard")
	b.shows("#ask-progress", "1 of 1 discarded")
	b.click("dialog button", "Close")
	b.shows(".empty", "No letter is open")
	discarded := p.letters(t, "status=discarded")
	require.Len(t, discarded, 1)
	require.Equal(t, "scan-1", discarded[0].DocumentID)
	require.Equal(t, "blank", discarded[0].Resolution.Note)
	require.Len(t, p.letters(t, ""), 2, "those that the filter did not select are as they were")
}

func TestManyLettersAreReplayed(t *testing.T) {
	const n = 12
	sim := startSim(t, "mistral", fmt.Sprintf("503 times=%d", n))
	accepted := func() int {
		var stats struct{ Accepted int }
		getJSON(t, sim+"/__sim/stats", &stats)
		return stats.Accepted
	}
	p := startProxy(t, account{"mistral", "mistral", sim, "auth: {type: none}, breaker: {failure_threshold: 1000}"})
	for i := range n {
		p.send(t, "mistral", "/v1/ocr", fmt.Sprintf(`{"model":"mistral-ocr-latest","document":{"type":"document_url","document_url":"https://documents.example/%d.pdf"}}`, i), fmt.Sprintf("scan-%d", i))
	}
	b := open(t, p, desk)
	b.visit("/letters")
	b.click("button", "Replay all")
	b.shows("#ask-title", fmt.Sprintf("Replay %d letters?", n))
	b.shows("#ask-text", fmt.Sprintf("This makes %d calls", n))
	b.shoot("replay")
	require.Zero(t, accepted(), "looking costs nothing")
	require.False(t, js[bool](b, `document.getElementById("ask-even").checkVisibility()`), "none is ambiguous")
	b.click("dialog button", "Replay")
	b.shows("#ask-progress", fmt.Sprintf("%d of %d replayed.", n, n))
	b.shoot("replayed")
	require.Equal(t, n, accepted())
	require.Len(t, p.letters(t, "status=resolved"), n)
	b.click("dialog button", "Close")
	b.shows(".empty", "No letter is open")
}

func TestALetterWhoseCredentialWasCutOutSaysSo(t *testing.T) {
	e := newEngine(t, 400, refusal("no"))
	p := startProxy(t, account{"engine", "generic", e.URL, "auth: {type: passthrough}"})
	p.send(t, "engine", "/read", "{}", "scan", "Authorization: Bearer secret-of-the-worker")
	b := open(t, p, desk)
	b.visit("/letters/" + p.letters(t, "")[0].ID)
	b.click("button", "Replay…")
	b.shows("#ask-text", "Nothing can be sent.")
	b.shows("#ask-text", "give the account an auth, or a replay_auth for replays alone")
	b.shoot("replay-refused")
	require.True(t, js[bool](b, `document.getElementById("ask-go").disabled`))
	require.NotContains(t, js[string](b, "document.documentElement.outerHTML"), "secret-of-the-worker")
	require.EqualValues(t, 1, e.calls.Load(), "nothing was sent again")
}

func TestAReplayThatFailsAgainSaysWhy(t *testing.T) {
	e := newEngine(t, 400, refusal("this page is blank"))
	p := startProxy(t, account{"engine", "generic", e.URL, "auth: {type: none}"})
	p.send(t, "engine", "/read", "{}", "scan")
	b := open(t, p, phone)
	b.visit("/letters/" + p.letters(t, "")[0].ID)
	b.click("button", "Replay…")
	b.click("dialog button", "Replay")
	b.shows("#ask-progress", "0 of 1 replayed, 1 failed again.")
	b.shows("#ask-progress", "1 failed again: ")
	b.fits()
	b.shoot("failed-again")
	b.click("dialog button", "Close")
	b.shows(".life", "replayed: permanent")
	b.shoot("letter-replayed")
}

func TestAnOpenCircuitIsWaitedFor(t *testing.T) {
	e := newEngine(t, 503, `{"error":"down for repairs"}`)
	p := startProxy(t, account{"engine", "generic", e.URL, "auth: {type: none}, breaker: {failure_threshold: 3, reset_timeout: 4s}"})
	for i := range 3 {
		p.send(t, "engine", "/read", fmt.Sprintf(`{"page":%d}`, i), fmt.Sprintf("scan-%d", i))
	}
	e.will(200, `{"text":"read"}`)
	b := open(t, p, desk)
	b.visit("/")
	b.shows(".card", "circuit open")
	b.shoot("circuit-open")
	b.visit("/letters")
	b.click("button", "Replay all")
	b.click("dialog button", "Replay")
	b.shows("#ask-progress", "the circuit of account engine is open")
	b.shoot("waiting")
	b.shows("#ask-progress", "3 of 3 replayed.")
	require.EqualValues(t, 6, e.calls.Load(), "each once more")
	require.Len(t, p.letters(t, "status=resolved"), 3)
}

func TestAReplayCanBeStopped(t *testing.T) {
	e := newEngine(t, 503, `{"error":"down for repairs"}`)
	p := startProxy(t, account{"engine", "generic", e.URL, "auth: {type: none}, breaker: {failure_threshold: 3, reset_timeout: 10m}"})
	for i := range 3 {
		p.send(t, "engine", "/read", fmt.Sprintf(`{"page":%d}`, i), fmt.Sprintf("scan-%d", i))
	}
	b := open(t, p, desk)
	b.visit("/letters")
	b.click("button", "Replay all")
	b.click("dialog button", "Replay")
	b.shows("#ask-progress", "Waiting")
	b.click("dialog button", "Stop")
	b.shows("#ask-progress", "Stopped: 0 of 3 replayed.")
	b.click("dialog button", "Close")
	require.EqualValues(t, 3, e.calls.Load())
	require.Len(t, p.letters(t, ""), 3)
}

func TestADialogIsNotStoppedByTheOneBeforeIt(t *testing.T) {
	e := newEngine(t, 400, refusal("this page is blank"))
	p := startProxy(t, account{"engine", "generic", e.URL, "auth: {type: none}"})
	p.send(t, "engine", "/read", "{}", "scan")
	b := open(t, p, desk)
	b.visit("/letters")
	b.click("button", "Replay all")
	b.shows("#ask-text", "This makes 1 call")
	js[any](b, `document.getElementById("ask-end").click(), document.querySelector("[data-act=replay]").click(), null`) // the browser tells of a close later
	b.shows("#ask-text", "This makes 1 call")
	b.click("dialog button", "Replay")
	b.shows("#ask-progress", "1 failed again.")
}

func TestWhatMayBeChargedTwiceIsAskedForApart(t *testing.T) {
	sim := startSim(t, "textract", "lose times=1")
	p := startProxy(t, account{"textract", "textract", sim, "auth: {type: none}, inject_token: false"})
	p.send(t, "textract", "/", `{"DocumentLocation":{"S3Object":{"Bucket":"b","Name":"n.pdf"}}}`, "scan", "X-Amz-Target: Textract.StartDocumentTextDetection", "Content-Type: application/x-amz-json-1.1")
	b := open(t, p, phone)
	b.visit("/letters")
	b.shows("main", "scan")
	b.click("button", "Replay all")
	b.shows("#ask-text", "may have been done and charged already")
	b.shoot("ambiguous")
	b.click("dialog button", "Replay")
	b.shows("#ask-progress", "0 of 1 replayed.")
	b.shows("#ask-progress", "not done: ")
	b.shoot("ambiguous-refused")
	b.click("dialog button", "Close")
	b.click("button", "Replay all")
	b.shows("#ask-text", "charged already")
	b.do(chromedp.Click(chromedp.CSS("#ask-even")))
	b.click("dialog button", "Replay")
	b.shows("#ask-progress", "1 of 1 replayed.")
}

// The other tests are worth something only if the tab notices.
func TestTheTabNotices(t *testing.T) {
	p := startProxy(t, account{"engine", "generic", "http://127.0.0.1:1", "auth: {type: none}"})
	b := watched(t, p, desk)
	b.visit("/")
	for what, code := range map[string]string{
		"Content Security Policy": `document.body.append(Object.assign(document.createElement("script"), { textContent: "1" }))`,
		"asks http://127.0.0.1:1": `document.body.append(Object.assign(document.createElement("a"), { href: "http://127.0.0.1:1/", id: "away" })), document.getElementById("away").click()`,
		"opens an alert":          `setTimeout(() => alert("boo"))`,
		"exception":               `setTimeout(() => { throw new Error("boo"); })`,
	} {
		js[any](b, code+", null")
		eventually(t, what+" is noticed", func() bool { return strings.Contains(strings.Join(b.seen(), "\n"), what) })
		b.visit("/")
	}
}
