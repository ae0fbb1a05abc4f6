package listener

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/code"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// sidecarFields returns the fields of Sidecar that affect its proxies: in listeners, in clusters
// (connection pools) or in the View (hosts).
func sidecarFields() config.Fields {
	return config.Fields{
		"workloadSelector.labels",
		"ingress.port", "ingress.bind", "ingress.captureMode", "ingress.defaultEndpoint", "ingress.connectionPool",
		"ingress.tls.mode", "ingress.tls.serverCertificate", "ingress.tls.privateKey",
		"ingress.tls.caCertificates", "ingress.tls.caCrl",
		"ingress.tls.credentialName", "ingress.tls.credentialNames",
		"ingress.tls.caCertCredentialName", "ingress.tls.tlsCertificates",
		"ingress.tls.subjectAltNames", "ingress.tls.verifyCertificateSpki", "ingress.tls.verifyCertificateHash",
		"ingress.tls.minProtocolVersion", "ingress.tls.maxProtocolVersion",
		"ingress.tls.cipherSuites", "ingress.tls.insecureSkipVerify",
		"egress.port", "egress.bind", "egress.captureMode", "egress.hosts",
		"inboundConnectionPool", "outboundTrafficPolicy.mode", "outboundTrafficPolicy.egressProxy",
	}
}

// UnhonouredSidecar returns a Warning, without Key and Origin, for each setting of a Sidecar that
// is not honoured, or cannot take effect. Besides fields that proxies never honour, these are
// h2UpgradePolicy of inbound pools, and captureMode NONE of an ingress listener without
// defaultEndpoint. Where connections are captured, they are also bind addresses of ingress
// listeners, unless unspecified, and loopback addresses of egress listeners.
func UnhonouredSidecar(spec *networking.Sidecar) []config.Problem {
	found := sidecarFields().Unhonoured(spec)
	warn := func(field, reason string) {
		found = append(
			found,
			config.Problem{Code: code.FieldWithoutEffect, Field: field, Reason: reason, Severity: config.Warning},
		)
	}
	for i, l := range spec.GetIngress() {
		captured := l.GetCaptureMode() != networking.CaptureMode_NONE
		if a, err := netip.ParseAddr(l.GetBind()); err == nil && captured && !a.IsUnspecified() {
			warn(
				fmt.Sprintf("spec.ingress[%d].bind", i),
				"captured connections are accepted at any address; only captureMode NONE listens at this address",
			)
		}
		warnUpgrade(warn, fmt.Sprintf("spec.ingress[%d].connectionPool", i), l.GetConnectionPool())
		if !captured && l.GetDefaultEndpoint() == "" {
			warn(
				fmt.Sprintf("spec.ingress[%d].defaultEndpoint", i),
				"is missing: with captureMode NONE nothing else defines the destination",
			)
		}
	}
	warnUpgrade(warn, "spec.inboundConnectionPool", spec.GetInboundConnectionPool())
	for i, l := range spec.GetEgress() {
		if a, err := netip.ParseAddr(l.GetBind()); err == nil && a.IsLoopback() &&
			l.GetCaptureMode() != networking.CaptureMode_NONE {
			warn(
				fmt.Sprintf("spec.egress[%d].bind", i),
				"connections to a loopback address are not captured; only with captureMode NONE does anything listen there",
			)
		}
	}
	return found
}

// warnUpgrade calls warn if pool sets h2UpgradePolicy: requests to the workload are not upgraded to
// HTTP/2. field is the path of pool.
func warnUpgrade(warn func(field, reason string), field string, pool *networking.ConnectionPoolSettings) {
	if pool.GetHttp().GetH2UpgradePolicy() != networking.ConnectionPoolSettings_HTTPSettings_DEFAULT {
		warn(
			field+".http.h2UpgradePolicy",
			"has no effect here: the workload is spoken to as its port is declared, or as the client speaks (useClientProtocol)",
		)
	}
}

// unsupportedMeshFields returns the fields of MeshConfig that should affect listeners and do not,
// with the reason of each: metadataExchangeHeaders, hboneIdleTimeout and listenerConnectionLimit.
func unsupportedMeshFields() map[string]string {
	return map[string]string{
		"defaultConfig.proxyHeaders.metadataExchangeHeaders": "has no effect: proxies send each other no metadata headers, inside the mesh or outside",
		"hboneIdleTimeout": "has no effect: HBONE and ambient mode are not supported",
		// Envoy reads this limit only from its runtime, which is set at startup.
		"defaultConfig.connectionSettings.listenerConnectionLimit": "has no effect: set defaultConfig.runtimeValues envoy.resource_limits.listener.NAME.connection_limit, or globalDownstreamConnectionLimit",
	}
}

// UnhonouredMesh returns a Warning, without Key and Origin, for each field of a MeshConfig that
// should affect listeners and does not. It also warns of connection settings that are ignored and
// of equal listen ports. Fields are paths in the MeshConfig: "defaultConfig.gatewayTopology". Other
// packages report their own fields.
func UnhonouredMesh(m *meshconfig.MeshConfig) []config.Problem {
	later := unsupportedMeshFields()
	reason := func(path string) string {
		for above, reason := range later {
			if (config.Fields{above}).Covers(path) {
				return reason
			}
		}
		return ""
	}
	others := config.Fields(
		slices.DeleteFunc(config.LeafPaths(m), func(leaf string) bool { return reason(leaf) != "" }),
	)
	found := others.Unhonoured(m)
	for i := range found {
		found[i].Field = strings.TrimPrefix(found[i].Field, "spec.")
		found[i].Reason = reason(found[i].Field)
	}
	warn := func(field, reason string) {
		found = append(
			found,
			config.Problem{Code: code.FieldWithoutEffect, Field: field, Reason: reason, Severity: config.Warning},
		)
	}
	found = append(found, connectionFaults(m)...)
	if m.GetProxyListenPort() == m.GetProxyInboundListenPort() {
		warn("proxyInboundListenPort", "is the same as proxyListenPort: proxies refuse one of the two listeners")
	}
	return found
}
