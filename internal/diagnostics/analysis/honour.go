package analysis

import (
	"istio.io/api/label"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// notInForce returns the reason if objects of a kind are read, validated and shown but not
// translated yet. Otherwise it returns "".
func notInForce(kind api.Kind) string {
	switch kind {
	case api.GatewayClass, api.KubernetesGateway, api.HTTPRoute, api.GRPCRoute, api.TLSRoute, api.TCPRoute, api.UDPRoute,
		api.ListenerSet, api.ReferenceGrant, api.BackendTLSPolicy:
		return "the Gateway API is not followed yet"
	default:
		return ""
	}
}

// honour reports every object and every field that the translation ignores. It reuses the cached
// results of unchanged objects.
func (a *analyzer) honour(unhonoured func(*config.Config) []config.Problem) {
	known := a.known
	a.known = make(map[*config.Config][]config.Problem, len(known))
	for _, kind := range api.Kinds() {
		for _, c := range a.s.Configs(kind.Kind) {
			if reason := notInForce(kind.Kind); reason != "" {
				if kind.Kind == api.KubernetesGateway && c.Labels[label.TopologyNetwork.Name] != "" {
					reason = "is a gateway of its network to other networks, and nothing else: " + reason
				}
				a.warn(c, "", reason)
				continue
			}
			list, looked := known[c]
			if !looked {
				list = unhonoured(c)
			}
			a.known[c] = list
			for _, p := range list {
				p.Key, p.Origin = c.Key, c.Origin
				a.found = append(a.found, p)
			}
		}
	}
}
