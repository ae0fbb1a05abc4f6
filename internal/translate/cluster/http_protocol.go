package cluster

import (
	"strconv"

	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/config/common/matcher/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	preservecasev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/http/header_formatters/preserve_case/v3"
	upstreamsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	typematcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
)

// httpOptions is the key and the type of a cluster's HTTP options (Cluster.typed_extension_protocol_options).
const httpOptions = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"

// httpProtocol is the HTTP options of a cluster under construction. Nothing is put into the cluster if nothing was set.
type httpProtocol struct {
	options upstreamsv3.HttpProtocolOptions
	// http2 is the HTTP/2 options wherever the cluster may speak it, nil where it does not.
	http2 *corev3.Http2ProtocolOptions
	// only2 says that the cluster speaks nothing but HTTP/2.
	only2 bool
	// follows says that it speaks what the client does.
	follows bool
	// http1 is the HTTP/1.1 options, nil for Envoy's defaults.
	http1 *corev3.Http1ProtocolOptions
	set   bool
}

// outboundProtocol says which HTTP a cluster speaks: HTTP/2 where the port's protocol or the upgrade policy says so, what
// the client speaks where proxies detect the protocol or are asked to follow the client, otherwise HTTP/1.1.
func outboundProtocol(proxy Proxy, port mesh.Port, config *meshconfig.MeshConfig, pool *networking.ConnectionPoolSettings_HTTPSettings) *httpProtocol {
	h := newHTTPProtocol(port, config)
	switch {
	case pool.GetUseClientProtocol():
		h.followClient()
	case port.Protocol.IsHTTP2():
		h.speakHTTP2()
	case port.Protocol == mesh.Auto && proxy.Type == mesh.SidecarProxy:
		h.followClient() // also with an upgrade policy, as in Istio: the port may not speak HTTP at all
	case upgrades(port, config.GetH2UpgradePolicy(), pool.GetH2UpgradePolicy()):
		h.speakHTTP2()
	}
	return h
}

// newHTTPProtocol makes options that say nothing yet, but that HTTP/1.1 headers are sent in the case in which they came, if the
// mesh has it so (ProxyConfig.proxyHeaders.preserveHttp1HeaderCase).
func newHTTPProtocol(port mesh.Port, config *meshconfig.MeshConfig) *httpProtocol {
	h := new(httpProtocol)
	http := port.Protocol.IsHTTP() || port.Protocol == mesh.Auto
	if !http || !config.GetDefaultConfig().GetProxyHeaders().GetPreserveHttp1HeaderCase().GetValue() {
		return h
	}
	h.set, h.http1 = true, &corev3.Http1ProtocolOptions{HeaderKeyFormat: &corev3.Http1ProtocolOptions_HeaderKeyFormat{
		HeaderFormat: &corev3.Http1ProtocolOptions_HeaderKeyFormat_StatefulFormatter{StatefulFormatter: &corev3.TypedExtensionConfig{
			Name: "preserve_case", TypedConfig: resource.Pack(new(preservecasev3.PreserveCaseFormatterConfig)),
		}},
	}}
	return h
}

// oneDotOne gives the HTTP/1.1 options.
func (h *httpProtocol) oneDotOne() *corev3.Http1ProtocolOptions {
	if h.http1 == nil {
		return new(corev3.Http1ProtocolOptions)
	}
	return h.http1
}

// upgrades says whether HTTP/1.1 requests are sent on as HTTP/2. The mesh's policy is only for ports declared as HTTP.
func upgrades(port mesh.Port, mesh meshconfig.MeshConfig_H2UpgradePolicy, rule networking.ConnectionPoolSettings_HTTPSettings_H2UpgradePolicy) bool {
	switch rule {
	case networking.ConnectionPoolSettings_HTTPSettings_UPGRADE:
		return true
	case networking.ConnectionPoolSettings_HTTPSettings_DO_NOT_UPGRADE:
		return false
	default:
		return port.Protocol.IsHTTP() && mesh == meshconfig.MeshConfig_UPGRADE
	}
}

func (h *httpProtocol) speakHTTP2() {
	h.set, h.only2, h.http2 = true, true, new(corev3.Http2ProtocolOptions)
	h.options.UpstreamProtocolOptions = &upstreamsv3.HttpProtocolOptions_ExplicitHttpConfig_{
		ExplicitHttpConfig: &upstreamsv3.HttpProtocolOptions_ExplicitHttpConfig{
			ProtocolConfig: &upstreamsv3.HttpProtocolOptions_ExplicitHttpConfig_Http2ProtocolOptions{Http2ProtocolOptions: h.http2},
		},
	}
}

func (h *httpProtocol) followClient() {
	h.set, h.follows, h.http2 = true, true, new(corev3.Http2ProtocolOptions)
	h.options.UpstreamProtocolOptions = &upstreamsv3.HttpProtocolOptions_UseDownstreamProtocolConfig{
		UseDownstreamProtocolConfig: &upstreamsv3.HttpProtocolOptions_UseDownstreamHttpConfig{
			HttpProtocolOptions: h.oneDotOne(), Http2ProtocolOptions: h.http2,
		},
	}
}

// applyConnectionPool sets what of a connection pool is HTTP's. An idle timeout of TCP counts where HTTP has none.
func (h *httpProtocol) applyConnectionPool(pool *networking.ConnectionPoolSettings) {
	http, tcp := pool.GetHttp(), pool.GetTcp()
	idle := http.GetIdleTimeout()
	if idle == nil {
		idle = tcp.GetIdleTimeout()
	}
	if n := http.GetMaxRequestsPerConnection(); n > 0 || idle != nil || tcp.GetMaxConnectionDuration() != nil {
		common := &corev3.HttpProtocolOptions{IdleTimeout: idle, MaxConnectionDuration: tcp.GetMaxConnectionDuration()}
		if n > 0 {
			common.MaxRequestsPerConnection = wrapperspb.UInt32(uint32(n))
		}
		h.set, h.options.CommonHttpProtocolOptions = true, common
	}
	if h.http2 == nil {
		return // HTTP/1.1 has neither streams nor pings
	}
	if n := http.GetMaxConcurrentStreams(); n > 0 {
		h.http2.MaxConcurrentStreams = wrapperspb.UInt32(uint32(n))
	}
	if k := http.GetHttp2KeepAlive(); positive(k.GetInterval()) != nil && positive(k.GetTimeout()) != nil { // Envoy takes both or none
		h.http2.ConnectionKeepalive = &corev3.KeepaliveSettings{Interval: k.Interval, Timeout: k.Timeout}
	}
}

// applyErrorCodes says which responses outlier detection counts as errors (OutlierDetection.outlierDetectionHttpErrorCodes).
func (h *httpProtocol) applyErrorCodes(o *networking.OutlierDetection) {
	codes := o.GetOutlierDetectionHttpErrorCodes()
	if len(codes) == 0 {
		return
	}
	set := new(matcherv3.MatchPredicate_MatchSet)
	for _, code := range codes {
		status := &matcherv3.HttpHeadersMatch{Headers: []*routev3.HeaderMatcher{{
			Name: ":status",
			HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{StringMatch: &typematcherv3.StringMatcher{
				MatchPattern: &typematcherv3.StringMatcher_Exact{Exact: strconv.FormatUint(uint64(code), 10)},
			}},
		}}}
		set.Rules = append(set.Rules, &matcherv3.MatchPredicate{Rule: &matcherv3.MatchPredicate_HttpResponseHeadersMatch{HttpResponseHeadersMatch: status}})
	}
	matcher := set.Rules[0]
	if len(set.Rules) > 1 { // Envoy refuses a set of one
		matcher = &matcherv3.MatchPredicate{Rule: &matcherv3.MatchPredicate_OrMatch{OrMatch: set}}
	}
	h.set, h.options.OutlierDetection = true, &upstreamsv3.HttpProtocolOptions_OutlierDetection{ErrorMatcher: matcher}
}

// autoTLSNames has Envoy take the server name from the request's host, and demand it of the certificate.
func (h *httpProtocol) autoTLSNames(sni, san bool) {
	if sni || san {
		h.set, h.options.UpstreamHttpProtocolOptions = true, &corev3.UpstreamHttpProtocolOptions{AutoSni: sni, AutoSanValidation: san}
	}
}

// put puts the options into the cluster.
func (h *httpProtocol) put(c *clusterv3.Cluster) {
	if !h.set {
		return
	}
	if h.options.UpstreamProtocolOptions == nil { // Envoy demands one
		h.options.UpstreamProtocolOptions = &upstreamsv3.HttpProtocolOptions_ExplicitHttpConfig_{
			ExplicitHttpConfig: &upstreamsv3.HttpProtocolOptions_ExplicitHttpConfig{
				ProtocolConfig: &upstreamsv3.HttpProtocolOptions_ExplicitHttpConfig_HttpProtocolOptions{HttpProtocolOptions: h.oneDotOne()},
			},
		}
	}
	c.TypedExtensionProtocolOptions = map[string]*anypb.Any{httpOptions: resource.Pack(&h.options)}
}
