package discovery

import (
	"context"
	"encoding/pem"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/meshpilot/meshpilot/internal/base/fetch"
	"github.com/meshpilot/meshpilot/internal/identity/jwks"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/spiffe"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/translate/proxyconfig"
)

// bundleRefresh is the interval at which trust bundles are fetched. It is the standard's default
// for bundles without an interval of their own (SPIFFE Trust Domain and Bundle, section 4.1.2). A
// bundle's own spiffe_refresh_hint is ignored, because an outside party controls it.
const bundleRefresh = 5 * time.Minute

// bundles is the feed of the SPIFFE trust bundles that the mesh settings name
// (MeshConfig.caCertificates.spiffeBundleUrl).
type bundles struct {
	source *jwks.Source
	known  map[string]string // by address; used only by Run and replaced, not modified
}

func newBundles(o Issuers, log *slog.Logger) (*bundles, error) {
	roots, err := rootsWith(o.RootsFile)
	if err != nil {
		return nil, err
	}
	return &bundles{known: map[string]string{}, source: jwks.New(jwks.Options{
		// The operator has configured the address, so it may be on this machine.
		Client:  fetch.NewClient(fetch.Options{Timeout: jwks.MaxTimeout, Loopback: true, Blocked: o.Blocked, Roots: roots}),
		Refresh: bundleRefresh, Random: rand.Float64, Log: log, Description: "trust bundles", Parse: rootsOf,
	})}, nil
}

// rootsOf returns the certificate authorities of a SPIFFE bundle in PEM.
func rootsOf(document []byte) (string, error) {
	list, err := spiffe.ParseBundle(document)
	if err != nil {
		return "", err
	}
	var text strings.Builder
	for _, c := range list {
		text.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}))
	}
	return text.String(), nil
}

// Name returns the name of the feed.
func (b *bundles) Name() string { return b.source.Name() }

// published sets the bundles to fetch to the ones named in the settings of the snapshot. It does
// nothing unless the delta is a full one, as after any change of settings.
func (b *bundles) published(s *snapshot.Snapshot, d snapshot.Delta) {
	if !d.All {
		return
	}
	wants := map[mesh.KeySource]time.Duration{}
	for _, address := range proxyconfig.Addresses(s.Settings.Mesh) {
		wants[mesh.KeySource{URI: address}] = 0
	}
	b.source.SetWanted(wants)
}

// Run fetches bundles and emits them as settings, until ctx ends.
func (b *bundles) Run(ctx context.Context, out chan<- mesh.Batch) error {
	fetched := make(chan mesh.Batch)
	running, ctx := errgroup.WithContext(ctx)
	running.Go(func() error { return b.source.Run(ctx, fetched) })
	running.Go(func() error {
		for {
			select {
			case <-ctx.Done():
				return nil
			case batch := <-fetched:
				select {
				case out <- b.settings(batch):
				case <-ctx.Done():
					return nil
				}
			}
		}
	})
	return running.Wait()
}

// settings converts fetched bundles to events: a list of Problems for each address, and new
// Settings if the trusted certificates changed. Other events are passed on.
func (b *bundles) settings(batch mesh.Batch) mesh.Batch {
	known := maps.Clone(b.known)
	next := make(mesh.Batch, 0, len(batch)+1)
	for _, e := range batch {
		if e.KeySet == nil {
			next = append(next, e)
			continue
		}
		address := e.KeySet.Source.URI
		if known[address] = e.KeySet.Text; e.Op == mesh.Delete {
			delete(known, address)
		}
		next = append(next, mesh.Event{Source: b.Name(), Problems: &mesh.Problems{Scope: address, List: b.problems(e)}})
	}
	if !maps.Equal(known, b.known) {
		b.known = known
		next = append(next, mesh.Event{Source: b.Name(), Settings: &mesh.Settings{Bundles: known}})
	}
	return next
}

// problems returns a Problem if the bundle of an address could not be fetched. It returns none for
// a deleted address.
func (b *bundles) problems(e mesh.Event) []config.Problem {
	if e.Op == mesh.Delete || e.KeySet.Fault == "" {
		return nil
	}
	what := "its certificates are not trusted"
	if e.KeySet.Text != "" {
		what = "what it was last counts"
	}
	return []config.Problem{{
		Field: "caCertificates.spiffeBundleUrl", Severity: config.Warning, Origin: "mesh configuration",
		Reason: fmt.Sprintf("the trust bundle at %s could not be fetched, %s: %s", e.KeySet.Source, what, e.KeySet.Fault),
	}}
}
