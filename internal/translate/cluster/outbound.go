package cluster

import (
	networking "istio.io/api/networking/v1alpha3"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/translate/destination"
	"github.com/meshpilot/meshpilot/internal/translate/endpoint"
	"github.com/meshpilot/meshpilot/internal/translate/policy"
)

// OutboundInput is everything that the cluster of a service's port, or of a subset of it, depends
// on.
type OutboundInput struct {
	Service *mesh.Service
	// Port is one of the service's port numbers; its protocol is captured, unless UDP is set.
	Port uint32
	// UDP selects the UDP port with that number. Only gateways have such clusters.
	UDP bool
	// Subset is the name of a subset of the rule, or "" for the cluster of the whole host.
	Subset string
	// Rule is nil if no DestinationRule applies.
	Rule     *snapshot.DestinationRule
	Settings *snapshot.Settings
	Proxy    Proxy
	// Endpoints and Caller are set only for services whose names the proxies resolve, because their
	// clusters embed the assignment.
	Endpoints *snapshot.EndpointSet
	Caller    endpoint.Caller
	// Accounts are the accounts that may answer for the service, encoded by encodeAccounts. They
	// are set only if proxies verify them.
	Accounts string
	// PortTLS is set if callers that choose the address use mutual TLS at the port
	// (EndpointSet.TLSPorts). For other callers it is false.
	PortTLS bool
}

// Name returns the name of the outbound cluster; its direction is OutboundUDP if in.UDP is set.
func (in OutboundInput) Name() mesh.ClusterName {
	n := mesh.ClusterName{Direction: mesh.Outbound, Port: in.Port, Subset: in.Subset, Host: in.Service.Host}
	if in.UDP {
		n.Direction = mesh.OutboundUDP
	}
	return n
}

// destinationRule returns the spec of the DestinationRule, or nil if none applies.
func (in OutboundInput) destinationRule() *networking.DestinationRule {
	if in.Rule == nil {
		return nil
	}
	return in.Rule.Spec
}

// Outbound returns the cluster of in.Port of a service, or of the subset in.Subset of its
// endpoints, with the settings that policy.Of returns for it. Endpoints are part of it only if
// Envoy resolves their names by DNS. Load balancer and locality settings are left out if
// connections go to their original destination. The port must exist.
func Outbound(in OutboundInput) *clusterv3.Cluster {
	port, _ := in.Service.ClusterPort(in.Name())
	mesh := in.Settings.Mesh
	p := policy.Of(mesh, in.destinationRule(), in.Subset, in.Port)
	c := &clusterv3.Cluster{
		Name:           in.Name().String(),
		AltStatName:    destination.StatName(mesh.GetOutboundClusterStatName(), in.Service, port, in.Subset, 0),
		Metadata:       outboundMetadata(in),
		CommonLbConfig: &clusterv3.Cluster_CommonLbConfig{},
	}
	in.applyDiscovery(c, port, p)
	applyConnectionPool(c, in.Settings, p.GetConnectionPool(), in.retryBudget(p))
	applyOutlierDetection(c, p.GetOutlierDetection(), in.Settings.AlwaysSendsUnhealthy(in.Service))
	applySessions(c, in.Service)
	if c.GetType() == clusterv3.Cluster_ORIGINAL_DST {
		c.LbPolicy = clusterv3.Cluster_CLUSTER_PROVIDED
	} else {
		applyLoadBalancer(c, p.GetLoadBalancer())
		if in.Settings.Features.RedisFilter && p.GetLoadBalancer().GetConsistentHash() == nil {
			applyRedis(c, port)
		}
		applyLocality(c, policy.LocalityOf(mesh, p, in.Service), in.Settings.Features.LocalityWeights)
	}
	in.applyPickedEndpoints(c)
	http := outboundProtocol(in.Proxy, port, mesh, p.GetConnectionPool().GetHttp())
	http.applyConnectionPool(p.GetConnectionPool())
	http.applyErrorCodes(p.GetOutlierDetection())
	in.transport(port, p).apply(c, http)
	if isDynamic(in.Service) {
		applyDynamic(c, in.Proxy, http)
	}
	http.applyTo(c)
	applySocketMark(c, in.Proxy.SocketMark)
	return c
}
