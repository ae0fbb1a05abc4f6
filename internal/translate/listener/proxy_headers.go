package listener

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	preservecasev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/http/header_formatters/preserve_case/v3"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshpilot/meshpilot/internal/model/resource"
)

// serverName is the default "server" header of responses of workloads and gateways.
const serverName = "istio-envoy"

// applyProxyHeaders sets in m the headers that the proxy adds to requests and responses, by
// ProxyConfig.proxyHeaders: requestId, preserveHttp1HeaderCase, xForwardedPort and server. Unset
// ones have Envoy's defaults, except the server header (applyServerHeader). For inbound listeners
// it also sets how client certificates are forwarded, by default APPEND_FORWARD; for gateways
// applyEdge does.
func (b builder) applyProxyHeaders(m *hcmv3.HttpConnectionManager) {
	h := b.settings.Mesh.GetDefaultConfig().GetProxyHeaders()
	if h.GetRequestId().GetDisabled().GetValue() {
		m.GenerateRequestId = wrapperspb.Bool(false)
	}
	if h.GetPreserveHttp1HeaderCase().GetValue() {
		http1Options(m).HeaderKeyFormat = &corev3.Http1ProtocolOptions_HeaderKeyFormat{
			HeaderFormat: &corev3.Http1ProtocolOptions_HeaderKeyFormat_StatefulFormatter{
				StatefulFormatter: &corev3.TypedExtensionConfig{
					Name: "preserve_case", TypedConfig: resource.Pack(new(preservecasev3.PreserveCaseFormatterConfig)),
				},
			},
		}
	}
	m.AppendXForwardedPort = h.GetXForwardedPort().GetEnabled().GetValue()
	b.applyServerHeader(m)
	if !b.inbound {
		return
	}
	m.ForwardClientCertDetails = forwardClientCert(h.GetForwardedClientCert())
	switch m.ForwardClientCertDetails {
	case hcmv3.HttpConnectionManager_APPEND_FORWARD, hcmv3.HttpConnectionManager_SANITIZE_SET:
		m.SetCurrentClientCertDetails = clientCertDetails(h.GetSetCurrentClientCertDetails())
	}
}

// applyServerHeader sets the "server" header of responses (proxyHeaders.server). By default it is
// serverName inbound and at gateways, and Envoy's default, "envoy", outbound. If it is disabled,
// the upstream's header passes.
func (b builder) applyServerHeader(m *hcmv3.HttpConnectionManager) {
	if b.inbound || b.edge {
		m.ServerName = serverName
	}
	switch s := b.settings.Mesh.GetDefaultConfig().GetProxyHeaders().GetServer(); {
	case s.GetDisabled().GetValue():
		m.ServerName, m.ServerHeaderTransformation = "", hcmv3.HttpConnectionManager_PASS_THROUGH
	case s.GetValue() != "":
		m.ServerName = s.GetValue()
	}
}

// forwardClientCert translates ForwardClientCertDetails to Envoy's value of the same name.
// Undefined and unknown values become APPEND_FORWARD.
func forwardClientCert(in meshconfig.ForwardClientCertDetails) hcmv3.HttpConnectionManager_ForwardClientCertDetails {
	switch in {
	case meshconfig.ForwardClientCertDetails_SANITIZE:
		return hcmv3.HttpConnectionManager_SANITIZE
	case meshconfig.ForwardClientCertDetails_FORWARD_ONLY:
		return hcmv3.HttpConnectionManager_FORWARD_ONLY
	case meshconfig.ForwardClientCertDetails_SANITIZE_SET:
		return hcmv3.HttpConnectionManager_SANITIZE_SET
	case meshconfig.ForwardClientCertDetails_ALWAYS_FORWARD_ONLY:
		return hcmv3.HttpConnectionManager_ALWAYS_FORWARD_ONLY
	default:
		return hcmv3.HttpConnectionManager_APPEND_FORWARD
	}
}

// clientCertDetails returns which details of a client certificate are forwarded: by default
// subject, DNS names and URIs, but not the certificate and its chain. in may be nil.
func clientCertDetails(
	in *meshconfig.ProxyConfig_ProxyHeaders_SetCurrentClientCertDetails,
) *hcmv3.HttpConnectionManager_SetCurrentClientCertDetails {
	or := func(v *wrapperspb.BoolValue, otherwise bool) bool {
		if v == nil {
			return otherwise
		}
		return v.GetValue()
	}
	return &hcmv3.HttpConnectionManager_SetCurrentClientCertDetails{
		Subject: wrapperspb.Bool(or(in.GetSubject(), true)),
		Dns:     or(in.GetDns(), true),
		Uri:     or(in.GetUri(), true),
		Cert:    or(in.GetCert(), false),
		Chain:   or(in.GetChain(), false),
	}
}
