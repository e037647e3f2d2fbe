package replay

import (
	"errors"
	"io"
	"io/fs"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/ocr-proxy/ocr-proxy/internal/dlq"
	"github.com/ocr-proxy/ocr-proxy/internal/proxy"
)

// send has the account run a claimed letter's request and settles the claim by what came of it.
func (r *Replayer) send(claim *dlq.Claim, account *proxy.Account, o order) (Result, error) {
	letter := claim.Envelope()
	result := Result{ID: letter.ID, Status: dlq.StatusOpen}
	payload, err := r.payload(claim)
	if err != nil {
		return result, errors.Join(err, r.release(claim, nil))
	}
	now := account.Replay(letter, payload, o.evenAmbiguous)
	result.Outcome, result.Attempts = string(now.Outcome), now.Attempts
	switch {
	case now.Refused != "":
		return result, errors.Join(&RefusedError{now.Refused}, r.release(claim, nil))
	case !now.NotBefore.IsZero():
		return result, errors.Join(&LaterError{At: now.NotBefore, Reason: "the circuit of account " + account.Name + " is open, or it is throttled"}, r.release(claim, nil))
	case now.Failure != nil:
		f := now.Failure
		result.ErrorClass, result.ErrorCode, result.Diagnostic, result.HTTPStatus = f.ErrorClass, f.ErrorCode, f.Diagnostic, f.HTTPStatus
		r.add(letter.Provider, failed)
		return result, r.release(claim, func(e *dlq.Envelope) { e.Replayed(f) })
	case now.Lost != nil:
		return result, r.lost(claim, now.Lost)
	}
	defer now.Answer.Release()
	result.HTTPStatus = status(now.Answer.Status())
	if err := r.resolve(claim, now.Answer); err != nil {
		return result, r.lost(claim, err)
	}
	r.kept()
	r.add(letter.Provider, succeeded)
	result.Status = dlq.StatusResolved
	return result, nil
}

// payload opens the letter's body; one that has none is empty.
func (r *Replayer) payload(claim *dlq.Claim) (io.ReadCloser, error) {
	if claim.Envelope().RawPayloadRef == "" {
		return http.NoBody, nil
	}
	body, err := claim.Payload()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &RefusedError{"its payload is gone from the folder: send the document again from its source, then discard the letter"}
	}
	return body, err
}

// pauses are between the tries to write down what a replay brought: a disk may be full for a moment, and the answer was paid for.
func pauses() []time.Duration {
	return []time.Duration{100 * time.Millisecond, time.Second, 5 * time.Second}
}

// persist tries a step of a claim until it is done.
func persist(step func() error) error {
	err := step()
	for _, pause := range pauses() {
		if err == nil || errors.Is(err, dlq.ErrSettled) {
			return nil // settled by a try that only failed to finish its words
		}
		if errors.Is(err, fs.ErrClosed) {
			break
		}
		time.Sleep(pause)
		err = step()
	}
	return err
}

// resolve keeps the answer and resolves the letter.
func (r *Replayer) resolve(claim *dlq.Claim, answer *proxy.Recording) error {
	resolution := dlq.Resolution{By: "replay", Note: "the answer is kept: dlq show --result writes it"}
	err := persist(func() error {
		body := answer.Open()
		defer func() { _ = body.Close() }()
		err := claim.Resolve(body, resolution)
		if err != nil && !errors.Is(err, dlq.ErrSettled) {
			r.hold(answer.Size())
		}
		return err
	})
	if err == nil || claim.ResolveKept(resolution) != nil {
		return err
	}
	r.log.Warn("a dead letter is resolved without the words that belong to it, its result is kept", zap.String("dead_letter_id", claim.Envelope().ID), zap.Error(err))
	return nil
}

// release puts a letter back. One that cannot be changed is put back as it was; one that cannot even be put back stays claimed until the proxy
// starts again.
func (r *Replayer) release(claim *dlq.Claim, update func(*dlq.Envelope)) error {
	err := persist(func() error { return claim.Release(update) })
	if err != nil && update != nil {
		r.log.Error("what came of a replay could not be written into its dead letter", zap.String("dead_letter_id", claim.Envelope().ID), zap.Error(err))
		err = claim.Release(nil)
	}
	if err != nil {
		r.log.Error("a dead letter could not be put back; it stays claimed until the proxy starts again", zap.String("dead_letter_id", claim.Envelope().ID), zap.Error(err))
	}
	return err
}

// lost puts back a letter whose answer was good and cannot be kept. Where that cannot be written into it, it stays claimed until the proxy
// starts again: open and without a word, it would be sent as if it had never been.
func (r *Replayer) lost(claim *dlq.Claim, why error) error {
	letter := claim.Envelope()
	r.add(letter.Provider, lost)
	err := persist(func() error {
		return claim.Release(func(e *dlq.Envelope) { e.Interrupted(time.Now(), dlq.ReplayNotKept) })
	})
	said := "the answer to a replay was good and could not be kept: its letter is open again, and the call was made"
	if err != nil {
		said = "the answer to a replay was good and could not be kept, and its letter neither: it stays claimed until the proxy starts again, and the call was made"
	}
	r.log.Error(said, zap.String("dead_letter_id", letter.ID), zap.Error(errors.Join(why, err)))
	return errors.Join(why, err)
}
