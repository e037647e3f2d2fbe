package browser

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// tab is a tab of the browser, in which nothing of other tabs is remembered. It notes what a page must not do.
type tab struct {
	t   *testing.T
	ctx context.Context
	own string // the only origin that may be asked

	mu       sync.Mutex
	problems []string
}

// open makes a tab whose test fails when its pages write an error to the console, offend their policy, ask another origin or open an alert.
func open(t *testing.T, p *proxy, width int64) *tab {
	t.Helper()
	b := watched(t, p, width)
	t.Cleanup(func() {
		if t.Failed() {
			b.shoot("failed-" + strings.ReplaceAll(t.Name(), "/", "-"))
		}
		require.Empty(t, b.seen())
	})
	return b
}

// watched is open for who looks at the problems alone.
func watched(t *testing.T, p *proxy, width int64) *tab {
	t.Helper()
	ctx, end := chromedp.NewContext(chromium, chromedp.WithNewBrowserContext())
	t.Cleanup(end)
	b := &tab{t: t, ctx: ctx, own: p.admin}
	b.do(chromedp.EmulateViewport(width, 900))
	require.NoError(t, chromedp.Listen(ctx, func(event any) {
		switch e := event.(type) {
		case *network.EventRequestWillBeSent:
			if !strings.HasPrefix(e.Request.URL, b.own+"/") && !strings.HasPrefix(e.Request.URL, "data:") {
				b.note("asks " + e.Request.URL)
			}
		case *page.EventJavascriptDialogOpening:
			b.note("opens an alert: " + e.Message)
			go func() { _, _ = chromedp.Call(ctx, page.HandleJavaScriptDialog, page.HandleJavaScriptDialogParams{}) }()
		}
	}))
	_, err := chromedp.Call(ctx, network.Enable, network.EnableParams{})
	require.NoError(t, err)
	messages := chromedp.Console(ctx)
	go func() { // ends with the tab
		for m, err := range messages {
			if err != nil {
				return
			}
			refusal := m.Source == "network" && strings.Contains(m.URL, "/api/v1/dead-letters/") // the API's no, which the page shows
			if (m.Type == chromedp.ConsoleError || m.IsException() || m.Source == "security") && !refusal {
				b.note(fmt.Sprintf("%s: %s", m.Type, m.Text))
			}
		}
	}()
	return b
}

func (b *tab) note(problem string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.problems = append(b.problems, problem)
}

func (b *tab) seen() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.problems
}

func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	require.NoError(b.t, chromedp.Do(b.ctx, steps...))
}

// visit opens a page of the listener.
func (b *tab) visit(path string) {
	b.t.Helper()
	b.do(chromedp.Navigate(b.own + path))
}

// js evaluates an expression in the page.
func js[T any](b *tab, expression string) T {
	b.t.Helper()
	var v T
	eventually(b.t, "a page in which "+expression, func() bool {
		var err error
		v, err = chromedp.Run(b.ctx, chromedp.Evaluate[T](expression))
		if err != nil && strings.Contains(err.Error(), "navigated") { // away, in this moment
			return false
		}
		require.NoError(b.t, err, expression)
		return true
	})
	return v
}

// click clicks what is found by a selector and shows, among those the first that has the text.
func (b *tab) click(selector, text string) {
	b.t.Helper()
	find := fmt.Sprintf("[...document.querySelectorAll(%q)].find((e) => e.checkVisibility() && e.textContent.includes(%q))", selector, text)
	eventually(b.t, "a "+selector+" that says "+text, func() bool {
		return js[bool](b, fmt.Sprintf("(() => { const e = %s; if (!e || e.disabled) return false; document.querySelectorAll('[data-clicked]').forEach((old) => delete old.dataset.clicked); e.scrollIntoView({ block: 'center' }); e.dataset.clicked = ''; return true; })()", find))
	})
	b.do(chromedp.Click(chromedp.CSS("[data-clicked]")))
}

// follow clicks a link and waits for the page behind it.
func (b *tab) follow(selector, text string) {
	b.t.Helper()
	before := js[string](b, "location.href")
	b.click(selector, text)
	eventually(b.t, "another page than "+before, func() bool {
		return js[bool](b, fmt.Sprintf("location.href !== %q && document.readyState === 'complete'", before))
	})
}

func (b *tab) fill(selector, text string) {
	b.t.Helper()
	b.do(chromedp.SetValue(chromedp.CSS(selector), text))
}

// shows waits until an element that shows has the text.
func (b *tab) shows(selector, text string) {
	b.t.Helper()
	last := ""
	defer func() {
		if b.t.Failed() {
			b.t.Logf("%s has %q", selector, last)
		}
	}()
	eventually(b.t, selector+" shows "+strconv.Quote(text), func() bool {
		last = js[string](b, fmt.Sprintf("[...document.querySelectorAll(%q)].filter((e) => e.checkVisibility()).map((e) => e.innerText).join(' | ')", selector))
		return strings.Contains(last, text)
	})
}

// fits asks that nothing is cut off or has to be scrolled to the side.
func (b *tab) fits() {
	b.t.Helper()
	require.Empty(b.t, js[[]string](b, `[...document.querySelectorAll("body *")].filter((e) => e.checkVisibility() && !e.closest("svg") && e.getBoundingClientRect().right > innerWidth + 1).map((e) => e.outerHTML.slice(0, 120))`), "too wide")
}

// shoot writes what shows into the folder BROWSER_SCREENSHOTS, light and dark.
func (b *tab) shoot(name string) {
	b.t.Helper()
	dir := os.Getenv("BROWSER_SCREENSHOTS")
	if dir == "" {
		return
	}
	for _, scheme := range []string{"light", "dark"} {
		_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
		require.NoError(b.t, err)
		shot := chromedp.FullScreenshot(100)
		if js[bool](b, "document.getElementById('ask').open") { // over the page as it is scrolled
			shot = chromedp.CaptureScreenshot()
		}
		png, err := chromedp.Run(b.ctx, shot)
		require.NoError(b.t, err)
		require.NoError(b.t, os.MkdirAll(dir, 0o750))
		require.NoError(b.t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s-%d-%s.png", name, js[int](b, "innerWidth"), scheme)), png, 0o600))
	}
}
