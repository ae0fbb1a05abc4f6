package cluster

import (
	matcherxds "github.com/cncf/xds/go/xds/type/matcher/v3"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	socketinputsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/matching/common_inputs/transport_socket/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	xdscore "github.com/cncf/xds/go/xds/core/v3"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/translate/certificate"
)

// Names of the transport sockets of a cluster.
const (
	asPeer        = "tlsMode-istio"
	asPeerRequest = "tlsMode-istio-http"
)

// matchEndpoints selects mutual TLS for endpoints whose metadata declares it. For all others Envoy
// uses the cluster's own transport socket, which is plaintext: it is only set if a PROXY protocol
// header is configured, because every cluster would repeat Envoy's default (ADR 53). If the port's
// protocol is undeclared (isMixed), requests of connection managers offer other ALPN names than raw
// connections.
func (t transport) matchEndpoints(c *clusterv3.Cluster, http *httpProtocol) {
	takes := fields{"tlsMode": structpb.NewStringValue("istio")}.toStruct()
	c.TransportSocket = t.plaintextSocket()
	c.TransportSocketMatches = []*clusterv3.Cluster_TransportSocketMatch{
		{Name: asPeer, Match: takes, TransportSocket: t.meshSocket(http, nil)},
	}
	if !t.isMixed() {
		return
	}
	c.TransportSocketMatches = append(c.TransportSocketMatches, &clusterv3.Cluster_TransportSocketMatch{
		Name: asPeerRequest, Match: takes, TransportSocket: t.meshSocket(
			http,
			certificate.ProtocolNames(certificate.FollowClient),
		),
	})
	c.TransportSocketMatcher = matchValue(&socketinputsv3.EndpointMetadataInput{
		Filter: "envoy.transport_socket_match",
		Path: []*socketinputsv3.EndpointMetadataInput_PathSegment{
			{Segment: &socketinputsv3.EndpointMetadataInput_PathSegment_Key{Key: "tlsMode"}},
		},
	}, "istio", &matcherxds.Matcher_OnMatch{
		OnMatch: &matcherxds.Matcher_OnMatch_Matcher{Matcher: byRequest()},
	}, nil)
}

// matchRequests sets the mesh's mutual TLS as transport socket of c, for all endpoints. If the
// port's protocol is not declared (isMixed), it adds a second socket with the ALPN names of
// requests. A matcher then selects between them: the second one for requests of connection
// managers, the first one for raw connections.
func (t transport) matchRequests(c *clusterv3.Cluster, http *httpProtocol) {
	c.TransportSocket = t.meshSocket(http, nil)
	if !t.isMixed() {
		return
	}
	c.TransportSocketMatches = []*clusterv3.Cluster_TransportSocketMatch{
		{Name: asPeer, Match: new(structpb.Struct), TransportSocket: c.TransportSocket},
		{
			Name:            asPeerRequest,
			Match:           new(structpb.Struct),
			TransportSocket: t.meshSocket(http, certificate.ProtocolNames(certificate.FollowClient)),
		},
	}
	c.TransportSocketMatcher = byRequest()
}

// isMixed reports whether the cluster carries both requests and raw connections, because the
// protocol of the port is undeclared. The other proxy cannot look into TLS, so ALPN must
// distinguish them.
//
// It returns false if the proxies' Envoy lacks the transport socket matcher: such an Envoy would
// use the first socket for all connections.
func (t transport) isMixed() bool {
	return t.service != nil && t.port.Protocol == mesh.Auto && !t.proxy.Lacks.Has(view.TransportSocketMatcher)
}

// meshSocket returns the socket of mutual TLS between proxies, after a PROXY protocol header if one
// is configured. It offers the ALPN names protocols or, if nil, the names for the port's declared
// protocol.
func (t transport) meshSocket(http *httpProtocol, protocols []string) *corev3.TransportSocket {
	context := t.meshTLS(http)
	if protocols != nil {
		context.CommonTlsContext.AlpnProtocols = protocols
	}
	return t.withProxyProtocol(transportSocket("envoy.transport_sockets.tls", context))
}

// byRequest returns a matcher that selects asPeerRequest for the requests of a connection manager
// (see certificate.RequestKey), and asPeer for raw connections.
func byRequest() *matcherxds.Matcher {
	return matchValue(
		&socketinputsv3.FilterStateInput{Key: certificate.RequestKey},
		certificate.IsRequest,
		selectSocket(asPeerRequest),
		selectSocket(asPeer),
	)
}

// matchValue returns a matcher that executes equal if input has the value, else otherwise, which
// may be nil.
func matchValue(input proto.Message, value string, equal, otherwise *matcherxds.Matcher_OnMatch) *matcherxds.Matcher {
	return &matcherxds.Matcher{
		MatcherType: &matcherxds.Matcher_MatcherTree_{MatcherTree: &matcherxds.Matcher_MatcherTree{
			Input: &xdscore.TypedExtensionConfig{Name: "input", TypedConfig: resource.Pack(input)},
			TreeType: &matcherxds.Matcher_MatcherTree_ExactMatchMap{ExactMatchMap: &matcherxds.Matcher_MatcherTree_MatchMap{
				Map: map[string]*matcherxds.Matcher_OnMatch{value: equal},
			}},
		}},
		OnNoMatch: otherwise,
	}
}

// selectSocket returns the action that selects the transport socket match with a name.
func selectSocket(name string) *matcherxds.Matcher_OnMatch {
	return &matcherxds.Matcher_OnMatch{OnMatch: &matcherxds.Matcher_OnMatch_Action{Action: &xdscore.TypedExtensionConfig{
		Name: name, TypedConfig: resource.Pack(&socketinputsv3.TransportSocketNameAction{Name: name}),
	}}}
}
