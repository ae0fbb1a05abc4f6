package secret

import (
	"slices"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
)

// Demand is the objects from which the secrets that a proxy requests may be made, so that a source
// reads them. It does not grant access to the secrets: the Policy decides that.
type Demand struct {
	// Objects are read for any proxy: they contain trusted certificates, or a Gateway of the
	// proxy's own namespace names them. Private objects are read only if the proxy's account may
	// read Secrets of its namespace.
	Objects, Private []config.Key
}

// DemandOf returns the Demand of a proxy that requests names. It ignores invalid names and
// Kubernetes Secrets of other namespaces. The Secret of an own key pair goes to d.Private, only if
// the proxy may have private keys (p.Keys). Other objects go to d.Objects, only if some object
// references them, or, for the trusted certificates in an own Secret, if p.Keys is set. So a proxy
// cannot make sources read arbitrary objects.
func DemandOf(s *snapshot.Snapshot, p *mesh.Proxy, names []string) Demand {
	var d Demand
	configured := snapshot.Derive(s.Derived, referencesKey{}, func() references { return referencesOf(s) })
	for _, name := range names {
		n, err := mesh.ParseSecretName(name)
		if err != nil {
			continue
		}
		if n.Namespace == "" {
			n.Namespace = p.Namespace
		}
		switch {
		case n.Store == mesh.KubernetesSecret && n.Namespace != p.Namespace:
		case n.Store == mesh.KubernetesSecret && !n.Trust:
			if p.Keys {
				d.Private = append(d.Private, keysIn(s, p.ClusterID, n)...)
			}
		case p.Keys && n.Namespace == p.Namespace &&
			n.Store == mesh.KubernetesSecret, slices.ContainsFunc(objectKeys(n), configured.includes):
			d.Objects = append(d.Objects, keysIn(s, p.ClusterID, n)...)
		}
	}
	return d
}

type referencesKey struct{}

// Expected returns the names of secrets that a gateway is certain to request, sorted and without
// duplicates: the credentials in the servers of the Gateways that select it, with their authorities
// unless the mode is SIMPLE. It skips invalid names, and external credentials
// (mesh.ExternalPrefix). It returns nil for other proxies.
func Expected(s *snapshot.Snapshot, p *mesh.Proxy) []string {
	if p.Type != mesh.RouterProxy {
		return nil
	}
	var names []string
	for _, c := range s.Gateways(s.GatewayNames(p.Namespace, view.WorkloadLabels(s, p))) {
		for _, server := range config.Spec[*networking.Gateway](c).GetServers() {
			asksClients := server.GetTls().GetMode() != networking.ServerTLSSettings_SIMPLE
			for _, credential := range credentialsOf(server.GetTls()) {
				n, ok := mesh.CredentialName(credential)
				if !ok {
					continue
				}
				if names = append(names, n.String()); asksClients {
					names = append(names, mesh.TrustOf(n).String())
				}
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
