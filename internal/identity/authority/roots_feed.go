package authority

import (
	"context"

	"github.com/meshpilot/meshpilot/internal/identity/ca"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// RootsFeed is the feed of the mesh's trust roots, which its own authority provides.
type RootsFeed struct {
	batches chan mesh.Batch
	// expected reports whether there is an authority, so that roots will follow.
	expected bool
}

// newRootsFeed returns a feed that has emitted nothing. expected is set if there is an authority,
// so that roots will follow.
func newRootsFeed(expected bool) *RootsFeed {
	return &RootsFeed{batches: make(chan mesh.Batch), expected: expected}
}

// Name returns "roots".
func (*RootsFeed) Name() string { return "roots" }

// Run sends the initial settings, which have only RootsComing, with Synced, and then each batch of
// sendRoots, until ctx ends; then it returns nil. The feed is in sync at once, before it has any
// roots, because the authority needs the other mesh settings first.
func (f *RootsFeed) Run(ctx context.Context, out chan<- mesh.Batch) error {
	first := mesh.Batch{
		{Source: f.Name(), Settings: &mesh.Settings{RootsComing: f.expected}},
		{Op: mesh.Synced, Source: f.Name()},
	}
	for next := first; ; {
		select {
		case <-ctx.Done():
			return nil
		case out <- next:
		}
		select {
		case <-ctx.Done():
			return nil
		case next = <-f.batches:
		}
	}
}

// sendRoots sends the issuer's roots to the feed, and again after each change, until ctx ends. Each
// batch is one event with Settings.Roots in PEM and nothing else.
func (f *RootsFeed) sendRoots(ctx context.Context, issuer ca.Issuer) {
	for {
		list, changed := issuer.Roots()
		settings := &mesh.Settings{Roots: make([]string, 0, len(list))}
		for _, c := range list {
			settings.Roots = append(settings.Roots, string(ca.EncodeCertificates(c)))
		}
		select {
		case <-ctx.Done():
			return
		case f.batches <- mesh.Batch{{Source: f.Name(), Settings: settings}}:
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}
