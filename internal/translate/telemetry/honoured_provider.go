package telemetry

import (
	"fmt"

	"google.golang.org/protobuf/types/known/structpb"

	meshconfig "istio.io/api/mesh/v1alpha1"
)

// checkFormat calls warn if Envoy would refuse the format of a log provider. kind is the field of
// the provider.
func checkFormat(kind string, f interface {
	GetText() string
	GetLabels() *structpb.Struct
}, warn func(field, reason string)) {
	if fault := formatFault(f.GetText(), f.GetLabels()); fault != "" {
		warn(kind+".logFormat", fault+": the default format is used")
	}
}

// checkHeaders calls warn for each header of a provider that Envoy would refuse. at is the path of
// headers.
func checkHeaders(
	at string,
	headers []*meshconfig.MeshConfig_ExtensionProvider_HttpHeader,
	warn func(field, reason string),
) {
	for i, h := range headers {
		if fault := headerFault(h); fault != "" {
			warn(fmt.Sprintf("%s[%d]", at, i), fault+": the header is not sent")
		}
	}
}

// checkOpenTelemetry calls warn for each setting of an OpenTelemetry tracing provider that has no
// effect or that Envoy would refuse. These are invalid headers, grpc beside http, and
// serviceAttributeEnrichment by semantic conventions. kind is the field of the provider.
func checkOpenTelemetry(
	kind string,
	p *meshconfig.MeshConfig_ExtensionProvider_OpenTelemetryTracingProvider,
	warn func(field, reason string),
) {
	checkHeaders(kind+".http.headers", p.GetHttp().GetHeaders(), warn)
	checkHeaders(kind+".grpc.initialMetadata", p.GetGrpc().GetInitialMetadata(), warn)
	if p.GetHttp() != nil && p.GetGrpc() != nil {
		warn(kind+".grpc", "has no effect beside http")
	}
	if p.GetServiceAttributeEnrichment() == meshconfig.MeshConfig_ExtensionProvider_OTEL_SEMANTIC_CONVENTIONS {
		warn(
			kind+".serviceAttributeEnrichment",
			"service.name is the one of ProxyConfig.tracingServiceName: a proxy reports the same name to all tracers",
		)
	}
	if d := p.GetDynatraceSampler(); d != nil {
		checkHeaders(kind+".dynatraceSampler.httpService.http.headers", d.GetHttpService().GetHttp().GetHeaders(), warn)
	}
}
