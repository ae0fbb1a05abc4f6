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

// Names of the ways in which an endpoint may be called.
const (
	asPeer        = "tlsMode-istio"
	asPeerRequest = "tlsMode-istio-http"
	inTheClear    = "tlsMode-disabled"
)

// matchEndpoints has endpoints that say that they take mutual TLS called with it, and the others in the clear.
func (t transport) matchEndpoints(c *clusterv3.Cluster, http *httpProtocol) {
	takes := fields{"tlsMode": structpb.NewStringValue("istio")}.message()
	c.TransportSocketMatches = []*clusterv3.Cluster_TransportSocketMatch{
		{Name: asPeer, Match: takes, TransportSocket: t.peer(http, nil)},
		{Name: inTheClear, Match: new(structpb.Struct), TransportSocket: t.announced(plain())},
	}
	if !t.mixed() {
		return
	}
	c.TransportSocketMatches = append(c.TransportSocketMatches, &clusterv3.Cluster_TransportSocketMatch{
		Name: asPeerRequest, Match: takes, TransportSocket: t.peer(http, certificate.ProtocolNames(certificate.FollowClient)),
	})
	c.TransportSocketMatcher = by(&socketinputsv3.EndpointMetadataInput{
		Filter: "envoy.transport_socket_match",
		Path:   []*socketinputsv3.EndpointMetadataInput_PathSegment{{Segment: &socketinputsv3.EndpointMetadataInput_PathSegment_Key{Key: "tlsMode"}}},
	}, "istio", &matcherxds.Matcher_OnMatch{OnMatch: &matcherxds.Matcher_OnMatch_Matcher{Matcher: byRequest()}}, take(inTheClear))
}

// matchRequests has all endpoints called with mutual TLS.
func (t transport) matchRequests(c *clusterv3.Cluster, http *httpProtocol) {
	c.TransportSocket = t.peer(http, nil)
	if !t.mixed() {
		return
	}
	c.TransportSocketMatches = []*clusterv3.Cluster_TransportSocketMatch{
		{Name: asPeer, Match: new(structpb.Struct), TransportSocket: c.TransportSocket},
		{Name: asPeerRequest, Match: new(structpb.Struct), TransportSocket: t.peer(http, certificate.ProtocolNames(certificate.FollowClient))},
	}
	c.TransportSocketMatcher = byRequest()
}

// mixed says that both requests and raw connections are sent by the cluster, for nobody said what the port speaks. The other proxy
// cannot look into TLS, so it is told.
//
// An Envoy without the matcher would take the first socket for all connections, so it is not sent the second one.
func (t transport) mixed() bool {
	return t.service != nil && t.port.Protocol == mesh.Auto && !t.proxy.Lacks.Has(view.TransportSocketMatcher)
}

// peer gives the socket of mutual TLS between proxies, which offers those protocols, or if there are none what the port is declared
// to speak.
func (t transport) peer(http *httpProtocol, protocols []string) *corev3.TransportSocket {
	context := t.betweenProxies(http)
	if protocols != nil {
		context.CommonTlsContext.AlpnProtocols = protocols
	}
	return t.announced(socket("envoy.transport_sockets.tls", context))
}

// byRequest takes asPeerRequest for what a connection manager sends (see certificate.RequestKey), and else asPeer.
func byRequest() *matcherxds.Matcher {
	return by(&socketinputsv3.FilterStateInput{Key: certificate.RequestKey}, certificate.IsRequest, take(asPeerRequest), take(asPeer))
}

// by makes a matcher that does one thing if the input is equal to value, and another if not.
func by(input proto.Message, value string, equal, otherwise *matcherxds.Matcher_OnMatch) *matcherxds.Matcher {
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

func take(name string) *matcherxds.Matcher_OnMatch {
	return &matcherxds.Matcher_OnMatch{OnMatch: &matcherxds.Matcher_OnMatch_Action{Action: &xdscore.TypedExtensionConfig{
		Name: name, TypedConfig: resource.Pack(&socketinputsv3.TransportSocketNameAction{Name: name}),
	}}}
}
