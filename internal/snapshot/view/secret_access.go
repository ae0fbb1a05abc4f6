package view

import (
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// SecretAccess is whether proxies may be sent private keys of their namespace.
type SecretAccess uint8

const (
	// SecretsUnverified is set if the proxy's claimed namespace is not authenticated.
	SecretsUnverified SecretAccess = iota
	// SecretsUnknown is set if the proxy is authenticated, but the API server has not answered yet
	// whether its account may read Secrets.
	SecretsUnknown
	// SecretsDenied is set if the account may not read Secrets.
	SecretsDenied
	// SecretsAllowed is set if the account may read Secrets, or if no API server knows it.
	SecretsAllowed
)

// IsVerified reports whether the proxy has authenticated as a workload of its namespace.
func (r SecretAccess) IsVerified() bool { return r != SecretsUnverified }

// secretAccess returns the access of a proxy to Secrets according to the snapshot. It is
// SecretsUnverified if the proxy has not proven its identity (p.Keys), SecretsAllowed for an
// account without an API server to ask, and SecretsUnknown before the API server has answered.
// Otherwise that answer decides.
func secretAccess(s *snapshot.Snapshot, p *mesh.Proxy) SecretAccess {
	switch {
	case !p.Keys:
		return SecretsUnverified
	case p.Account.Cluster == "": // no account, or one without an API server to ask
		return SecretsAllowed
	}
	switch r := s.SecretAccess(p.Account); {
	case r == nil:
		return SecretsUnknown
	case r.Allowed:
		return SecretsAllowed
	default:
		return SecretsDenied
	}
}
