package consul

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/meshpilot/meshpilot/internal/base/watch"
)

// session is a period in which neither the token nor the generation of the servers changes. Its
// context ends with it, and with the context all running queries.
type session struct {
	context.Context
	cancel     context.CancelFunc
	generation uint64
}

// session returns the context of the current queries, which ends when they must begin again, and
// the generation of the servers.
func (r *run) session() (context.Context, uint64) {
	s := r.current.Load()
	return s.Context, s.generation
}

// startSession cancels the queries of the current session, if there is one, and starts the next in
// the current generation of the servers. The queries then begin again without an index.
func (r *run) startSession(ctx context.Context) {
	next := &session{generation: r.identity.generation}
	next.Context, next.cancel = context.WithCancel(ctx)
	if old := r.current.Swap(next); old != nil {
		old.cancel()
	}
}

// token returns the ACL token that was read last, or "" if none was.
func (r *run) token() string {
	if t := r.secret.Load(); t != nil {
		return *t
	}
	return ""
}

// followToken reads the token file, and again whenever it changes, until ctx ends. It stores each
// token in r.secret and submits it to r.results. The first one starts the watches; a new one
// interrupts all queries, so that failed ones are repeated at once. If the file cannot be read at
// the start, that is reported as a failure of the list of services.
func (r *run) followToken(ctx context.Context) {
	if _, err := os.ReadFile(r.settings.TokenFile); err != nil {
		r.reportMissingToken(ctx, err)
	}
	watch.File(ctx, r.settings.TokenFile, watch.Options{Logger: r.options.Logger}, func(content []byte) {
		token := strings.TrimSpace(string(content))
		r.secret.Store(&token)
		select {
		case r.results <- &result{name: tokenChanged, reply: make(chan decision, 1)}:
		case <-ctx.Done():
		}
	})
}

// reportMissingToken reports that no token could be read at the start, as a failure of the list of
// services, which is read as soon as there is a token.
func (r *run) reportMissingToken(ctx context.Context, err error) {
	select {
	case r.results <- &result{err: fmt.Errorf("--consulTokenFile: %w", err), reply: make(chan decision, 1)}:
	case <-ctx.Done():
	}
}

// tokenChanged is the name of a result that reports a new token. No service has it.
const tokenChanged = "\x00token"
