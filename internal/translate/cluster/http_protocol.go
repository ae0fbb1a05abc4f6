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

// httpOptions is the key and the type of a cluster's HTTP options
// (Cluster.typed_extension_protocol_options).
const httpOptions = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"

// httpProtocol builds the HTTP options of a cluster. If nothing is set, the cluster has none.
type httpProtocol struct {
	options upstreamsv3.HttpProtocolOptions
	// http2 has the HTTP/2 options if the cluster may use HTTP/2, nil otherwise.
	http2 *corev3.Http2ProtocolOptions
	// only2 is set if the cluster uses only HTTP/2.
	only2 bool
	// follows is set if the cluster uses the version of the downstream request.
	follows bool
	// http1 has the HTTP/1.1 options, nil for Envoy's defaults.
	http1 *corev3.Http1ProtocolOptions
	// set is set if the cluster needs these options, because one differs from Envoy's default.
	set bool
}

// outboundProtocol returns the HTTP options of an outbound cluster, never nil: the version and
// preserve_case (newHTTPProtocol), without the other settings of pool. It uses the client's version
// if useClientProtocol is set, or if a sidecar detects the port's protocol. Otherwise it uses
// HTTP/2 if the port's protocol or an upgrade policy requires it (upgradesToHTTP2), else HTTP/1.1.
func outboundProtocol(
	proxy Proxy,
	port mesh.Port,
	config *meshconfig.MeshConfig,
	pool *networking.ConnectionPoolSettings_HTTPSettings,
) *httpProtocol {
	h := newHTTPProtocol(port, config)
	switch {
	case pool.GetUseClientProtocol():
		h.followClient()
	case port.Protocol.IsHTTP2():
		h.speakHTTP2()
	case port.Protocol == mesh.Auto && proxy.Type == mesh.SidecarProxy:
		// Even with an upgrade policy, as in Istio: the port may not use HTTP at all.
		h.followClient()
	case upgradesToHTTP2(port, config.GetH2UpgradePolicy(), pool.GetH2UpgradePolicy()):
		h.speakHTTP2()
	}
	return h
}

// newHTTPProtocol returns options with nothing set. The exception is preserve_case for HTTP/1.1
// headers, if the mesh configures that (ProxyConfig.proxyHeaders.preserveHttp1HeaderCase) and the
// port's protocol is HTTP or undeclared.
func newHTTPProtocol(port mesh.Port, config *meshconfig.MeshConfig) *httpProtocol {
	h := new(httpProtocol)
	http := port.Protocol.IsHTTP() || port.Protocol == mesh.Auto
	if !http || !config.GetDefaultConfig().GetProxyHeaders().GetPreserveHttp1HeaderCase().GetValue() {
		return h
	}
	preserveCase := &corev3.TypedExtensionConfig{
		Name: "preserve_case", TypedConfig: resource.Pack(new(preservecasev3.PreserveCaseFormatterConfig)),
	}
	h.set = true
	h.http1 = &corev3.Http1ProtocolOptions{HeaderKeyFormat: &corev3.Http1ProtocolOptions_HeaderKeyFormat{
		HeaderFormat: &corev3.Http1ProtocolOptions_HeaderKeyFormat_StatefulFormatter{StatefulFormatter: preserveCase},
	}}
	return h
}

// http1Options returns h.http1, or empty options if it is nil.
func (h *httpProtocol) http1Options() *corev3.Http1ProtocolOptions {
	if h.http1 == nil {
		return new(corev3.Http1ProtocolOptions)
	}
	return h.http1
}

// upgradesToHTTP2 reports whether HTTP/1.1 requests are sent upstream as HTTP/2. UPGRADE and
// DO_NOT_UPGRADE of the DestinationRule (rule) decide for any port. Otherwise the mesh's policy
// does, only for ports declared as HTTP.
func upgradesToHTTP2(
	port mesh.Port,
	mesh meshconfig.MeshConfig_H2UpgradePolicy,
	rule networking.ConnectionPoolSettings_HTTPSettings_H2UpgradePolicy,
) bool {
	switch rule {
	case networking.ConnectionPoolSettings_HTTPSettings_UPGRADE:
		return true
	case networking.ConnectionPoolSettings_HTTPSettings_DO_NOT_UPGRADE:
		return false
	default:
		return port.Protocol.IsHTTP() && mesh == meshconfig.MeshConfig_UPGRADE
	}
}

// speakHTTP2 makes the cluster use only HTTP/2, with new options h.http2.
func (h *httpProtocol) speakHTTP2() {
	h.set, h.only2, h.http2 = true, true, new(corev3.Http2ProtocolOptions)
	h.options.UpstreamProtocolOptions = &upstreamsv3.HttpProtocolOptions_ExplicitHttpConfig_{
		ExplicitHttpConfig: &upstreamsv3.HttpProtocolOptions_ExplicitHttpConfig{
			ProtocolConfig: &upstreamsv3.HttpProtocolOptions_ExplicitHttpConfig_Http2ProtocolOptions{
				Http2ProtocolOptions: h.http2,
			},
		},
	}
}

// followClient makes the cluster use the HTTP version of the downstream request, with h.http1 and
// new options h.http2.
func (h *httpProtocol) followClient() {
	h.set, h.follows, h.http2 = true, true, new(corev3.Http2ProtocolOptions)
	h.options.UpstreamProtocolOptions = &upstreamsv3.HttpProtocolOptions_UseDownstreamProtocolConfig{
		UseDownstreamProtocolConfig: &upstreamsv3.HttpProtocolOptions_UseDownstreamHttpConfig{
			HttpProtocolOptions: h.http1Options(), Http2ProtocolOptions: h.http2,
		},
	}
}

// applyConnectionPool sets the HTTP options of pool, which may be nil: requests per connection, the
// maximum duration of connections, and the idle timeout of HTTP, or else of TCP. Streams and pings
// (http2KeepAlive) are set only if h may use HTTP/2, pings only with a positive interval and
// timeout. It must be called after the HTTP version is set.
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
		return // HTTP/1.1 has neither streams nor pings.
	}
	if n := http.GetMaxConcurrentStreams(); n > 0 {
		h.http2.MaxConcurrentStreams = wrapperspb.UInt32(uint32(n))
	}
	// Envoy requires both or none.
	if k := http.GetHttp2KeepAlive(); positiveOrNil(k.GetInterval()) != nil && positiveOrNil(k.GetTimeout()) != nil {
		h.http2.ConnectionKeepalive = &corev3.KeepaliveSettings{Interval: k.Interval, Timeout: k.Timeout}
	}
}

// applyErrorCodes sets the response codes that outlier detection treats as errors
// (OutlierDetection.outlierDetectionHttpErrorCodes). It does nothing without codes, so Envoy's
// default stays.
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
		set.Rules = append(
			set.Rules,
			&matcherv3.MatchPredicate{
				Rule: &matcherv3.MatchPredicate_HttpResponseHeadersMatch{HttpResponseHeadersMatch: status},
			},
		)
	}
	matcher := set.Rules[0]
	if len(set.Rules) > 1 { // Envoy refuses a set of one.
		matcher = &matcherv3.MatchPredicate{Rule: &matcherv3.MatchPredicate_OrMatch{OrMatch: set}}
	}
	h.set, h.options.OutlierDetection = true, &upstreamsv3.HttpProtocolOptions_OutlierDetection{ErrorMatcher: matcher}
}

// setAutoTLSNames lets Envoy use the request's host as server name (sni), and verify the
// certificate against it (san). It does nothing if both are false.
func (h *httpProtocol) setAutoTLSNames(sni, san bool) {
	if sni || san {
		h.set, h.options.UpstreamHttpProtocolOptions = true, &corev3.UpstreamHttpProtocolOptions{
			AutoSni:           sni,
			AutoSanValidation: san,
		}
	}
}

// applyTo sets the options in the cluster, in place of its other extension protocol options; it
// does nothing if none is set. If no HTTP version was chosen, it sets HTTP/1.1 explicitly, also in
// h, because Envoy requires one.
func (h *httpProtocol) applyTo(c *clusterv3.Cluster) {
	if !h.set {
		return
	}
	if h.options.UpstreamProtocolOptions == nil { // Envoy requires one.
		h.options.UpstreamProtocolOptions = &upstreamsv3.HttpProtocolOptions_ExplicitHttpConfig_{
			ExplicitHttpConfig: &upstreamsv3.HttpProtocolOptions_ExplicitHttpConfig{
				ProtocolConfig: &upstreamsv3.HttpProtocolOptions_ExplicitHttpConfig_HttpProtocolOptions{
					HttpProtocolOptions: h.http1Options(),
				},
			},
		}
	}
	c.TypedExtensionProtocolOptions = map[string]*anypb.Any{httpOptions: resource.Pack(&h.options)}
}
