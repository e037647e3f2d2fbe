package dlq

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Finding is one thing that is wrong with a store.
type Finding struct {
	// Path is the file concerned, relative to the store.
	Path string `json:"path"`
	// Problem says what is wrong with it.
	Problem string `json:"problem"`
}

// Move is a file that was put into quarantine.
type Move struct {
	// From is where it lay, relative to the store.
	From string `json:"from"`
	// Path is where it lies now, likewise.
	Path string `json:"path"`
	// Problem says what is wrong with it.
	Problem string `json:"problem"`
}

// Report is what [Verify] found.
type Report struct {
	// Dir is the store, to which all paths are relative.
	Dir string `json:"dir"`
	// Letters counts the readable letters by status.
	Letters map[string]int `json:"letters"`
	// Payloads counts the payloads that letters lead to and that are whole.
	Payloads int `json:"payloads"`
	// Quarantined lists the letters and the records of jobs that were unreadable.
	Quarantined []Move `json:"quarantined"`
	// Unread lists the letters and the records of jobs that cannot be read now. They stay where they are.
	Unread []Finding `json:"unread"`
	// Broken lists the letters whose payload is missing or has another content.
	Broken []Finding `json:"broken"`
	// Orphans lists payloads and results that no readable letter leads to, relative to the store. They waste room
	// and harm nothing. One may belong to a letter in quarantine, or to one that a running proxy was writing.
	// None are looked for while something is unread, to which any of them may belong.
	Orphans []string `json:"orphans"`
	// Unfinished counts the files in tmp, which the next start of the proxy removes.
	Unfinished int `json:"unfinished"`
	// InQuarantine counts all files in quarantine, those of earlier times included.
	InQuarantine int `json:"in_quarantine"`
}

// OK tells whether nothing is wrong: orphans, unfinished files and what was put into quarantine earlier are not.
func (r Report) OK() bool { return len(r.Quarantined)+len(r.Unread)+len(r.Broken) == 0 }

// Verify reads every letter, every payload of one and every record of a job in dir. Unreadable letters
// and records move to quarantine, and moved, unless nil, is told of each at once: whatever ends this process,
// nobody has to search for a file. Nothing is deleted and nothing else is changed. It may run
// beside the process that owns the store, since that never leaves half a letter under its final name.
func Verify(dir string, moved func(Move)) (Report, error) {
	if _, err := View(dir); err != nil {
		return Report{}, err
	}
	v := verification{
		dir:       dir,
		moved:     moved,
		report:    Report{Dir: dir, Letters: map[string]int{}, Quarantined: []Move{}, Unread: []Finding{}, Broken: []Finding{}, Orphans: []string{}},
		payloads:  map[string]string{},
		letters:   map[string]string{},
		wantedSum: map[string]struct{}{},
	}
	// Files are listed before the letters are read: a letter that is written
	// meanwhile then does not look as if its payload were missing.
	files, err := v.listFiles(payloadsFolder, resultsFolder)
	if err != nil {
		return v.report, fmt.Errorf("list payloads: %w", err)
	}
	for _, status := range statuses() {
		if err := v.readLetters(status); err != nil {
			return v.report, err
		}
	}
	if err := v.readJobs(); err != nil {
		return v.report, err
	}
	if len(v.report.Unread) == 0 {
		v.findOrphans(files)
	}
	if v.report.Unfinished, err = v.count(tmpFolder); err != nil {
		return v.report, err
	}
	v.report.InQuarantine, err = v.count(quarantineFolder)
	return v.report, err
}

type verification struct {
	dir       string
	moved     func(Move)
	report    Report
	letters   map[string]string   // Status by id.
	payloads  map[string]string   // Problem by hash, empty for a whole payload.
	wantedSum map[string]struct{} // Hashes that letters lead to.
}

// listFiles gives the files below the folders, relative to the store and with slashes.
func (v *verification) listFiles(folders ...string) (files []string, err error) {
	for _, folder := range folders {
		err := fs.WalkDir(os.DirFS(v.dir), folder, func(name string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err == nil && !d.IsDir() {
				files = append(files, name)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return files, nil
}

func (v *verification) readLetters(status string) error {
	names, err := letterNames(filepath.Join(v.dir, status))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("list dead letters: %w", err)
	}
	for _, name := range names {
		e, _, err := readEnvelope(filepath.Join(v.dir, status, name))
		if err == nil {
			v.check(status, e)
		} else if err := v.setAside(status, name, err); err != nil {
			return err
		}
	}
	return nil
}

// setAside does so and puts it into the report.
func (v *verification) setAside(folder, name string, reason error) error {
	to, err := setAside(v.dir, folder, name, reason)
	switch {
	case errors.Is(err, ErrUnread):
		v.report.Unread = append(v.report.Unread, Finding{path.Join(folder, name), reason.Error()})
	case folderMissing(err): // Another was faster.
	case err != nil:
		return err
	case to != "":
		m := Move{path.Join(folder, name), path.Join(quarantineFolder, filepath.Base(to)), reason.Error()}
		v.report.Quarantined = append(v.report.Quarantined, m)
		if v.moved != nil {
			v.moved(m)
		}
	}
	return nil
}

// check looks at a readable letter and what it leads to.
func (v *verification) check(status string, e *Envelope) {
	file := path.Join(status, fileName(e.ID))
	if before, twice := v.letters[e.ID]; twice {
		// Usually it only moved while the folders were read.
		for _, in := range []string{before, status} {
			if _, err := os.Lstat(filepath.Join(v.dir, in, fileName(e.ID))); err != nil {
				return
			}
		}
		v.report.Broken = append(v.report.Broken, Finding{file, "the letter lies in " + before + " too"})
	}
	v.letters[e.ID] = status
	v.report.Letters[status]++
	if e.Job != nil && e.Job.Start != nil {
		v.wantedSum[e.Job.Start.BodySHA256] = struct{}{}
	}
	sum, ok := payloadSum(e.RawPayloadRef)
	if !ok {
		if e.RawPayloadRef != "" && !strings.Contains(e.RawPayloadRef, "://") {
			v.report.Broken = append(v.report.Broken, Finding{file, fmt.Sprintf("raw_payload_ref %q leads nowhere", e.RawPayloadRef)})
		}
		return // No payload was kept, or it lies in another place.
	}
	v.wantedSum[sum] = struct{}{}
	problem, known := v.payloads[sum]
	if !known {
		problem = v.checkPayload(sum)
		v.payloads[sum] = problem
		if problem == "" {
			v.report.Payloads++
		}
	}
	if problem == "" && e.Request.BodySHA256 != sum {
		problem = "request.body_sha256 names another content than raw_payload_ref"
	}
	if problem != "" {
		v.report.Broken = append(v.report.Broken, Finding{file, problem})
	}
}

// checkPayload says what is wrong with a payload, or nothing.
func (v *verification) checkPayload(sum string) (problem string) {
	ref := payloadRef(sum)
	f, err := os.Open(filepath.Join(v.dir, filepath.FromSlash(ref)))
	if errors.Is(err, fs.ErrNotExist) {
		return "its payload " + ref + " is missing"
	}
	if err != nil {
		return "its payload cannot be read: " + err.Error()
	}
	defer f.Close() //nolint:errcheck // Nothing was written.
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "its payload cannot be read: " + err.Error()
	}
	if hex.EncodeToString(h.Sum(nil)) != sum {
		return "its payload " + ref + " has another content than when it was stored"
	}
	return ""
}

func (v *verification) findOrphans(files []string) {
	for _, file := range files {
		if sum, ok := payloadSum(file); ok {
			if _, wanted := v.wantedSum[sum]; wanted {
				continue
			}
		} else if _, wanted := v.letters[path.Base(file)]; wanted && path.Dir(file) == resultsFolder {
			continue
		}
		v.report.Orphans = append(v.report.Orphans, file)
	}
	slices.Sort(v.report.Orphans)
}

// count gives the number of files in a folder; a folder that is missing has none.
func (v *verification) count(folder string) (int, error) {
	files, err := os.ReadDir(filepath.Join(v.dir, folder))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	return len(files), err
}
