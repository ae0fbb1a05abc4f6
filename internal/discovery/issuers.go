package discovery

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/fetch"
	"github.com/meshpilot/meshpilot/internal/identity/jwks"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/translate/authentication"
)

// Issuers configures how the keys of token issuers (JWKS) are fetched for RequestAuthentication.
type Issuers struct {
	// Refresh is the interval at which keys are fetched; 0 is 20 min
	// (PILOT_JWT_PUB_KEY_REFRESH_INTERVAL).
	Refresh time.Duration
	// Blocked are networks from which nothing is fetched, besides the networks that are always
	// blocked (BLOCKED_CIDRS_IN_JWKS_URIS).
	Blocked []netip.Prefix
	// Loopback allows keys to be fetched from the control plane's own machine, as in a mesh on a
	// laptop (default false; MESHPILOT_JWKS_LOOPBACK).
	Loopback bool
	// Unverified accepts any server certificate (default false;
	// JWKS_RESOLVER_INSECURE_SKIP_VERIFY).
	Unverified bool
	// RootsFile is a file with roots that are trusted besides the system's. A missing file is
	// ignored.
	RootsFile string
}

// defaultIssuers returns the defaults. RootsFile is the path where Istio's chart mounts
// jwksResolverExtraRootCA.
func defaultIssuers() Issuers { return Issuers{RootsFile: "/cacerts/extra.pem"} }

// issuersPatience is the maximum time for which the start waits for requested keys.
const issuersPatience = 6 * time.Second

// issuers fetches the token issuers' keys that the rules of the newest snapshot need.
type issuers struct {
	*jwks.Source
	hold *jwks.KeyBarrier

	mu          sync.Mutex
	wants, held map[mesh.KeySource]time.Duration // needed by rules in effect, and by rules that hold keeps back
}

func (s *server) newIssuers() (*issuers, error) {
	o, m, log := s.options.Issuers, s.metrics.m, s.logs.Scope("security")
	roots, err := rootsWith(o.RootsFile)
	if err != nil {
		return nil, err
	}
	if o.Unverified {
		log.Warn("servers of token issuers' keys are believed whatever certificate they show", "env", "JWKS_RESOLVER_INSECURE_SKIP_VERIFY")
	}
	i := &issuers{
		Source: jwks.New(jwks.Options{
			Client: fetch.NewClient(fetch.Options{
				Timeout: jwks.MaxTimeout, Loopback: o.Loopback, Blocked: o.Blocked, Roots: roots, Unverified: o.Unverified,
			}),
			Refresh: o.Refresh, Random: rand.Float64, Log: log, Cache: s.keyMemory(),
			OnFetch: func(err error) {
				if err != nil {
					m.KeyFetchFailures.Inc()
				} else {
					m.KeyFetches.Inc()
				}
			},
		}),
	}
	i.hold = jwks.NewKeyBarrier(s.keySources, i.ask)
	return i, nil
}

// issuerKeys is the name of the ConfigMap that caches the keys of token issuers across restarts.
// Without Kubernetes it is a file in the authority's directory.
const issuerKeys = "meshpilot-issuer-keys"

// keyMemory returns the persistent cache of keys, or nil if there is no place for one.
func (s *server) keyMemory() jwks.KeyCache {
	switch dir := s.options.Authority.Dir; {
	case s.client != nil:
		return jwks.ConfigMapCache{Client: s.client.Kubernetes, Namespace: s.options.Namespace, Name: issuerKeys}
	case dir != "":
		return jwks.FileCache{Path: filepath.Join(dir, issuerKeys+".json")}
	default:
		return nil
	}
}

// keySources returns the sources of the keys that an object needs. It returns nil for kinds that
// need none.
func (s *server) keySources(c *config.Config) map[mesh.KeySource]time.Duration {
	if c.Kind != api.RequestAuthentication {
		return nil
	}
	return authentication.Sources(c, s.options.Features.KeyFetching)
}

// ask requests the keys of rules that are held back until their keys are known, in addition to the
// keys of the newest snapshot.
func (i *issuers) ask(held map[mesh.KeySource]time.Duration) {
	i.mu.Lock()
	i.held = held
	i.mu.Unlock()
	i.set()
}

// set passes all requested keys to the source, with the longest timeout for each.
func (i *issuers) set() {
	all := map[mesh.KeySource]time.Duration{}
	i.mu.Lock()
	for _, wants := range []map[mesh.KeySource]time.Duration{i.wants, i.held} {
		for place, timeout := range wants {
			all[place] = max(all[place], timeout)
		}
	}
	i.mu.Unlock()
	i.SetWanted(all)
}

// rootsWith returns a pool of the system's roots and those in the file. It returns nil, for the
// system's roots only, if the file does not exist. It returns an error if the file is unreadable or
// contains no certificate.
func rootsWith(file string) (*x509.CertPool, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) || file == "" {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read roots for token issuers' keys: %w", err)
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	if !roots.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("roots for token issuers' keys: there is no certificate in %s", file)
	}
	return roots, nil
}

// published requests the keys that the rules of a snapshot need. It does nothing if no
// RequestAuthentication changed.
func (i *issuers) published(s *snapshot.Snapshot, d snapshot.Delta) {
	i.hold.StartHolding() // The first snapshot is that of the start.
	concerns := d.All
	for k := range d.Configs {
		concerns = concerns || k.Kind == api.RequestAuthentication
	}
	if !concerns {
		return
	}
	wants := map[mesh.KeySource]time.Duration{}
	for _, c := range s.Configs(api.RequestAuthentication) {
		for place, timeout := range authentication.Sources(c, s.Settings.Features.KeyFetching) {
			wants[place] = max(wants[place], timeout)
		}
	}
	i.mu.Lock()
	i.wants = wants
	i.mu.Unlock()
	i.set()
}

// await waits for the requested keys until each was fetched or failed, up to issuersPatience.
// Otherwise a restarted control plane would make reconnecting proxies reject tokens whose keys they
// already have.
func (i *issuers) await(ctx context.Context) {
	i.mu.Lock()
	places := slices.Collect(maps.Keys(i.wants))
	i.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, issuersPatience)
	defer cancel()
	i.WaitFor(ctx, places)
}
