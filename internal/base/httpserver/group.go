package httpserver

import (
	"context"
	"net"

	"golang.org/x/sync/errgroup"
)

// Group serves HTTP on several listeners, beyond the end of the program's other parts: their probes
// and debug pages are served until they have ended. Use NewGroup to create it.
type Group struct {
	ctx     context.Context
	stop    context.CancelFunc
	servers *errgroup.Group
}

// NewGroup returns a Group without servers. They end with Stop, and not with ctx, but their
// contexts have its values.
func NewGroup(ctx context.Context) *Group {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	servers, ctx := errgroup.WithContext(ctx)
	return &Group{ctx: ctx, stop: stop, servers: servers}
}

// Serve starts to serve on l, until Stop or until another server of the group fails.
func (g *Group) Serve(l net.Listener, o Options) {
	g.servers.Go(func() error { return Serve(g.ctx, l, o) })
}

// Await blocks until ctx ends, and then returns nil, or until a server fails or Stop is called. In
// these cases it waits for the other servers to end, and returns the first error, or nil without
// one.
func (g *Group) Await(ctx context.Context) error {
	select {
	case <-g.ctx.Done():
		return g.servers.Wait()
	case <-ctx.Done():
		return nil
	}
}

// Stop ends all servers, waits for them (Options.Shutdown), and returns the error of the first that
// has failed.
func (g *Group) Stop() error {
	g.stop()
	return g.servers.Wait()
}
