package trustbundle

import (
	"context"
	"encoding/pem"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/netip"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/meshpilot/meshpilot/internal/base/fetch"
	"github.com/meshpilot/meshpilot/internal/identity/jwks"
	"github.com/meshpilot/meshpilot/internal/model/code"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/spiffe"
)

// refreshInterval is the interval at which trust bundles are fetched. It is the standard's default
// for bundles without an interval of their own (SPIFFE Trust Domain and Bundle, section 4.1.2). A
// bundle's own spiffe_refresh_hint is ignored, because an outside party controls it.
const refreshInterval = 5 * time.Minute

// Options are the settings of a Feed.
type Options struct {
	// Blocked are networks from which nothing is fetched, besides the always blocked ones.
	Blocked []netip.Prefix
	// RootsFile is a file with roots that are trusted besides the system's. A missing file is
	// ignored.
	RootsFile string
	Log       *slog.Logger
}

// Feed is the feed of the mesh's SPIFFE trust bundles.
type Feed struct {
	source *jwks.Source
	known  map[string]string // by address; used only by Run and replaced, not modified
}

// New returns a Feed without addresses. It returns an error if RootsFile is unreadable or has no
// certificate, but not if it is missing.
func New(o Options) (*Feed, error) {
	roots, err := fetch.RootsWithFile(o.RootsFile)
	if err != nil {
		return nil, err
	}
	return &Feed{known: map[string]string{}, source: jwks.New(jwks.Options{
		// The operator has configured the address, so it may be on this machine.
		Client: fetch.NewClient(fetch.Options{Timeout: jwks.MaxTimeout, Loopback: true, Blocked: o.Blocked,
			Roots: roots}),
		Refresh: refreshInterval, Random: rand.Float64, Log: o.Log, Description: "trust bundles", Parse: authoritiesOf,
	})}, nil
}

// authoritiesOf returns the certificate authorities of a SPIFFE bundle in PEM. It returns an error
// if the document is no bundle, has no X.509 authority, or one of its keys is invalid.
func authoritiesOf(document []byte) (string, error) {
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
func (f *Feed) Name() string { return f.source.Name() }

// SetAddresses sets the addresses of the bundles to fetch. It replaces the previous ones.
func (f *Feed) SetAddresses(addresses []string) {
	wants := map[mesh.KeySource]time.Duration{}
	for _, address := range addresses {
		wants[mesh.KeySource{URI: address}] = 0
	}
	f.source.SetWanted(wants)
}

// Run fetches the bundles until ctx ends, and then returns nil. It emits Settings with all fetched
// bundles after each change, and a Problem for each bundle that cannot be fetched. It emits Synced
// at once.
func (f *Feed) Run(ctx context.Context, out chan<- mesh.Batch) error {
	fetched := make(chan mesh.Batch)
	running, ctx := errgroup.WithContext(ctx)
	running.Go(func() error { return f.source.Run(ctx, fetched) })
	running.Go(func() error {
		for {
			select {
			case <-ctx.Done():
				return nil
			case batch := <-fetched:
				select {
				case out <- f.settings(batch):
				case <-ctx.Done():
					return nil
				}
			}
		}
	})
	return running.Wait()
}

// settings returns the events that follow from fetched bundles. For each address these are its
// Problems, an empty list if there are none. If the trusted certificates changed, it records them
// in f.known and adds new Settings. Other events are passed on.
func (f *Feed) settings(batch mesh.Batch) mesh.Batch {
	known := maps.Clone(f.known)
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
		next = append(next, mesh.Event{Source: f.Name(), Problems: &mesh.Problems{Scope: address, List: f.problems(e)}})
	}
	if !maps.Equal(known, f.known) {
		f.known = known
		next = append(next, mesh.Event{Source: f.Name(), Settings: &mesh.Settings{Bundles: known}})
	}
	return next
}

// problems returns a Problem if the bundle in e could not be fetched or is invalid. It returns nil
// for a valid bundle or a deleted address. The Problem is a Warning.
func (f *Feed) problems(e mesh.Event) []config.Problem {
	if e.Op == mesh.Delete || e.KeySet.Fault == "" {
		return nil
	}
	what := "its certificates are not trusted"
	if e.KeySet.Text != "" {
		what = "the last version stays in use"
	}
	return []config.Problem{{
		Code:  code.UnreadableSource,
		Field: "caCertificates.spiffeBundleUrl", Severity: config.Warning, Origin: "mesh configuration",
		Reason: fmt.Sprintf("the trust bundle at %s could not be fetched, %s: %s", e.KeySet.Source, what,
			e.KeySet.Fault),
	}}
}
