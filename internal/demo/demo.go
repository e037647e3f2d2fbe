// Package demo tells the whole story of the proxy on one machine: simulated providers, the real proxy in front of them, a batch of pages, a
// throttling spell and an outage, and at the end a ledger in which workers, proxy, dead-letter folder and providers must agree.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/ocr-proxy/ocr-proxy/internal/dlq"
)

// Options say how the story is told.
type Options struct {
	// Seed is the source of the pages and of the providers' luck. Zero is a seed like any other.
	Seed uint64
	// Documents is the size of the batch, from MinDocuments to MaxDocuments, the damaged file included.
	Documents int
	// Discard removes the folder with configuration, log and dead letters at the end; false keeps it.
	Discard bool
	// Pace stretches the spells: 1 takes about twenty seconds, less is shorter. It must be above 0.
	Pace float64
	// Out is where the story is told.
	Out io.Writer
	// Terminal is true when Out can show a progress bar; otherwise plain lines are written.
	Terminal bool
	// Program is how the reader starts this program, for the commands that the end proposes.
	Program string
	// Show tells a person one dead letter of the store in dir.
	Show func(w io.Writer, dir string, letter dlq.Letter) error
	// Serve runs a whole proxy with this configuration, which logs to that file, until the context ends.
	Serve func(ctx context.Context, configPath, logPath string) error
}

// Check says which option is out of its range, if any is.
func (o Options) Check() error {
	if o.Documents < MinDocuments || o.Documents > MaxDocuments {
		return fmt.Errorf("%d documents: give %d to %d", o.Documents, MinDocuments, MaxDocuments)
	}
	if !(o.Pace > 0) { // written so that NaN is refused, too
		return fmt.Errorf("pace %v: must be above 0", o.Pace)
	}
	return nil
}

// Run tells the story. The error says what did not come out as told; when the context ends first, it says where the rest lies.
func Run(ctx context.Context, o Options) (err error) {
	if err := o.Check(); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "ocr-proxy-demo-")
	if err != nil {
		return fmt.Errorf("make a folder for the demo: %w", err)
	}
	if o.Discard {
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	err = o.run(ctx, dir)
	switch {
	case ctx.Err() == nil || err == nil:
		return err
	case o.Discard:
		return errors.New("interrupted before the story was over")
	}
	return fmt.Errorf("interrupted; what was written so far lies in %s", dir)
}

func (o Options) run(ctx context.Context, dir string) error {
	documents, err := Pages(o.Seed, o.Documents)
	if err != nil {
		return err
	}
	// What serves outlives an interruption, so that what is in progress ends in order.
	background := context.WithoutCancel(ctx)
	simulators, err := startSimulators(background, o.Seed, o.Pace)
	if err != nil {
		return err
	}
	defer simulators.close()
	settings, err := writeSettings(ctx, dir, simulators.addresses, o.Pace)
	if err != nil {
		return err
	}
	client := &http.Client{Timeout: 2 * time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: 2 * crewSize}}
	defer client.CloseIdleConnections()
	proxy, err := startProxy(ctx, o.Serve, settings, client)
	if err != nil {
		return err
	}
	books, err := o.tell(ctx, documents, simulators, settings, client)
	if stopped := proxy.stop(); err == nil {
		err = stopped
	}
	if err != nil {
		return err
	}
	return o.close(books, settings)
}

// tell sends the batch and gathers what everyone has to say about it.
func (o Options) tell(ctx context.Context, documents []Document, simulators *simulators, settings settings, client *http.Client) (*ledger, error) {
	intro := &sheet{w: o.Out}
	intro.line("%d pages, one of them damaged, go through a real proxy to three simulated providers.", len(documents))
	intro.line("%d workers send each page once; retries are the proxy's. No account, no cost, nothing but 127.0.0.1.\n", crewSize)
	intro.line("  configuration  %s\n  proxy's log    %s\n  metrics        http://%s/metrics\n", settings.config, settings.log, settings.admin)
	if intro.err != nil {
		return nil, intro.err
	}
	show := newDisplay(o.Out, o.Terminal, len(documents))
	watch := &watcher{client: client, admin: settings.admin, display: show}
	watching, enough := context.WithCancel(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		watch.watch(watching)
	}()
	crew := hire(ctx, &worker{client: client, listen: settings.listen, poll: paced(300*time.Millisecond, o.Pace)}, watch.hear)
	story := &story{plan: divide(documents), crew: crew, simulators: simulators, say: show.say, pace: o.Pace}
	err := story.tell(ctx)
	results := crew.dismiss()
	if err == nil {
		err = pause(ctx, 2*watchEvery) // so that the last news is told
	}
	enough()
	<-watched
	show.end()
	if err != nil {
		return nil, err
	}
	books := &ledger{documents: documents, results: results, simulated: simulators.stats()}
	if books.metrics, err = settled(ctx, client, settings.admin, books.workers("").requests); err != nil {
		return nil, err
	}
	reader, err := dlq.View(settings.letters)
	if err != nil {
		return nil, err
	}
	for letter, err := range reader.List(dlq.Filter{}) {
		if err != nil {
			return nil, fmt.Errorf("read the dead letters: %w", err)
		}
		books.letters = append(books.letters, letter)
	}
	return books, nil
}

// close shows the ledger, and fails when it does not come out.
func (o Options) close(books *ledger, settings settings) error {
	end := &sheet{w: o.Out}
	end.line("")
	end.err = errors.Join(end.err, o.show(books, settings))
	end.err = errors.Join(end.err, books.report(o.Out))
	if problems := books.audit(); len(problems) > 0 {
		return fmt.Errorf("the numbers do not add up:\n  %s", strings.Join(problems, "\n  "))
	}
	end.line("\nThe numbers of workers, proxy, dead-letter folder and providers agree: every document")
	end.line("was answered or dead-lettered once, and no page was paid for twice.")
	if !o.Discard {
		end.line("\nNext:  %s dlq list --dir %s", o.Program, settings.letters)
		end.line("       %s dlq top  --dir %s", o.Program, settings.letters)
	}
	return end.err
}

// show tells the dead letter of the damaged file, and where the whole of it is.
func (o Options) show(books *ledger, settings settings) error {
	letter, ok := books.damaged()
	if !ok {
		return nil // the audit says so
	}
	s := &sheet{w: o.Out}
	s.line("The dead letter of %s:\n", letter.DocumentID)
	if s.err != nil {
		return s.err
	}
	if err := o.Show(o.Out, settings.letters, letter); err != nil {
		return fmt.Errorf("show the dead letter %s: %w", letter.ID, err)
	}
	if !o.Discard {
		s.line("\nWhole: %s", filepath.Join(settings.letters, letter.Status, letter.ID+".json"))
	}
	s.line("")
	return s.err
}
