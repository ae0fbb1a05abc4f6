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

// bundleRefresh is how long a trust bundle is used before it is fetched anew: what the standard has for bundles that do not say (SPIFFE
// Trust Domain and Bundle, section 4.1.2). What a bundle says itself (spiffe_refresh_hint) is not asked: it is a stranger's.
const bundleRefresh = 5 * time.Minute

// bundles is the feed of the trust bundles that the mesh's settings name (MeshConfig.caCertificates.spiffeBundleUrl).
type bundles struct {
	source *jwks.Source
	known  map[string]string // of Run alone, and not changed in place
}

func newBundles(o Issuers, log *slog.Logger) (*bundles, error) {
	roots, err := rootsWith(o.RootsFile)
	if err != nil {
		return nil, err
	}
	return &bundles{known: map[string]string{}, source: jwks.New(jwks.Options{
		// The operator has written the address, so this machine may be meant.
		Client:  fetch.NewClient(fetch.Options{Timeout: jwks.MaxTimeout, Loopback: true, Blocked: o.Blocked, Roots: roots}),
		Refresh: bundleRefresh, Random: rand.Float64, Log: log, Description: "trust bundles", Parse: rootsOf,
	})}, nil
}

// rootsOf gives the authorities of a bundle in PEM.
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

// Name is that of the feed.
func (b *bundles) Name() string { return b.source.Name() }

// published has fetched what the settings of a snapshot name.
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

// Run makes settings of what is fetched, until the context ends.
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

// settings makes of what is known of addresses settings, if other certificates are to be trusted, and Problems.
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

// problems says what is wrong with an address.
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
