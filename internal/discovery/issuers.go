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

// Issuers are how the keys are fetched that tokens of requests are checked with (RequestAuthentication).
type Issuers struct {
	// Refresh is how long keys are used before they are fetched anew; 0: 20 min. PILOT_JWT_PUB_KEY_REFRESH_INTERVAL.
	Refresh time.Duration
	// Blocked are networks that nothing is fetched from, beside those that nobody may. BLOCKED_CIDRS_IN_JWKS_URIS.
	Blocked []netip.Prefix
	// Loopback lets keys be fetched from the control plane's own machine, as in a mesh on a laptop. MESHPILOT_JWKS_LOOPBACK.
	Loopback bool
	// Unverified takes any certificate of a server. JWKS_RESOLVER_INSECURE_SKIP_VERIFY.
	Unverified bool
	// RootsFile has certificates to trust beside the system's; one that is not there has none.
	RootsFile string
}

// defaultIssuers has Istio's place of further roots, where its chart puts jwksResolverExtraRootCA.
func defaultIssuers() Issuers { return Issuers{RootsFile: "/cacerts/extra.pem"} }

// issuersPatience is how long, at most, the start waits for keys that rules ask for.
const issuersPatience = 6 * time.Second

// issuers has the keys fetched that the rules of the newest snapshot ask for.
type issuers struct {
	*jwks.Source
	hold *jwks.KeyBarrier

	mu          sync.Mutex
	wants, held map[mesh.KeySource]time.Duration // what rules ask for that are in force, and that are held
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

// issuerKeys names what has the keys of token issuers for the next run: a ConfigMap, or a file beside the authority's.
const issuerKeys = "meshpilot-issuer-keys"

// keyMemory gives where keys are kept; nil: nowhere.
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

// keySources gives where an object asks for keys, nil if it is of another kind than those that do.
func (s *server) keySources(c *config.Config) map[mesh.KeySource]time.Duration {
	if c.Kind != api.RequestAuthentication {
		return nil
	}
	return authentication.Sources(c, s.options.Features.KeyFetching)
}

// ask wants the keys of rules that are held back until their keys are known, beside those of the newest snapshot.
func (i *issuers) ask(held map[mesh.KeySource]time.Duration) {
	i.mu.Lock()
	i.held = held
	i.mu.Unlock()
	i.set()
}

// set tells the source all that is asked for.
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

// rootsWith gives the system's roots and those of a file; nil: the system's alone.
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

// published wants the keys that the rules of a snapshot name.
func (i *issuers) published(s *snapshot.Snapshot, d snapshot.Delta) {
	i.hold.StartHolding() // the first is that of the start
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

// await waits for the keys that are asked for, or for it to be known that they cannot be had, so that proxies which come back to a control
// plane that was started anew are not told to refuse tokens of which they have the keys.
func (i *issuers) await(ctx context.Context) {
	i.mu.Lock()
	places := slices.Collect(maps.Keys(i.wants))
	i.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, issuersPatience)
	defer cancel()
	i.WaitFor(ctx, places)
}
