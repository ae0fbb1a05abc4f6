package discovery

import (
	"context"

	"github.com/meshpilot/meshpilot/internal/identity/ca"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// roots is the feed of the mesh's trust roots, which its own authority provides.
type roots struct {
	batches chan mesh.Batch
	// coming reports whether there is an authority, so that roots will follow.
	coming bool
}

func newRoots() *roots { return &roots{batches: make(chan mesh.Batch)} }

// Name returns "roots".
func (*roots) Name() string { return "roots" }

// Run sends the initial settings and then each batch received, until ctx ends. The feed is in sync
// at once, before it has any roots.
func (r *roots) Run(ctx context.Context, out chan<- mesh.Batch) error {
	first := mesh.Batch{
		{Source: r.Name(), Settings: &mesh.Settings{RootsComing: r.coming}},
		{Op: mesh.Synced, Source: r.Name()}, // The authority needs the other mesh settings before it can have roots.
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
		case next = <-r.batches:
		}
	}
}

// followRoots sends the issuer's roots to the feed, and again after each change, until ctx ends.
func (s *server) followRoots(ctx context.Context, issuer ca.Issuer) {
	for {
		list, changed := issuer.Roots()
		settings := &mesh.Settings{Roots: make([]string, 0, len(list))}
		for _, c := range list {
			settings.Roots = append(settings.Roots, string(ca.EncodeCertificates(c)))
		}
		select {
		case <-ctx.Done():
			return
		case s.roots.batches <- mesh.Batch{{Source: s.roots.Name(), Settings: settings}}:
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}

// revoked returns the certificate revocation lists that operators supplied with the authority, in
// PEM. It returns nil if there are none or if an external signer is used.
func (a *authority) revoked() []byte {
	if local, ok := a.issuer.(*ca.Authority); ok {
		return local.RevocationLists()
	}
	return nil
}
