package sim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// tesseractTimeout bounds the work on one document.
	tesseractTimeout = 2 * time.Minute
	// renderDPI is the resolution at which PDF pages are drawn.
	renderDPI = 200
	// maxRenderedPages bounds how much of a PDF is read.
	maxRenderedPages = 50
)

// Tesseract is the engine that really reads, with the tesseract program. PDF pages are drawn by pdftoppm where that is
// installed; without it a PDF is refused with ErrUnsupported, and beyond its 50th page it is not read. At most as many
// documents as there are CPUs are read at once, each for two minutes at most.
type Tesseract struct {
	program string
	drawer  string // Empty without pdftoppm.
	slots   chan struct{}
}

// NewTesseract finds the programs. The error says how to install tesseract where it is missing.
func NewTesseract() (*Tesseract, error) {
	program, err := exec.LookPath("tesseract")
	if err != nil {
		return nil, fmt.Errorf("the engine tesseract needs the program of that name: apt-get install tesseract-ocr (%w)", err)
	}
	drawer, err := exec.LookPath("pdftoppm")
	if err != nil {
		drawer = ""
	}
	return &Tesseract{program: program, drawer: drawer, slots: make(chan struct{}, runtime.NumCPU())}, nil
}

// Read returns the words that tesseract finds. An unreadable image gives ErrBroken.
func (t *Tesseract) Read(ctx context.Context, doc Document) ([]Page, error) {
	if doc.Format == FormatPDF && t.drawer == "" {
		return nil, fmt.Errorf("%w: a PDF needs pdftoppm, apt-get install poppler-utils", ErrUnsupported)
	}
	ctx, cancel := context.WithTimeout(ctx, tesseractTimeout)
	defer cancel()
	select {
	case t.slots <- struct{}{}:
		defer func() { <-t.slots }()
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for tesseract: %w", ctx.Err())
	}
	dir, err := os.MkdirTemp("", "ocr-sim-")
	if err != nil {
		return nil, fmt.Errorf("making a folder for the document: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	file := filepath.Join(dir, "document")
	if err := os.WriteFile(file, doc.Data, 0o600); err != nil {
		return nil, fmt.Errorf("storing the document: %w", err)
	}
	images := []string{file}
	if doc.Format == FormatPDF {
		if images, err = t.draw(ctx, dir, file); err != nil {
			return nil, err
		}
	}
	var pages []Page
	for _, image := range images {
		tsv, err := run(ctx, t.program, image, "stdout", "-l", "eng", "--psm", "3", "tsv")
		if err != nil {
			return nil, err
		}
		found, err := parseTSV(tsv)
		if err != nil {
			return nil, err
		}
		pages = append(pages, found...)
	}
	return pages, nil
}

// draw turns the pages of a PDF into images, in order.
func (t *Tesseract) draw(ctx context.Context, dir, file string) ([]string, error) {
	if _, err := run(ctx, t.drawer, "-r", strconv.Itoa(renderDPI), "-l", strconv.Itoa(maxRenderedPages), "-png",
		file, filepath.Join(dir, "page")); err != nil {
		return nil, err
	}
	images, err := filepath.Glob(filepath.Join(dir, "page*.png"))
	if err != nil {
		return nil, fmt.Errorf("looking for the pages: %w", err)
	}
	if len(images) == 0 {
		return nil, fmt.Errorf("%w: it has no page that can be drawn", ErrBroken)
	}
	slices.Sort(images) // pdftoppm pads the numbers to one width.
	return images, nil
}

// run returns the program's output. A program that ran and failed blames the document.
func run(ctx context.Context, program string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, program, args...)    //nolint:gosec // Programs found at start, file names of our own.
	cmd.Env = append(os.Environ(), "OMP_THREAD_LIMIT=1") // The slots already use every CPU.
	cmd.WaitDelay = time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	name := filepath.Base(program)
	if ctx.Err() != nil {
		return nil, fmt.Errorf("%s: %w", name, context.Cause(ctx))
	}
	if _, ok := errors.AsType[*exec.ExitError](err); ok {
		message := strings.Join(strings.Fields(stderr.String()), " ")
		return nil, fmt.Errorf("%w: %s: %w: %s", ErrBroken, name, err, message[:min(len(message), 300)])
	}
	if err != nil {
		return nil, fmt.Errorf("running %s: %w", name, err)
	}
	return stdout.Bytes(), nil
}

// parseTSV reads tesseract's table: a row of level 1 begins a page and gives its size, level 4 a line, level 5 is a word.
func parseTSV(tsv []byte) ([]Page, error) {
	const (
		level, left, top, width, height, conf, text = 0, 6, 7, 8, 9, 10, 11
		columns                                     = 12
	)
	var pages []Page
	for row := range strings.Lines(string(tsv)) {
		cells := strings.SplitN(strings.TrimRight(row, "\r\n"), "\t", columns)
		if len(cells) < columns || cells[level] == "level" {
			continue
		}
		var numbers [columns]float64
		for i := range text {
			n, err := strconv.ParseFloat(cells[i], 64)
			if err != nil {
				return nil, fmt.Errorf("tesseract's table: %q is no number", cells[i])
			}
			numbers[i] = n
		}
		if numbers[level] == 1 {
			if !(numbers[width] >= 1 && numbers[height] >= 1 && numbers[width] < 1e6 && numbers[height] < 1e6) {
				return nil, errors.New("tesseract's table: a page without a size")
			}
			pages = append(pages, Page{Width: int(numbers[width]), Height: int(numbers[height])})
			continue
		}
		if len(pages) == 0 {
			return nil, errors.New("tesseract's table: no page before the first block")
		}
		page := &pages[len(pages)-1]
		switch word := strings.TrimSpace(cells[text]); {
		case numbers[level] == 4:
			page.Lines = append(page.Lines, Line{})
		case numbers[level] == 5 && word != "" && numbers[conf] >= 0 && len(page.Lines) > 0:
			w, h := float64(page.Width), float64(page.Height)
			line := &page.Lines[len(page.Lines)-1]
			line.Words = append(line.Words, Word{
				Text:       word,
				Box:        boxWithin(numbers[left]/w, numbers[top]/h, numbers[width]/w, numbers[height]/h),
				Confidence: min(1, numbers[conf]/100),
			})
		}
	}
	for i := range pages {
		pages[i].Lines = slices.DeleteFunc(pages[i].Lines, func(l Line) bool { return len(l.Words) == 0 })
	}
	return pages, nil
}

// boxWithin keeps a box on its page.
func boxWithin(left, top, width, height float64) Box {
	unit := func(v float64) float64 {
		if !(v > 0) { // NaN as well.
			return 0
		}
		return min(1, v)
	}
	b := Box{Left: unit(left), Top: unit(top)}
	b.Width, b.Height = min(unit(width), 1-b.Left), min(unit(height), 1-b.Top)
	return b
}
