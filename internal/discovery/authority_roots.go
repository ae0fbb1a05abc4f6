package discovery

import (
	"context"

	"github.com/meshpilot/meshpilot/internal/identity/ca"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// roots is the feed of what proxies are to trust: the roots of the mesh's own authority.
type roots struct {
	batches chan mesh.Batch
	// coming says that there is an authority.
	coming bool
}

func newRoots() *roots { return &roots{batches: make(chan mesh.Batch)} }

// Name is "roots".
func (*roots) Name() string { return "roots" }

// Run hands on what there is news of.
func (r *roots) Run(ctx context.Context, out chan<- mesh.Batch) error {
	first := mesh.Batch{
		{Source: r.Name(), Settings: &mesh.Settings{RootsComing: r.coming}},
		{Op: mesh.Synced, Source: r.Name()}, // the authority needs the rest of the mesh's settings first
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

// followRoots tells proxies of the roots, and of others when there are others.
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

// revoked gives the lists of revoked certificates that operators brought with the authority, in PEM; nil for none.
func (a *authority) revoked() []byte {
	if local, ok := a.issuer.(*ca.Authority); ok {
		return local.RevocationLists()
	}
	return nil
}
