package cluster

import (
	"iter"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/translate/policy"
)

// OutboundTransport is how proxies connect to the endpoints of a cluster.
type OutboundTransport string

// The transports.
const (
	PlainText OutboundTransport = "plain text"
	// MeshTLS is mutual TLS with the proxies' own certificates.
	MeshTLS OutboundTransport = "mutual TLS"
	// DeclaredTLS is MeshTLS for endpoints that accept it (mesh.Endpoint.TLS), PlainText for others.
	DeclaredTLS OutboundTransport = "mutual TLS where accepted"
	// ClientTLS is TLS of a DestinationRule with mode SIMPLE or MUTUAL.
	ClientTLS OutboundTransport = "TLS"
)

// ForEndpoint returns the transport for one endpoint. DeclaredTLS becomes MeshTLS if the endpoint
// accepts mutual TLS (acceptsTLS), otherwise PlainText. Any other t is returned unchanged.
func (t OutboundTransport) ForEndpoint(acceptsTLS bool) OutboundTransport {
	switch {
	case t != DeclaredTLS:
		return t
	case acceptsTLS:
		return MeshTLS
	default:
		return PlainText
	}
}

// Transports returns an iterator over the outbound clusters of a service in a View with their
// transports. It has none for an alias.
func Transports(v *view.View, svc *mesh.Service) iter.Seq2[mesh.ClusterName, OutboundTransport] {
	return func(yield func(mesh.ClusterName, OutboundTransport) bool) {
		for in := range inputs(v, svc) {
			p := policy.Of(in.Settings.Mesh, in.destinationRule(), in.Subset, in.Port)
			in.PortTLS = in.portTLS(p, v.Endpoints(svc))
			if !yield(in.Name(), in.outboundTransport(p)) {
				return
			}
		}
	}
}

// outboundTransport returns the transport of the cluster with the policy p: ClientTLS for the modes
// SIMPLE and MUTUAL, MeshTLS for ISTIO_MUTUAL. Otherwise automatic mutual TLS decides (autoMTLS):
// DeclaredTLS, MeshTLS or PlainText.
func (in OutboundInput) outboundTransport(p *networking.TrafficPolicy) OutboundTransport {
	auto := in.autoMTLS(p)
	switch mode := p.GetTls().GetMode(); {
	case mode == networking.ClientTLSSettings_SIMPLE, mode == networking.ClientTLSSettings_MUTUAL:
		return ClientTLS
	case auto == declaredEndpoints:
		return DeclaredTLS
	case auto == allEndpoints, mode == networking.ClientTLSSettings_ISTIO_MUTUAL:
		return MeshTLS
	default:
		return PlainText
	}
}

// MayAvoidTLS reports whether a DestinationRule has a setting that may keep a cluster from using
// automatic mutual TLS: TLS settings of any mode, or the load balancer PASSTHROUGH. It looks at all
// levels, subsets and ports included.
func MayAvoidTLS(rule *networking.DestinationRule) bool {
	avoids := func(tls *networking.ClientTLSSettings, lb *networking.LoadBalancerSettings) bool {
		return tls != nil || lb.GetSimple() == networking.LoadBalancerSettings_PASSTHROUGH
	}
	for _, p := range config.TrafficPolicies(rule) {
		if avoids(p.GetTls(), p.GetLoadBalancer()) {
			return true
		}
		for _, port := range p.GetPortLevelSettings() {
			if avoids(port.GetTls(), port.GetLoadBalancer()) {
				return true
			}
		}
	}
	return false
}
