package demo

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// startTime is how long the proxy has to get ready.
const startTime = 20 * time.Second

// runningProxy is a proxy in this process.
type runningProxy struct {
	cancel context.CancelFunc
	ended  chan error
}

// startProxy returns when the proxy says that it is ready. It outlives ctx, so that an interruption first ends the workers.
func startProxy(ctx context.Context, serve func(ctx context.Context, configPath, logPath string) error, s settings, client *http.Client) (*runningProxy, error) {
	serving, cancel := context.WithCancel(context.WithoutCancel(ctx))
	p := &runningProxy{cancel: cancel, ended: make(chan error, 1)}
	go func() { p.ended <- serve(serving, s.config, s.log) }()
	for end := time.Now().Add(startTime); ; {
		select {
		case err := <-p.ended:
			cancel()
			return nil, fmt.Errorf("start the proxy: %w", errors.Join(err, ctx.Err()))
		default:
		}
		if ready(ctx, client, s.admin) {
			return p, nil
		}
		err := pause(ctx, 20*time.Millisecond)
		if err == nil && time.Now().After(end) {
			err = fmt.Errorf("the proxy was not ready within %s; its log is %s", startTime, s.log)
		}
		if err != nil {
			return nil, errors.Join(err, p.stop())
		}
	}
}

func ready(ctx context.Context, client *http.Client, admin string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+admin+"/readyz", http.NoBody)
	if err != nil {
		return false
	}
	resp, err := client.Do(req)
	if err != nil {
		return false
	}
	_ = resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// stop has the proxy drain and waits for its end.
func (p *runningProxy) stop() error {
	p.cancel()
	if err := <-p.ended; err != nil {
		return fmt.Errorf("the proxy did not end in order: %w", err)
	}
	return nil
}
