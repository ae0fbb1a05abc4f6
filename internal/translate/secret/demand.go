package secret

import (
	"slices"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
)

// Demand is the objects that secrets which a proxy asks for may be made of, so that somebody reads them. It is no right to have
// them: that is the Policy's to say.
type Demand struct {
	// Objects may be read for everybody who asks: they hold certificates to trust, or a Gateway of the proxy's own names them.
	// Private ones only for who may read Secrets of the proxy's namespace.
	Objects, Private []config.Key
}

// DemandOf gives the Demand of a proxy that asks for those names. Names that can be none of its own, or that nobody configured,
// are left out: a proxy cannot have just anything read.
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
		case p.Keys && n.Namespace == p.Namespace && n.Store == mesh.KubernetesSecret, slices.ContainsFunc(keys(n), configured.to):
			d.Objects = append(d.Objects, keysIn(s, p.ClusterID, n)...)
		}
	}
	return d
}

type referencesKey struct{}

// Expected gives the names that a gateway surely asks for: those of the servers of the Gateways that select it.
func Expected(s *snapshot.Snapshot, p *mesh.Proxy) []string {
	if p.Type != mesh.RouterProxy {
		return nil
	}
	var names []string
	for _, c := range s.Gateways(s.GatewayNames(p.Namespace, view.Labels(s, p))) {
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
