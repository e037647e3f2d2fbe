// Package browser opens the page for people in a real browser, in front of a real proxy, and clicks through it.
package browser

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
)

// Set once by TestMain, before any test runs.
var (
	binary   string          // ocr-proxy
	chromium context.Context // a running browser
)

func TestMain(m *testing.M) {
	code, err := setUp(m.Run)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func setUp(run func() int) (int, error) {
	path, err := findBrowser()
	if err != nil {
		return 0, err
	}
	dir, err := os.MkdirTemp("", "ocr-proxy-browser-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "ocr-proxy")
	build := exec.Command("go", "build", "-o", binary, "./cmd/ocr-proxy")
	build.Dir = filepath.Join("..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("building ocr-proxy: %w\n%s", err, out)
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.UserDataDir(filepath.Join(dir, "profile")))
	if os.Getuid() == 0 {
		options = append(options, chromedp.NoSandbox) // Chromium refuses to run as root with one
	}
	allocator, end := chromedp.NewExecAllocator(context.Background(), options...)
	defer end()
	ctx, quit := chromedp.NewContext(allocator)
	defer quit()
	chromium = ctx //nolint:fatcontext // one browser for all tests
	if err := chromedp.Do(chromium); err != nil {
		return 0, fmt.Errorf("starting %s: %w", path, err)
	}
	return run(), nil
}

// findBrowser looks for a browser of Chromium's kind; BROWSER_PATH names another one.
func findBrowser() (string, error) {
	if path := os.Getenv("BROWSER_PATH"); path != "" {
		return path, nil
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "headless-shell", "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("there is no chromium or google-chrome in PATH: install one (Debian: apt-get install chromium), or name it in BROWSER_PATH")
}
