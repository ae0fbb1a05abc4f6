package discovery

import (
	"time"

	"github.com/meshpilot/meshpilot/internal/identity/jwks"
	"github.com/meshpilot/meshpilot/internal/identity/trustbundle"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/translate/authentication"
	"github.com/meshpilot/meshpilot/internal/translate/proxyconfig"
)

// newIssuers sets s.issuers and s.bundles, the sources of token issuers' keys and of trust bundles.
// It returns an error if their settings are refused.
func (s *server) newIssuers() (err error) {
	o, log := s.options.Issuers, s.logs.Scope("security")
	s.issuers, err = jwks.NewRuleKeys(jwks.RuleKeysOptions{
		Settings: o, Cache: s.options.KeyCache(s.client), Log: log, OnFetch: s.metrics.CountKeyFetch,
		SourcesOf: func(c *config.Config) map[mesh.KeySource]time.Duration {
			return authentication.Sources(c, s.options.Features.KeyFetching)
		},
	})
	if err != nil {
		return err
	}
	s.bundles, err = trustbundle.New(trustbundle.Options{Blocked: o.Blocked, RootsFile: o.RootsFile, Log: log})
	return err
}

// requestKeys requests the keys that the RequestAuthentications of a new snapshot need, if d has
// changes of these. If d.All is set, it also requests the bundles that the mesh settings name. The
// first call makes the barrier hold RequestAuthentications whose keys are missing.
func (s *server) requestKeys(next *snapshot.Snapshot, d snapshot.Delta) {
	s.issuers.Barrier.StartHolding() // The first snapshot is that of the start.
	if d.ChangesKind(api.RequestAuthentication) {
		s.issuers.SetRules(next.Configs(api.RequestAuthentication))
	}
	if d.All { // as after any change of settings
		s.bundles.SetAddresses(proxyconfig.Addresses(next.Settings.Mesh))
	}
}
