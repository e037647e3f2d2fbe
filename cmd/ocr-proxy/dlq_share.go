package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ocr-proxy/ocr-proxy/internal/admin"
)

// shareTime is how long a proxy may take to tell of its last hour.
const shareTime = 2 * time.Second

// share says, account by account, how many of the last hour's requests ended as dead letters. Only a running proxy knows; where none answers, or
// the configuration that leads to it is not given, it is empty.
func (f *dlqFlags) share(cmd *cobra.Command) string {
	dir, err := f.folder(cmd)
	if err != nil {
		return ""
	}
	proxy, err := f.proxyOf(dir)
	if err != nil || proxy == nil {
		return ""
	}
	defer proxy.Close()
	ctx, cancel := context.WithTimeout(cmd.Context(), shareTime)
	defer cancel()
	var said struct {
		Providers []admin.Account `json:"providers"`
	}
	if proxy.Do(ctx, http.MethodGet, "/api/v1/providers", nil, &said) != nil {
		return ""
	}
	var parts []string
	for _, a := range said.Providers {
		if h := a.LastHour; h.Requests > 0 && (f.filter.Provider == "" || f.filter.Provider == a.Name) {
			parts = append(parts, fmt.Sprintf("%s %d of %d (%.1f %%)", printable(a.Name), h.DeadLettered, h.Requests, 100*float64(h.DeadLettered)/float64(h.Requests)))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "requests of the last hour that ended as dead letters: " + strings.Join(parts, ", ") + "\n"
}
