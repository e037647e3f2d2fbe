package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"strings"
	"sync"
	"time"
)

// textractToken is what ClientRequestToken may look like.
var textractToken = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// textractJobs are the asynchronous jobs, of which the oldest are forgotten.
type textractJobs struct {
	mu     sync.Mutex // Makes one step of claiming a token and storing its job.
	jobs   *ledger[textractJob]
	tokens *ledger[tokenUse]
}

type textractJob struct {
	api    string // What follows Start and Get in the operations' names.
	ready  time.Time
	result object
}

// tokenUse remembers what a client token was first used for.
type tokenUse struct {
	params string
	jobID  string
}

func newTextractJobs() *textractJobs {
	return &textractJobs{jobs: newLedger[textractJob](), tokens: newLedger[tokenUse]()}
}

// start begins a job. The same token with the same parameters names the same job, which runs and costs once; with other
// parameters it is an error. A token belongs to one operation.
func (t *textract) start(ctx context.Context, c *call, req textractRequest) (object, reply, error) {
	if req.DocumentLocation == nil || req.DocumentLocation.S3Object == nil {
		return nil, reply{}, &textractError{"InvalidParameterException", "Request has invalid parameters: DocumentLocation.S3Object"}
	}
	where := req.DocumentLocation.S3Object
	if err := where.validate(); err != nil {
		return nil, reply{}, err
	}
	if err := checkFeatures(c.operation, req.FeatureTypes); err != nil {
		return nil, reply{}, err
	}
	params, err := canonicalParams(c.body)
	if err != nil {
		return nil, reply{}, err
	}
	_, pages, err := t.scanner.reference(ctx, where.where())
	if err != nil {
		return nil, reply{}, err
	}
	api := strings.TrimPrefix(c.operation, "Start")
	jobID, fresh, err := t.jobs.open(req.ClientRequestToken, params,
		strings.ReplaceAll(c.ids.uuid()+c.ids.uuid(), "-", ""), textractJob{
			api:    api,
			ready:  time.Now().Add(c.plan.jobTime),
			result: textractResult(api, pages, req.FeatureTypes, c.ids),
		})
	if err != nil {
		return nil, reply{}, err
	}
	if !fresh {
		return object{"JobId": jobID}, reply{}, nil
	}
	return object{"JobId": jobID}, reply{pages: len(pages), jobs: 1}, nil
}

// open stores a job under newID, or finds the one that the token was used for before.
func (j *textractJobs) open(token *string, params, newID string, job textractJob) (id string, fresh bool, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if token != nil {
		if !textractToken.MatchString(*token) {
			return "", false, &textractError{"InvalidParameterException", "Request has invalid parameters: ClientRequestToken"}
		}
		first, fresh := j.tokens.claim(job.api+"/"+*token, tokenUse{params: params, jobID: newID})
		switch {
		case first.params != params:
			return "", false, &textractError{
				"IdempotentParameterMismatchException",
				"A ClientRequestToken was reused with other parameters",
			}
		case !fresh:
			return first.jobID, false, nil
		}
	}
	j.jobs.put(newID, job)
	return newID, true, nil
}

// result is the answer to a poll of a job of the given API.
func (j *textractJobs) result(api, jobID string) (object, error) {
	job, ok := j.jobs.get(jobID)
	if !ok || job.api != api {
		return nil, &textractError{"InvalidJobIdException", "Request has an invalid job id"}
	}
	if time.Now().Before(job.ready) {
		return object{"JobStatus": "IN_PROGRESS"}, nil
	}
	body := object{"JobStatus": "SUCCEEDED"}
	maps.Copy(body, job.result)
	return body, nil
}

// canonicalParams is the request without its token, the same for every order of keys.
func canonicalParams(body []byte) (string, error) {
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	var params object
	if err := dec.Decode(&params); err != nil {
		return "", fmt.Errorf("reading the parameters: %w", err)
	}
	delete(params, "ClientRequestToken")
	text, err := json.Marshal(params)
	if err != nil {
		return "", fmt.Errorf("writing the parameters: %w", err)
	}
	return string(text), nil
}
