package dlq

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// started is the record of a job that a call has started.
func started(id, call string) *JobRecord {
	return &JobRecord{
		Account: "acct", Kind: "textract", Operation: "StartDocumentAnalysis", JobID: id, DocumentID: "doc-" + id, Tenant: "t",
		IdempotencyKey: hexSum("doc " + id), RequestFingerprint: hexSum("request"), CallID: call, Credential: "c", Token: "token-" + call,
		Start:     Request{Method: "POST", Path: "/", ContentType: "application/json"},
		Answer:    JobAnswer{Status: 200, Headers: map[string][]string{"Content-Type": {"application/json"}}, Body: `{"JobId":"` + id + `"}`},
		ExpiresAt: time.Now().Add(time.Hour),
	}
}

func putJob(t testing.TB, s *Store, r *JobRecord, body string) {
	t.Helper()
	require.NoError(t, s.PutJob(t.Context(), r, strings.NewReader(body)))
}

func keyFor(call string) CallKey {
	return CallKey{Account: "acct", Credential: "c", Fingerprint: hexSum("request"), CallID: call, Token: "token-" + call}
}

func jobMetric(t testing.TB, o Options, name string) float64 {
	t.Helper()
	families, err := gather(o)
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == name {
			sum := 0.0
			for _, m := range f.GetMetric() {
				sum += m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
			return sum
		}
	}
	return -1
}

func TestAJobIsFoundByItsCallAndByItsNameAlsoAfterARestart(t *testing.T) {
	dir, o := t.TempDir(), keeping()
	s, err := Open(dir, o)
	require.NoError(t, err)
	r := started("j1", "call-1")
	putJob(t, s, r, "the document")
	for range 2 {
		for _, k := range []CallKey{keyFor("call-1"), {Account: "acct", Credential: "c", Fingerprint: hexSum("request"), Token: "token-call-1"}} {
			found := s.FindCall(k)
			require.Equal(t, r, found)
		}
		found := s.FindJob("acct", "j1")
		require.Equal(t, r, found)
		payload, err := s.JobPayload(found)
		require.NoError(t, err)
		text, err := io.ReadAll(payload)
		require.NoError(t, err)
		require.NoError(t, payload.Close())
		require.Equal(t, "the document", string(text))
		require.Equal(t, hexSum("the document"), found.Start.BodySHA256)
		require.InDelta(t, 1, jobMetric(t, o, "ocrproxy_jobs_open"), 0)
		require.InDelta(t, float64(folderBytes(dir)), metric(t, o, "bytes"), 0)
		checkModes(t, dir)

		require.NoError(t, s.Close())
		o = keeping()
		s, err = Open(dir, o)
		require.NoError(t, err)
	}
	s.EndJob("acct", "j1")
	require.Nil(t, s.FindJob("acct", "j1"))
	require.Nil(t, s.FindCall(keyFor("call-1")))
	require.Empty(t, files(t, dir, "jobs"))
	require.InDelta(t, 0, metric(t, o, "bytes"), 0)
	require.InDelta(t, 0, jobMetric(t, o, "ocrproxy_jobs_open"), 0, "the series stays")
	require.NoError(t, s.Close())
}

// What is no text is kept as well, and records from before that are read.
func TestAnAnswerIsKeptByteForByte(t *testing.T) {
	dir, o := t.TempDir(), keeping()
	s, err := Open(dir, o)
	require.NoError(t, err)
	bodies := map[string][]byte{
		"text": []byte(`{"JobId":"ä"}`), "none": nil, "frame": []byte("\x00\x00\x00\x00\x02ok"), "binary": {0, 0, 0, 0, 3, 0xff, 0x80, 0xfe}, "half": []byte("\xc3"),
		"marks": []byte("\u2028\u2029<>&\uFFFD\x7f"),
	}
	for id, body := range bodies {
		r := started(id, id)
		r.Answer.SetContent(body)
		putJob(t, s, r, "x")
	}
	putJob(t, s, started("old", "old"), "x")
	require.NoError(t, s.Close())
	s = newStore(t, dir, keeping())
	for id, body := range bodies {
		require.Equal(t, string(body), string(s.FindJob("acct", id).Answer.Content()), id)
	}
	require.JSONEq(t, `{"JobId":"old"}`, string(s.FindJob("acct", "old").Answer.Content()))
	text, err := os.ReadFile(filepath.Join(dir, "jobs", jobFile("acct", "old")))
	require.NoError(t, err)
	require.NotContains(t, string(text), "base64", "a text is written as before")
	text, err = os.ReadFile(filepath.Join(dir, "jobs", jobFile("acct", "binary")))
	require.NoError(t, err)
	require.Contains(t, string(text), `"body":"","body_base64":"AAAAAAP/gP4="`)

	r := started("again", "again")
	r.Answer.SetContent(bodies["binary"])
	r.Answer.SetContent(bodies["text"])
	require.Equal(t, bodies["text"], r.Answer.Content())
	require.Equal(t, string(bodies["text"]), r.Answer.Body, "people read it")
}

func TestAnotherCallIsNeverTheSame(t *testing.T) {
	s := newStore(t, t.TempDir(), keeping())
	putJob(t, s, started("j1", "call-1"), "x")
	nameless := started("j2", "")
	nameless.Token = ""
	putJob(t, s, nameless, "x")
	for name, change := range map[string]func(*CallKey){
		"account":     func(k *CallKey) { k.Account = "other" },
		"credential":  func(k *CallKey) { k.Credential = "other" },
		"fingerprint": func(k *CallKey) { k.Fingerprint = hexSum("other") },
		"call":        func(k *CallKey) { k.CallID, k.Token = "call-2", "token-2" },
		"nothing":     func(k *CallKey) { k.CallID, k.Token = "", "" },
		"swapped":     func(k *CallKey) { k.CallID, k.Token = k.Token, k.CallID },
	} {
		k := keyFor("call-1")
		change(&k)
		require.Nil(t, s.FindCall(k), name)
	}
	require.Nil(t, s.FindJob("other", "j1"))
	require.NotNil(t, s.FindCall(keyFor("call-1")))
}

func TestAFailedJobAnswersNoCallButIsStillKnown(t *testing.T) {
	dir, o := t.TempDir(), keeping()
	s, err := Open(dir, o)
	require.NoError(t, err)
	putJob(t, s, started("j1", "call-1"), "x")
	require.NoError(t, s.FailJob(t.Context(), "acct", "j1"))
	require.NoError(t, s.FailJob(t.Context(), "acct", "j1"), "once is enough")
	require.NoError(t, s.FailJob(t.Context(), "acct", "unknown"))
	require.NoError(t, s.Close())
	o = keeping()
	s = newStore(t, dir, o)
	require.Nil(t, s.FindCall(keyFor("call-1")))
	r := s.FindJob("acct", "j1")
	require.NotNil(t, r.FailedAt)
	payload, err := s.JobPayload(r)
	require.NoError(t, err)
	require.NoError(t, payload.Close())
	require.InDelta(t, 0, jobMetric(t, o, "ocrproxy_jobs_open"), 0)
	require.InDelta(t, float64(folderBytes(dir)), metric(t, o, "bytes"), 0)

	putJob(t, s, started("j1", "call-1"), "x")
	require.NotNil(t, s.FindCall(keyFor("call-1")), "the provider accepted it again")
}

func TestPayloadsOfJobsAreStoredOnceAndGoWithTheLast(t *testing.T) {
	dir, o := t.TempDir(), keeping()
	s := newStore(t, dir, o)
	putJob(t, s, started("j1", "1"), "same")
	putJob(t, s, started("j2", "2"), "same")
	putJob(t, s, started("j2", "2"), "same") // again
	payload := "jobs/payloads/" + hexSum("same")
	require.Contains(t, files(t, dir, "jobs"), payload)
	require.Len(t, files(t, dir, "jobs"), 3)
	s.EndJob("acct", "j1")
	require.Contains(t, files(t, dir, "jobs"), payload)
	s.EndJob("acct", "j2")
	s.EndJob("acct", "j2")
	require.Empty(t, files(t, dir, "jobs"))
	require.InDelta(t, 0, metric(t, o, "bytes"), 0)
}

func TestAJobsRecordIsDurableAfterItsPayload(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir, keeping())
	var order []string
	s.folders.sync = func(folder string) error {
		rel, err := filepath.Rel(dir, folder)
		require.NoError(t, err)
		order = append(order, filepath.ToSlash(rel)+" "+strconv.Itoa(len(files(t, dir, "jobs"))))
		return nil
	}
	putJob(t, s, started("j1", "1"), "x")
	require.Equal(t, []string{"jobs/payloads 1", "jobs 2"}, order)
}

func TestAFailedSyncKeepsNoJob(t *testing.T) {
	dir, o := t.TempDir(), keeping()
	s := newStore(t, dir, o)
	bad := errors.New("input/output error")
	for _, failing := range []string{"jobs", "payloads"} {
		s.folders.sync = func(folder string) error {
			if filepath.Base(folder) == failing {
				return bad
			}
			return nil
		}
		require.ErrorIs(t, s.PutJob(t.Context(), started("j1", "1"), strings.NewReader("x")), bad)
		require.Nil(t, s.FindCall(keyFor("1")))
		require.Nil(t, s.FindJob("acct", "j1"))
	}
	require.InDelta(t, 2, jobMetric(t, o, "ocrproxy_job_write_errors_total"), 0)
	require.Empty(t, files(t, dir, "tmp"))
	s.folders.sync = syncFolder
	putJob(t, s, started("j1", "1"), "x")
	require.InDelta(t, float64(folderBytes(dir)), metric(t, o, "bytes"), 0)

	s.folders.sync = func(string) error { return bad }
	require.ErrorIs(t, s.FailJob(t.Context(), "acct", "j1"), bad)
	require.NotNil(t, s.FindJob("acct", "j1"), "a record that is there already stays")
	require.InDelta(t, float64(folderBytes(dir)), metric(t, o, "bytes"), 0)
	s.EndJob("acct", "j1")
	require.Empty(t, files(t, dir, "jobs"))
	require.InDelta(t, 0, metric(t, o, "bytes"), 0)
}

func TestAFullStoreKeepsTheRecordWithoutItsPayloadOrNothing(t *testing.T) {
	dir, o := t.TempDir(), keeping()
	o.MaxBytes = 4000
	s := newStore(t, dir, o)
	r := started("j1", "1")
	putJob(t, s, r, strings.Repeat("x", 5000))
	require.Empty(t, s.FindCall(keyFor("1")).RawPayloadRef)
	_, err := s.JobPayload(r)
	require.ErrorIs(t, err, fs.ErrNotExist)
	var full error
	for i := range 10 {
		full = errors.Join(full, s.PutJob(t.Context(), started("more"+strconv.Itoa(i), strconv.Itoa(i)), nil))
	}
	require.ErrorIs(t, full, ErrFull)
	require.LessOrEqual(t, folderBytes(dir), o.MaxBytes)
	require.Positive(t, jobMetric(t, o, "ocrproxy_job_write_errors_total"))
}

func TestWithoutPayloadsOnlyTheHashIsKept(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir, Options{})
	putJob(t, s, started("j1", "1"), "x")
	r := s.FindJob("acct", "j1")
	require.Equal(t, []string{"", hexSum("x")}, []string{r.RawPayloadRef, r.Start.BodySHA256})
	require.Len(t, files(t, dir, "jobs"), 1)
}

func TestACrashLeavesWholeRecordsOnly(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir, keeping())
	require.NoError(t, err)
	putJob(t, s, started("j1", "1"), "x")
	putJob(t, s, started("j2", "2"), "y")
	require.NoError(t, s.Close())

	half := read(t, dir, "jobs", jobFile("acct", "j2"))
	write(t, half[:len(half)/2], dir, "jobs", jobFile("acct", "j2"))
	write(t, half, dir, "jobs", jobFile("acct", "elsewhere"))   // a whole record under another job's name
	write(t, "", dir, "jobs", jobFile("acct", "empty"))         // a disk that lost what it had confirmed
	write(t, half[:10], dir, "tmp", "put-1")                    // a write that was cut off
	write(t, "half a docum", dir, "tmp", "put-2")               // and its payload
	write(t, "young", dir, "jobs", "payloads", hexSum("young")) // a crash between payload and record
	write(t, "old", dir, "jobs", "payloads", hexSum("old"))     // and one of long ago
	long := time.Now().Add(-orphanAge - time.Hour)
	require.NoError(t, os.Chtimes(filepath.Join(dir, "jobs", "payloads", hexSum("old")), long, long))

	o := keeping()
	s = newStore(t, dir, o)
	require.NotNil(t, s.FindCall(keyFor("1")))
	require.Nil(t, s.FindCall(keyFor("2")))
	require.InDelta(t, 1, jobMetric(t, o, "ocrproxy_jobs_open"), 0)
	require.Len(t, files(t, dir, "quarantine"), 3)
	require.Empty(t, files(t, dir, "tmp"))
	left := files(t, dir, "jobs/payloads")
	require.Len(t, left, 3, "x, y whose record may be mended, and the young one")
	require.NotContains(t, left, "jobs/payloads/"+hexSum("old"))
	require.InDelta(t, float64(folderBytes(dir)), metric(t, o, "bytes"), 0)
}

func TestARecordThatBreaksWhileTheStoreIsOpenGoesToQuarantine(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir, keeping())
	putJob(t, s, started("j1", "1"), "x")
	putJob(t, s, started("j2", "2"), "x")
	write(t, "{", dir, "jobs", jobFile("acct", "j1"))
	require.NoError(t, os.Remove(filepath.Join(dir, "jobs", jobFile("acct", "j2"))))
	require.Nil(t, s.FindCall(keyFor("1")))
	require.Nil(t, s.FindJob("acct", "j2"))
	require.Len(t, files(t, dir, "quarantine"), 1)

	write(t, "{", dir, "jobs", jobFile("acct", "j3"))
	report, err := Verify(dir, nil)
	require.NoError(t, err)
	require.Len(t, report.Quarantined, 1)
	require.False(t, report.OK())
}

func TestExpiredJobsGo(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		o := keeping()
		s, err := Open(dir, o)
		require.NoError(t, err)
		putJob(t, s, started("j1", "1"), "x")
		time.Sleep(time.Hour)
		require.Nil(t, s.FindCall(keyFor("1")))
		require.Nil(t, s.FindJob("acct", "j1"))
		require.InDelta(t, 0, jobMetric(t, o, "ocrproxy_jobs_open"), 0)
		time.Sleep(sweepEvery)
		synctest.Wait()
		require.Empty(t, files(t, dir, "jobs"), "although no job was started since")
		putJob(t, s, started("j2", "2"), "y")
		require.NoError(t, s.Close())
		time.Sleep(2 * time.Hour)
		s, err = Open(dir, keeping())
		require.NoError(t, err)
		require.Empty(t, files(t, dir, "jobs"))
		require.NoError(t, s.Close())
	})
}

func TestTheOldestJobsMakeRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		s, err := Open(dir, keeping())
		require.NoError(t, err)
		s.jobs.limit = 3
		for i := range 5 {
			time.Sleep(time.Second)
			putJob(t, s, started("j"+strconv.Itoa(i), strconv.Itoa(i)), "x")
		}
		require.Nil(t, s.FindCall(keyFor("0")))
		require.Nil(t, s.FindCall(keyFor("1")))
		require.NotNil(t, s.FindCall(keyFor("2")))
		require.Len(t, files(t, dir, "jobs"), 4)
		require.NoError(t, s.Close())
	})
}

func TestJobsUnderManyHands(t *testing.T) {
	dir, o := t.TempDir(), keeping()
	s := newStore(t, dir, o)
	s.folders.sync = func(string) error { return nil }
	s.jobs.limit = 4
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			id := "j" + strconv.Itoa(i%8)
			if err := s.PutJob(context.Background(), started(id, id), strings.NewReader("body "+strconv.Itoa(i%3))); err != nil {
				t.Error(err)
			}
			s.FindCall(keyFor(id))
			if err := s.FailJob(context.Background(), "acct", id); err != nil {
				t.Error(err)
			}
			s.EndJob("acct", id)
		})
	}
	wg.Wait()
	for i := range 8 {
		s.EndJob("acct", "j"+strconv.Itoa(i))
	}
	require.Empty(t, files(t, dir, "jobs"))
	require.InDelta(t, 0, metric(t, o, "bytes"), 0)
}

func TestMarksAreEqualAcrossRestartsAndTellNothing(t *testing.T) {
	dir := t.TempDir()
	mark := func() string {
		s, err := Open(dir, Options{})
		require.NoError(t, err)
		m, err := s.Mark("Authorization", "Bearer secret")
		require.NoError(t, err)
		other, err := s.Mark("AuthorizationBearer", " secret")
		require.NoError(t, err)
		require.NotEqual(t, m, other)
		require.NoError(t, s.Close())
		return m
	}
	first := mark()
	require.Equal(t, first, mark())
	checkModes(t, dir)
	write(t, "damaged", dir, "jobs", "salt")
	require.NotEqual(t, first, mark())
	require.NotEqual(t, hexSum("AuthorizationBearer secret"), first)
}

func TestAClosedStoreTakesNoJobs(t *testing.T) {
	s, err := Open(t.TempDir(), keeping())
	require.NoError(t, err)
	putJob(t, s, started("j1", "1"), "x")
	require.NoError(t, s.Close())
	require.ErrorIs(t, s.PutJob(t.Context(), started("j2", "2"), nil), fs.ErrClosed)
	require.ErrorIs(t, s.FailJob(t.Context(), "acct", "j1"), fs.ErrClosed)
	s.EndJob("acct", "j1")
	require.NotNil(t, s.FindJob("acct", "j1"))
}

func TestARecordNeedsItsNames(t *testing.T) {
	s := newStore(t, t.TempDir(), keeping())
	for _, spoil := range []func(*JobRecord){
		func(r *JobRecord) { r.Account = "" }, func(r *JobRecord) { r.JobID = "" }, func(r *JobRecord) { r.ExpiresAt = time.Time{} },
	} {
		r := started("j", "1")
		spoil(r)
		require.Error(t, s.PutJob(t.Context(), r, nil))
	}
}

func FuzzDecodeJob(f *testing.F) {
	r := started("j1", "1")
	r.Schema = JobSchema
	whole, err := r.encode()
	require.NoError(f, err)
	f.Add(whole)
	f.Add([]byte(`{"schema":"ocr-proxy/job/v1","account":"a","job_id":"j","expires_at":"2026-01-01T00:00:00Z","start":{"headers":{"A":null}}}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := decodeJob(data)
		if err != nil {
			require.ErrorIs(t, err, ErrUnreadable)
			return
		}
		again, err := r.encode()
		if err != nil {
			t.Skip("a time that JSON cannot hold")
		}
		require.True(t, json.Valid(again))
		back, err := decodeJob(again)
		require.NoError(t, err)
		require.Equal(t, r.call(), back.call())
	})
}
