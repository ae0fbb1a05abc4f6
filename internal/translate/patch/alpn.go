package patch

import (
	"bytes"
	"slices"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	proxyprotocolv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/proxy_protocol/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	upstreamsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/meshpilot/meshpilot/internal/translate/certificate"
)

// httpOptions is the key of the HTTP options in Cluster.typed_extension_protocol_options.
const httpOptions = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"

// alignALPN replaces the ALPN names of c's mutual TLS between proxies, in place, if patches have
// changed its HTTP version since before. Otherwise the other proxy would agree on the old version
// and fail to parse the new one. ALPN names that a patch has set are kept. It returns an error if a
// TLS context cannot be decoded or encoded.
func alignALPN(before, c *clusterv3.Cluster) error {
	was, is := httpVersion(before), httpVersion(c)
	if was == is {
		return nil
	}
	old, names := certificate.ProtocolNames(was), certificate.ProtocolNames(is)
	if err := replaceALPN(c.GetTransportSocket(), old, names); err != nil {
		return err
	}
	for _, m := range c.GetTransportSocketMatches() {
		if err := replaceALPN(m.GetTransportSocket(), old, names); err != nil {
			return err
		}
	}
	return nil
}

// httpVersion returns the HTTP version that Envoy uses on connections of c, by default HTTP/1.1. If
// c has typed HTTP options, they decide, and the older fields of the cluster are ignored.
func httpVersion(c *clusterv3.Cluster) certificate.HTTPVersion {
	options := new(upstreamsv3.HttpProtocolOptions)
	if typed := c.GetTypedExtensionProtocolOptions()[httpOptions]; typed != nil && typed.UnmarshalTo(options) == nil {
		switch {
		case options.GetUseDownstreamProtocolConfig() != nil:
			return certificate.FollowClient
		case options.GetAutoConfig() != nil:
			return certificate.Negotiated
		case options.GetExplicitHttpConfig().GetHttp2ProtocolOptions() != nil:
			return certificate.HTTP2
		default:
			return certificate.HTTP1
		}
	}
	switch {
	//nolint:staticcheck // users' patches have it
	case c.GetProtocolSelection() == clusterv3.Cluster_USE_DOWNSTREAM_PROTOCOL:
		return certificate.FollowClient
	case c.GetHttp2ProtocolOptions() != nil: //nolint:staticcheck // as above
		return certificate.HTTP2
	default:
		return certificate.HTTP1
	}
}

// replaceALPN replaces the ALPN names of a TLS socket in place, perhaps behind a PROXY protocol
// header, if they are exactly old. Other sockets are unchanged. It returns an error if the socket
// cannot be decoded or encoded.
func replaceALPN(socket *corev3.TransportSocket, old, names []string) error {
	typed := socket.GetTypedConfig()
	context, announced := new(tlsv3.UpstreamTlsContext), new(proxyprotocolv3.ProxyProtocolUpstreamTransport)
	switch {
	case typed.MessageIs(context):
		if err := typed.UnmarshalTo(context); err != nil {
			return err
		}
		if !slices.Equal(context.GetCommonTlsContext().GetAlpnProtocols(), old) {
			return nil
		}
		context.CommonTlsContext.AlpnProtocols = names
		return repack(typed, context)
	case typed.MessageIs(announced):
		if err := typed.UnmarshalTo(announced); err != nil {
			return err
		}
		inner := announced.GetTransportSocket().GetTypedConfig().GetValue()
		if err := replaceALPN(announced.GetTransportSocket(), old, names); err != nil {
			return err
		}
		if bytes.Equal(inner, announced.GetTransportSocket().GetTypedConfig().GetValue()) {
			return nil
		}
		return repack(typed, announced)
	default:
		return nil
	}
}

// repack sets to to the packed message m. If m cannot be encoded, it returns the error and to is
// unchanged.
func repack(to *anypb.Any, m proto.Message) error {
	a, err := pack(m)
	if err == nil {
		to.TypeUrl, to.Value = a.GetTypeUrl(), a.GetValue()
	}
	return err
}
