package proxy

import (
	"net/http"
	"sync/atomic"
)

// Live is the account behind a listener. An Account never changes; a change of its settings puts another one here, over the same breaker, queues
// and counts. A request takes the account once, when it begins, and ends under the settings that it began with.
type Live struct{ atomic.Pointer[Account] }

// ServeHTTP takes one call of a worker's. There must be an account by then.
func (l *Live) ServeHTTP(w http.ResponseWriter, r *http.Request) { l.Load().ServeHTTP(w, r) }
