package snapshot

import (
	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/mesh"
)

// Settings is the mesh-wide configuration, resolved: no field is nil. It is a row.
type Settings struct {
	Mesh     *meshconfig.MeshConfig
	Networks *meshconfig.MeshNetworks
	// Domain is the DNS suffix of Kubernetes services, "cluster.local".
	Domain        string
	RootNamespace string
	TrustDomain   string
}

// TrustDomains gives the mesh's trust domain, and the others whose identities are its own too (trustDomainAliases).
func (s *Settings) TrustDomains() []string {
	return append([]string{s.TrustDomain}, s.Mesh.GetTrustDomainAliases()...)
}

func resolveSettings(s mesh.Settings, domain string) *Settings {
	r := &Settings{Mesh: s.Mesh, Networks: s.Networks, Domain: domain}
	if r.Mesh == nil {
		r.Mesh = mesh.DefaultMeshConfig()
	}
	if r.Networks == nil {
		r.Networks = new(meshconfig.MeshNetworks)
	}
	r.RootNamespace, r.TrustDomain = r.Mesh.RootNamespace, r.Mesh.TrustDomain
	return r
}
