package telemetry

import (
	"fmt"

	meshconfig "istio.io/api/mesh/v1alpha1"
	telemetry "istio.io/api/telemetry/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/model/code"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// notFor returns the reason of a Problem: why a provider cannot be used for what ("logs", "spans",
// "metrics").
func notFor(p *provider, what string) string {
	kind := kindOf(p)
	if reason := unsupportedKind(kind); reason != "" {
		return fmt.Sprintf("provider %q (%s): %s", p.GetName(), kind, reason)
	}
	return fmt.Sprintf("provider %q is of kind %s, which takes no %s", p.GetName(), kind, what)
}

// unsupportedKind returns why Envoy does not support a kind of tracing provider, or "" for all
// other kinds.
func unsupportedKind(kind string) string {
	switch kind {
	case "lightstep":
		return "Envoy no longer has this tracer: Lightstep takes OpenTelemetry (opentelemetry)"
	case "opencensus":
		return "Envoy no longer has this tracer: use opentelemetry"
	case "stackdriver":
		return "upstream Envoy does not speak to Google Cloud by itself: send OpenTelemetry to a collector that does"
	default:
		return ""
	}
}

// Unhonoured returns a Warning, without Key and Origin, for each field of a Telemetry that never
// has an effect, or nil. These are reportingInterval, overrides of metrics that proxies do not
// have, and overrides of the tag standardTag. What depends on the mesh and its services is in
// Telemetry.Problems.
func Unhonoured(spec *telemetry.Telemetry) []config.Problem {
	var found []config.Problem
	warn := func(field, reason string) {
		found = append(found, config.Problem{Code: code.FieldWithoutEffect, Field: field, Reason: reason,
			Severity: config.Warning})
	}
	for i, metrics := range spec.GetMetrics() {
		at := fmt.Sprintf("spec.metrics[%d]", i)
		if metrics.GetReportingInterval() != nil {
			warn(at+".reportingInterval", "has no effect: Envoy counts the bytes of a TCP connection when it ends")
		}
		for j, o := range metrics.GetOverrides() {
			switch m := o.GetMatch().GetMetricMatch().(type) {
			case *telemetry.MetricSelector_CustomMetric:
				if !isKnown(o.GetMatch()) {
					warn(
						fmt.Sprintf("%s.overrides[%d].match.customMetric", at, j),
						fmt.Sprintf("proxies have no metric %q", m.CustomMetric),
					)
				}
			case *telemetry.MetricSelector_Metric:
				if !isKnown(o.GetMatch()) {
					warn(fmt.Sprintf("%s.overrides[%d].match.metric", at, j),
						fmt.Sprintf("proxies do not report %s: Envoy counts gRPC messages only per cluster",
							m.Metric))
				}
			}
			if _, ok := o.GetTagOverrides()[standardTag]; ok {
				warn(
					fmt.Sprintf("%s.overrides[%d].tagOverrides[%s]", at, j, standardTag),
					"is the name of a tag that proxies use themselves",
				)
			}
		}
	}
	return found
}

// isKnown reports whether an override selects at least one of the standard metrics of proxies.
func isKnown(s *telemetry.MetricSelector) bool {
	for _, m := range standardMetrics() {
		if selectsMetric(s, m) {
			return true
		}
	}
	return false
}

// UnhonouredMesh returns a Warning, without Key and Origin, for each field of a MeshConfig that
// should affect telemetry or secrets and does not: the access log format, SDS providers after the
// first, and extension providers with a missing or repeated name or another defect (checkProvider).
// Fields are paths in the MeshConfig. It returns nil if there are none.
func UnhonouredMesh(m *meshconfig.MeshConfig) []config.Problem {
	var found []config.Problem
	warn := func(field, reason string) {
		found = append(found, config.Problem{Code: code.FieldWithoutEffect, Field: field, Reason: reason,
			Severity: config.Warning})
	}
	if fault := meshFormatFault(m); fault != "" {
		warn("accessLogFormat", fault+": the default format is used")
	}
	names, secrets := map[string]bool{}, ""
	for i, p := range m.GetExtensionProviders() {
		at := fmt.Sprintf("extensionProviders[%d]", i)
		switch {
		case p.GetName() == "":
			warn(at+".name", "is required: no object can refer to this provider")
		case names[p.GetName()]:
			warn(at+".name", fmt.Sprintf("%q is the name of an earlier provider, which is used", p.GetName()))
		}
		names[p.GetName()] = true
		if p.GetSds() != nil && secrets != "" {
			warn(at+".sds", fmt.Sprintf("has no effect: credentials come from the first SDS provider, %q", secrets))
		} else if p.GetSds() != nil {
			secrets = p.GetName()
		}
		checkProvider(p, func(field, reason string) { warn(at+"."+field, reason) })
	}
	return found
}

// checkProvider calls warn for each defect of a provider that does not depend on services: no kind,
// no service, an invalid port, a format or header that Envoy would refuse, or an unsupported kind.
// A provider without a kind is the only defect that ends the check.
func checkProvider(p *provider, warn func(field, reason string)) {
	kind := kindOf(p)
	if kind == "" {
		warn("name", fmt.Sprintf("provider %q is of no kind", p.GetName()))
		return
	}
	if a, ok := addressOf(p); ok {
		checkAddress(kind, a, warn)
	}
	switch x := p.GetProvider().(type) {
	case *meshconfig.MeshConfig_ExtensionProvider_Sds:
		checkAddress(kind, address{x.Sds.GetService(), x.Sds.GetPort()}, warn)
	case *meshconfig.MeshConfig_ExtensionProvider_EnvoyFileAccessLog:
		checkFormat(kind, x.EnvoyFileAccessLog.GetLogFormat(), warn)
	case *meshconfig.MeshConfig_ExtensionProvider_EnvoyOtelAls:
		checkFormat(kind, x.EnvoyOtelAls.GetLogFormat(), warn)
	case *meshconfig.MeshConfig_ExtensionProvider_Zipkin:
		checkHeaders(kind+".headers", x.Zipkin.GetHeaders(), warn)
	case *meshconfig.MeshConfig_ExtensionProvider_Opentelemetry:
		checkOpenTelemetry(kind, x.Opentelemetry, warn)
	default:
		if reason := unsupportedKind(kind); reason != "" {
			warn(kind, reason)
		}
	}
}

// checkAddress calls warn if the service of a provider is missing, or its port invalid. kind is the
// field of the provider.
func checkAddress(kind string, a address, warn func(field, reason string)) {
	if a.name == "" {
		warn(kind+".service", "is required")
	}
	if a.port == 0 || a.port > 65535 {
		warn(kind+".port", fmt.Sprintf("%d is not a port", a.port))
	}
}
