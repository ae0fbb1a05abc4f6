package cluster

import (
	networking "istio.io/api/networking/v1alpha3"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/translate/endpoint"
	"github.com/meshpilot/meshpilot/internal/translate/policy"
)

// OutboundInput is all that the cluster of a service's port, or of a subset of it, depends on.
type OutboundInput struct {
	Service *mesh.Service
	// Port is one of the service's port numbers, whose protocol is captured.
	Port uint32
	// Subset is one of the rule's, or "" for the cluster of the whole host.
	Subset string
	// Rule is nil if there is none.
	Rule     *snapshot.DestinationRule
	Settings *snapshot.Settings
	Proxy    Proxy
	// Endpoints and Caller are set only for services whose names the proxies resolve: their clusters hold the assignment.
	Endpoints *snapshot.EndpointSet
	Caller    endpoint.Caller
	// Accounts are who may answer for the service, encoded by encodeAccounts. They are set only where proxies check that.
	Accounts string
	// AllTLS says that all endpoints take mutual TLS, of which there are some. It is set only where callers choose the address.
	AllTLS bool
}

// Name gives the cluster's name.
func (in OutboundInput) Name() mesh.ClusterName {
	return mesh.ClusterName{Direction: mesh.Outbound, Port: in.Port, Subset: in.Subset, Host: in.Service.Host}
}

// rule gives the spec of the DestinationRule, nil if there is none.
func (in OutboundInput) rule() *networking.DestinationRule {
	if in.Rule == nil {
		return nil
	}
	return in.Rule.Spec
}

// Outbound makes the cluster by which proxies call a port of a service, or a subset of its endpoints.
func Outbound(in OutboundInput) *clusterv3.Cluster {
	port, _ := in.Service.Port(in.Port)
	mesh := in.Settings.Mesh
	p := policy.Of(mesh, in.rule(), in.Subset, in.Port)
	c := &clusterv3.Cluster{
		Name:           in.Name().String(),
		AltStatName:    outboundStatName(mesh.GetOutboundClusterStatName(), in.Service, port, in.Subset),
		Metadata:       outboundMetadata(in),
		CommonLbConfig: &clusterv3.Cluster_CommonLbConfig{},
	}
	in.discover(c, port, p)
	applyConnectionPool(c, in.Settings, p.GetConnectionPool(), in.retryBudget(p))
	applyOutlierDetection(c, p.GetOutlierDetection(), in.Settings.Features.SendUnhealthy)
	applySessions(c, in.Service)
	if c.GetType() == clusterv3.Cluster_ORIGINAL_DST {
		c.LbPolicy = clusterv3.Cluster_CLUSTER_PROVIDED
	} else {
		applyLoadBalancer(c, p.GetLoadBalancer())
		if in.Settings.Features.RedisFilter && p.GetLoadBalancer().GetConsistentHash() == nil {
			applyRedis(c, port)
		}
		applyLocality(c, policy.LocalityOf(mesh, p, in.Service))
	}
	http := outboundProtocol(in.Proxy, port, mesh, p.GetConnectionPool().GetHttp())
	http.applyConnectionPool(p.GetConnectionPool())
	http.applyErrorCodes(p.GetOutlierDetection())
	in.transport(port, p).apply(c, http)
	if dynamic(in.Service) {
		applyDynamic(c, in.Proxy, http)
	}
	http.put(c)
	applySocketMark(c, in.Proxy.SocketMark)
	return c
}
