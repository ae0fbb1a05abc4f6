package listener

import (
	"fmt"
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshpilot/meshpilot/internal/snapshot/view"
)

// GatewayHTTP is the properties of a connection manager at the edge of the mesh. There only the
// known proxies in front are trusted.
type GatewayHTTP struct {
	// TrustedProxies is how many of the last addresses in x-forwarded-for belong to trusted proxies
	// (ProxyConfig.gatewayTopology.numTrustedProxies).
	TrustedProxies uint32
	// ForwardCert is the handling of x-forwarded-client-cert (forwardClientCertDetails).
	ForwardCert meshconfig.ForwardClientCertDetails
	// HTTP3 is set for QUIC listeners.
	HTTP3 bool
	// PerRoute adds the filters that only routes of the Gateway API configure. It depends on the
	// listener alone: a new filter would drain its connections.
	PerRoute bool
}

// edgeOf returns the common properties of all connection managers of a gateway. Only its topology
// determines the handling of x-forwarded-client-cert (default SANITIZE_SET): proxyHeaders are for
// sidecars, whose callers may be trusted to forward the header.
func edgeOf(v *view.View) *GatewayHTTP {
	t := v.GatewayTopology()
	e := &GatewayHTTP{
		TrustedProxies: t.GetNumTrustedProxies(),
		ForwardCert:    t.GetForwardClientCertDetails(),
	}
	if e.ForwardCert == meshconfig.ForwardClientCertDetails_UNDEFINED {
		e.ForwardCert = meshconfig.ForwardClientCertDetails_SANITIZE_SET
	}
	return e
}

// appendText appends all fields of e to b as text: different values have different texts.
func (e *GatewayHTTP) appendText(b []byte) []byte {
	b = append(b, ", edge"...)
	if e.TrustedProxies != 0 {
		b = appendNumber(append(b, " behind "...), e.TrustedProxies)
	}
	b = append(append(b, " certificates "...), e.ForwardCert.String()...)
	b = appendFlag(b, " HTTP/3", e.HTTP3)
	return appendFlag(b, " filters of routes", e.PerRoute)
}

// edgeFor returns the properties of the connection managers that serve any of the servers: p.edge,
// with PerRoute set if one of them is a listener of the Gateway API.
func (p *gatewayPlanner) edgeFor(servers ...*view.GatewayServer) *GatewayHTTP {
	if !slices.ContainsFunc(servers, (*view.GatewayServer).IsListener) {
		return p.edge
	}
	out := *p.edge
	out.PerRoute = true
	return &out
}

// applyEdge configures m for the edge of the mesh: client addresses and trusted proxies, client
// certificates and HTTP/3.
func (b builder) applyEdge(m *hcmv3.HttpConnectionManager, e *GatewayHTTP) {
	m.UseRemoteAddress, m.XffNumTrustedHops = wrapperspb.Bool(true), e.TrustedProxies
	m.ForwardClientCertDetails = forwardClientCert(e.ForwardCert)
	switch m.ForwardClientCertDetails {
	case hcmv3.HttpConnectionManager_APPEND_FORWARD, hcmv3.HttpConnectionManager_SANITIZE_SET:
		m.SetCurrentClientCertDetails = edgeCertDetails()
	}
	if e.HTTP3 {
		m.CodecType, m.Http3ProtocolOptions = hcmv3.HttpConnectionManager_HTTP3, new(corev3.Http3ProtocolOptions)
	}
}

// edgeCertDetails returns the details of client certificates that gateways forward: the defaults of
// clientCertDetails and the whole certificate, because backends of a gateway see no other proof of
// the caller's identity. proxyHeaders.setCurrentClientCertDetails is for sidecars.
func edgeCertDetails() *hcmv3.HttpConnectionManager_SetCurrentClientCertDetails {
	out := clientCertDetails(nil)
	out.Cert = true
	return out
}

// serverField returns the path of a server in its Gateway.
func serverField(s *view.GatewayServer) string { return fmt.Sprintf("spec.servers[%d]", s.Index) }
