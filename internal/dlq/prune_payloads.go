package dlq

import (
	"context"
	"encoding/binary"
	"io"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/google/uuid"
)

// removePayloads removes the payloads that no letter leads to.
func (p *prune) removePayloads(ctx context.Context) error {
	if len(p.unclear) > 0 {
		return nil
	}
	return eachFile(ctx, p.store.path(payloadsFolder), func(shard fs.DirEntry) error {
		if !shard.IsDir() {
			return nil
		}
		return eachFile(ctx, p.store.path(payloadsFolder, shard.Name()), func(f fs.DirEntry) error {
			sum, ok := payloadSum(payloadsFolder + "/" + shard.Name() + "/" + f.Name())
			if !ok || p.wants(sum) {
				return nil
			}
			return p.removePayload(ctx, sum)
		})
	})
}

func (p *prune) wants(sum string) bool {
	_, wanted := slices.BinarySearch(p.wanted, sumMark(sumKey(sum)))
	return wanted
}

// removePayload removes one payload, unless a letter has come to need it. Its
// lock makes a writer of the same content wait, who then finds it gone.
func (p *prune) removePayload(ctx context.Context, sum string) error {
	key := sumKey(sum)
	unlock, err := p.store.contents.lock(ctx, key)
	if err != nil {
		return err
	}
	defer unlock()
	if p.store.pruning.needed(key) {
		return nil
	}
	path := p.store.path(payloadRef(sum))
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() {
		return nil // It has gone, or it is not ours.
	}
	p.remove(path, info.Size(), &p.report.Payloads)
	return nil
}

// lookIntoQuarantine finds what the letters there lead to, so that one that people mend still has its payload and its result.
func (p *prune) lookIntoQuarantine(ctx context.Context) error {
	return eachFile(ctx, p.store.path(quarantineFolder), func(f fs.DirEntry) error {
		id, _, _ := strings.Cut(f.Name(), letterSuffix)
		p.quarantined[id] = struct{}{}
		if sumKey(id) == (hashKey{}) { // Else it is the record of a job, whose payload lies elsewhere.
			p.readMentions(p.store.path(quarantineFolder, f.Name()))
		}
		return nil
	})
}

var (
	mentioned = regexp.MustCompile(`payloads/[0-9a-f]{2}/([0-9a-f]{64})`)
	noPayload = regexp.MustCompile(`"raw_payload_ref"\s*:\s*""`)
)

// readMentions keeps the payloads that an unreadable letter mentions. One that does not say whether it has a payload makes it unsafe to
// remove any.
func (p *prune) readMentions(path string) {
	f, err := os.Open(path) //nolint:gosec // A file of the store.
	if err != nil {
		if !folderMissing(err) {
			p.unclear[path] = struct{}{}
		}
		return
	}
	defer f.Close() //nolint:errcheck // Nothing was written.
	data, err := io.ReadAll(io.LimitReader(f, maxEnvelopeBytes))
	found := mentioned.FindAllSubmatch(data, -1)
	for _, m := range found {
		p.wanted = append(p.wanted, sumMark(sumKey(string(m[1]))))
	}
	if err != nil || len(found) == 0 && !noPayload.Match(data) {
		p.unclear[path] = struct{}{}
	}
}

// idMark and sumMark are the part of an id or a hash that is remembered of each letter. All of it would be three times as much.

func idMark(id string) uint64 {
	u, err := uuid.Parse(id)
	if err != nil {
		return 0
	}
	return binary.BigEndian.Uint64(u[8:]) // Its random part.
}

func sumMark(sum hashKey) uint64 { return binary.BigEndian.Uint64(sum[:8]) }
