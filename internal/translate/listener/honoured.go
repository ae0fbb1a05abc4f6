package listener

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/config"
)

// sidecarFields are the fields of Sidecar that shape what its proxies get: here, in clusters (connection pools) or in the
// View (hosts).
func sidecarFields() config.Fields {
	return config.Fields{
		"workloadSelector.labels",
		"ingress.port", "ingress.bind", "ingress.captureMode", "ingress.defaultEndpoint", "ingress.connectionPool",
		"egress.port", "egress.bind", "egress.captureMode", "egress.hosts",
		"inboundConnectionPool", "outboundTrafficPolicy.mode",
	}
}

// UnhonouredSidecar gives what of a Sidecar is not honoured, or cannot do what it says, as Warnings without Key and Origin.
func UnhonouredSidecar(spec *networking.Sidecar) []config.Problem {
	found := sidecarFields().Unhonoured(spec)
	warn := func(field, reason string) {
		found = append(found, config.Problem{Field: field, Reason: reason, Severity: config.Warning})
	}
	for i, l := range spec.GetIngress() {
		captured := l.GetCaptureMode() != networking.CaptureMode_NONE
		if a, err := netip.ParseAddr(l.GetBind()); err == nil && captured && !a.IsUnspecified() {
			warn(fmt.Sprintf("spec.ingress[%d].bind", i), "captured connections are taken at any address; only captureMode NONE listens at this one")
		}
		if !captured && l.GetDefaultEndpoint() == "" {
			warn(fmt.Sprintf("spec.ingress[%d].defaultEndpoint", i), "is missing: with captureMode NONE nothing else says where connections go")
		}
	}
	for i, l := range spec.GetEgress() {
		if a, err := netip.ParseAddr(l.GetBind()); err == nil && a.IsLoopback() && l.GetCaptureMode() != networking.CaptureMode_NONE {
			warn(fmt.Sprintf("spec.egress[%d].bind", i), "connections to a loopback address are not captured; only with captureMode NONE does anything listen there")
		}
	}
	return found
}

// MeshFields are the fields of MeshConfig that listeners follow.
func MeshFields() config.Fields {
	return config.Fields{
		"proxyListenPort", "proxyInboundListenPort", "proxyHttpPort", "protocolDetectionTimeout",
		"outboundTrafficPolicy.mode", "pathNormalization",
		"accessLogFile", "accessLogFormat", "accessLogEncoding",
		// There is nothing to disable: it would log connections that no filter chain takes, and every listener has one that does.
		"disableEnvoyListenerLog",
		"enableTracing", "defaultConfig.tracing.sampling", "defaultConfig.tracing.customTags", "defaultConfig.tracing.maxPathTagLength",
		"defaultConfig.proxyHeaders.forwardedClientCert", "defaultConfig.proxyHeaders.setCurrentClientCertDetails",
		"defaultConfig.proxyHeaders.requestId", "defaultConfig.proxyHeaders.server", "defaultConfig.proxyHeaders.envoyDebugHeaders",
		"defaultConfig.proxyHeaders.preserveHttp1HeaderCase", "defaultConfig.proxyHeaders.xForwardedPort",
		"defaultConfig.proxyHeaders.metadataExchangeHeaders", // proxies add none to any request
		"defaultTrafficPolicy.connectionPool.tcp.idleTimeout", "defaultTrafficPolicy.connectionPool.tcp.maxConnectionDuration",
	}
}

// meshLater are the fields of MeshConfig that are to shape listeners and do not yet, and why.
func meshLater() map[string]string {
	return map[string]string{
		"hboneIdleTimeout":                          "proxies do not speak HBONE yet",
		"enableEnvoyAccessLogService":               "logging to an access log service is not honoured yet, only to a file (accessLogFile)",
		"defaultProviders":                          "extension providers are not used yet: telemetry goes by accessLogFile, enableTracing and defaultConfig.tracing",
		"defaultConfig.tracing.enableIstioTags":     "spans do not have Istio's own tags yet",
		"defaultConfig.gatewayTopology":             "gateways are not served yet",
		"defaultConfig.proxyHeaders.xForwardedHost": "the header is not added yet",
		"defaultConfig.connectionSettings":          "limits and timeouts of the proxies' own connections are not honoured yet",
		"meshMTLS":                                  "connections between proxies are not encrypted yet",
	}
}

// meshElsewhere are the fields below those that others follow.
func meshElsewhere() config.Fields {
	return config.Fields{"defaultConfig.connectionSettings.globalDownstreamConnectionLimit"} // the bootstrap has it
}

// UnhonouredMesh gives what of a MeshConfig would shape listeners and does not, as Warnings without Key and Origin. Fields
// are paths in the MeshConfig itself: "defaultConfig.gatewayTopology". The fields of other rooms are theirs to tell of.
func UnhonouredMesh(m *meshconfig.MeshConfig) []config.Problem {
	later := meshLater()
	reason := func(path string) string {
		for above, reason := range later {
			if (config.Fields{above}).Covers(path) && !meshElsewhere().Covers(path) {
				return reason
			}
		}
		return ""
	}
	others := config.Fields(slices.DeleteFunc(config.Leaves(m), func(leaf string) bool { return reason(leaf) != "" }))
	found := others.Unhonoured(m)
	for i := range found {
		found[i].Field = strings.TrimPrefix(found[i].Field, "spec.")
		found[i].Reason = reason(found[i].Field)
	}
	warn := func(field, reason string) {
		found = append(found, config.Problem{Field: field, Reason: reason, Severity: config.Warning})
	}
	if fault := accessLogFault(m); fault != "" {
		warn("accessLogFormat", fault+": the default format is used")
	}
	if m.GetProxyListenPort() == m.GetProxyInboundListenPort() {
		warn("proxyInboundListenPort", "is the same as proxyListenPort: proxies refuse one of the two listeners")
	}
	return found
}
