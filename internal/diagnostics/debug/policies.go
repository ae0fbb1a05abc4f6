package debug

import (
	"encoding/json"

	telemetry "istio.io/api/telemetry/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
)

// authorizationPolicies are the AuthorizationPolicies by namespace.
type authorizationPolicies struct {
	Namespaces map[string][]authorizationPolicy `json:"namespace_to_policies"`
	Root       string                           `json:"root_namespace"`
}

type authorizationPolicy struct {
	Name        string            `json:"name"`
	Namespace   string            `json:"namespace"`
	Annotations map[string]string `json:"annotations"`
	Spec        json.RawMessage   `json:"spec"`
}

// newAuthorizationPolicies returns all AuthorizationPolicies of the snapshot by namespace, with the
// root namespace.
func newAuthorizationPolicies(s *snapshot.Snapshot) authorizationPolicies {
	out := authorizationPolicies{map[string][]authorizationPolicy{}, s.Settings.RootNamespace}
	for _, c := range s.Configs(api.AuthorizationPolicy) {
		out.Namespaces[c.Namespace] = append(
			out.Namespaces[c.Namespace],
			authorizationPolicy{c.Name, c.Namespace, c.Annotations, specJSON(c)},
		)
	}
	return out
}

// authorizationz serves all AuthorizationPolicies by namespace.
func (p *Pages) authorizationz(q question) (answer, error) {
	return jsonAnswer(q, map[string]any{"authorization_policies": newAuthorizationPolicies(p.Snapshot())})
}

// pushContext serves the AuthorizationPolicies and the network gateways, in istiod's form of
// pushcontext.
func (p *Pages) pushContext(q question) (answer, error) {
	s := p.Snapshot()
	return jsonAnswer(q, struct {
		AuthorizationPolicies authorizationPolicies
		NetworkGateways       []networkGateway
		UnresolvedGateways    []networkGateway
	}{newAuthorizationPolicies(s), networkGateways(s), []networkGateway{}})
}

// networkGateway is a gateway of a network in istiod's form of networkz.
type networkGateway struct {
	Network        string
	Cluster        string
	Addr           string
	Port           uint32
	HBONEPort      uint32
	ServiceAccount namespacedName
}

type namespacedName struct{ Namespace, Name string }

// networkGateways returns the gateways through which endpoints of other networks are reached, with
// network, cluster, address and port. Without gateways the list is empty, not nil.
func networkGateways(s *snapshot.Snapshot) []networkGateway {
	list := []networkGateway{}
	for _, g := range s.Networks().All() {
		list = append(
			list,
			networkGateway{Network: string(g.Network), Cluster: string(g.Cluster), Addr: g.Address, Port: g.Port},
		)
	}
	return list
}

// networkz serves the gateways between networks.
func (p *Pages) networkz(q question) (answer, error) {
	return jsonAnswer(q, networkGateways(p.Snapshot()))
}

type telemetryObject struct {
	Name      string          `json:"name"`
	Namespace string          `json:"namespace"`
	Spec      json.RawMessage `json:"spec"`
}

// telemetryz serves all Telemetry objects by namespace. With ?proxyID= it serves the objects that
// apply to the proxy. A proxy that is not found is a Refusal.
func (p *Pages) telemetryz(q question) (answer, error) {
	c, given, err := p.lookUp(q)
	if err != nil {
		return answer{}, err
	}
	s := p.Snapshot()
	if given {
		return jsonAnswer(q, telemetryOf(s, c.Proxy))
	}
	namespaces := map[string][]telemetryObject{}
	for _, c := range s.Configs(api.Telemetry) {
		namespaces[c.Namespace] = append(namespaces[c.Namespace], telemetryObject{c.Name, c.Namespace, specJSON(c)})
	}
	return jsonAnswer(q, map[string]any{"telemetries": map[string]any{
		"namespace_to_telemetries": namespaces, "root_namespace": s.Settings.RootNamespace,
	}})
}

// proxyTelemetry contains the Telemetry objects that apply to a proxy. Root is the object of the
// root namespace, Proxy that of the proxy's namespace, and Workload the newest object that selects
// the workload by its selector or a targetRef.
type proxyTelemetry struct {
	Root, Proxy, Namespace, Workload namespacedName
	Metrics, Logging, Tracing        []json.RawMessage
}

// telemetryOf returns the Telemetry objects that apply to the proxy, and their settings from the
// mesh's to the workload's. Namespace is never set: in istiod it is the object of the namespace of
// a service that a waypoint serves, and its page leaves it empty too.
func telemetryOf(s *snapshot.Snapshot, proxy *mesh.Proxy) proxyTelemetry {
	keys := view.KeyFor(s, proxy).Telemetry
	nameOf := func(k config.Key) namespacedName { return namespacedName{k.Namespace, k.Name} }
	out := proxyTelemetry{
		Root:    nameOf(keys.Mesh),
		Proxy:   nameOf(keys.Namespace),
		Metrics: []json.RawMessage{}, Logging: []json.RawMessage{}, Tracing: []json.RawMessage{},
	}
	if own := s.Policies(api.Telemetry, keys.Workload); len(own) > 0 {
		out.Workload = nameOf(own[len(own)-1].Key)
	}
	for _, c := range s.Telemetries(keys) {
		spec := config.Spec[*telemetry.Telemetry](c)
		for _, x := range spec.Metrics {
			out.Metrics = append(out.Metrics, protoJSON(x))
		}
		for _, x := range spec.AccessLogging {
			out.Logging = append(out.Logging, protoJSON(x))
		}
		for _, x := range spec.Tracing {
			out.Tracing = append(out.Tracing, protoJSON(x))
		}
	}
	return out
}
