package retired

import (
	"cmp"
	"strings"
)

// Kind is a kind of object that Istio has removed.
type Kind struct {
	Group, Kind, Successor string
}

// Field is a field of a kind's spec, of MeshConfig or of ProxyConfig that Istio has
// removed.
type Field struct {
	// Message is the last part of the protobuf name of the message that had it: "HTTPRoute",
	// "HTTPFaultInjection.Abort".
	Message string
	// Name is its JSON name.
	Name      string
	Successor string
}

// Annotation is an annotation, or if Prefix is set the beginning of one, that Istio has
// removed.
type Annotation struct {
	Name string
	// Prefix matches every annotation whose name begins with Name.
	Prefix    bool
	Successor string
	// Lost describes the effect that is lost with the annotation, as a sentence without its full stop.
	Lost string
}

const (
	mixer = "there is no Mixer: use Telemetry for metrics, logs and traces, AuthorizationPolicy (also CUSTOM) for checks, " +
		"and an EnvoyFilter with Envoy's rate limit filter for quotas"
	rateLimit = "use an EnvoyFilter with Envoy's rate limit filter"
	exportTo  = `use exportTo: ["."] instead of PRIVATE, ["*"] instead of PUBLIC`
)

// Kinds returns the retired kinds. An entry without a kind is for all others of its group and
// follows them.
func Kinds() []Kind {
	return []Kind{
		{"authentication.istio.io", "Policy",
			"use PeerAuthentication for peers (mutual TLS), RequestAuthentication for origins (tokens)"},
		{"authentication.istio.io", "MeshPolicy", "use PeerAuthentication in the root namespace, without a selector"},
		{"rbac.istio.io", "ServiceRole", "use AuthorizationPolicy: its rules[].to are the role"},
		{"rbac.istio.io", "ServiceRoleBinding", "use AuthorizationPolicy: its rules[].from and when are the binding"},
		{"rbac.istio.io", "RbacConfig",
			"use AuthorizationPolicy: one without rules denies all requests to its namespace"},
		{"rbac.istio.io", "ClusterRbacConfig",
			"use AuthorizationPolicy: one without rules in the root namespace denies all requests"},
		{"config.istio.io", "QuotaSpec", rateLimit},
		{"config.istio.io", "QuotaSpecBinding", rateLimit},
		{"config.istio.io", "HTTPAPISpec",
			"use AuthorizationPolicy and RequestAuthentication, which match on paths, methods and headers"},
		{"config.istio.io", "HTTPAPISpecBinding",
			"use AuthorizationPolicy and RequestAuthentication, which match on paths, methods and headers"},
		{"config.istio.io", "RouteRule", "use VirtualService"},
		{"config.istio.io", "DestinationPolicy", "use DestinationRule"},
		{"config.istio.io", "EgressRule", "use ServiceEntry"},
		{"config.istio.io", "rule", mixer},
		{"config.istio.io", "handler", mixer},
		{"config.istio.io", "instance", mixer},
		{"config.istio.io", "adapter", mixer},
		{"config.istio.io", "template", mixer},
		{"config.istio.io", "attributemanifest", mixer},
		{"config.istio.io", "", mixer},
		{"install.istio.io", "IstioOperator", "use the Helm charts and their values"},
	}
}

// Fields returns the retired fields of objects, MeshConfig and ProxyConfig, with the advice about
// their successors, in the order of docs/RETIRED.md.
func Fields() []Field {
	const requestAdd, responseAdd = "use headers.request.add", "use headers.response.add"
	const requestRemove, responseRemove = "use headers.request.remove", "use headers.response.remove"
	const sds = "certificates always come over SDS, from the agent"
	return []Field{
		{"VirtualService", "configScope", exportTo},
		{"HTTPRoute", "websocketUpgrade", "leave it out: upgrades to WebSocket are always allowed"},
		{"HTTPRoute", "appendHeaders", requestAdd},
		{"HTTPRoute", "appendRequestHeaders", requestAdd},
		{"HTTPRoute", "removeRequestHeaders", requestRemove},
		{"HTTPRoute", "appendResponseHeaders", responseAdd},
		{"HTTPRoute", "removeResponseHeaders", responseRemove},
		{"HTTPRouteDestination", "appendRequestHeaders", requestAdd},
		{"HTTPRouteDestination", "removeRequestHeaders", requestRemove},
		{"HTTPRouteDestination", "appendResponseHeaders", responseAdd},
		{"HTTPRouteDestination", "removeResponseHeaders", responseRemove},
		{"HTTPFaultInjection.Abort", "percent", "use percentage.value"},
		{"TLSMatchAttributes", "sourceSubnet", "use sourceLabels or sourceNamespace"},
		{"PortSelector", "name", "use number"},
		{"DestinationRule", "configScope", exportTo},
		{"Gateway", "configScope", "leave it out: a VirtualService's gateways entry names the Gateway with its namespace"},
		{"ServiceEntry", "configScope", exportTo},
		{"Sidecar", "localhost", "use ingress[].tls for a port of the sidecar"},
		{"IstioIngressListener", "localhostClientTls",
			"use connectionPool, or leave it out: the application is called in plain text"},
		{"IstioEgressListener", "localhostServerTls", "leave it out: the application calls its sidecar in plain text"},
		{"EnvoyFilter", "workloadLabels", "use workloadSelector.labels"},
		{"EnvoyFilter", "filters", "use configPatches, with applyTo HTTP_FILTER or NETWORK_FILTER"},
		{"MeshConfig", "mixerCheckServer", mixer},
		{"MeshConfig", "mixerReportServer", mixer},
		{"MeshConfig", "mixerAddress", mixer},
		{"MeshConfig", "disablePolicyChecks", mixer},
		{"MeshConfig", "disableMixerHttpReports", mixer},
		{"MeshConfig", "policyCheckFailOpen", mixer},
		{"MeshConfig", "sidecarToTelemetrySessionAffinity", mixer},
		{"MeshConfig", "enableClientSidePolicyCheck", mixer},
		{"MeshConfig", "disableReportBatch", mixer},
		{"MeshConfig", "reportBatchMaxEntries", mixer},
		{"MeshConfig", "reportBatchMaxTime", mixer},
		{"MeshConfig", "authPolicy", "use PeerAuthentication in the root namespace, with mode STRICT instead of MUTUAL_TLS"},
		{"MeshConfig", "rdsRefreshDelay", "configuration is pushed, not polled"},
		{"MeshConfig", "sdsUdsPath", sds},
		{"MeshConfig", "sdsRefreshDelay", sds},
		{"MeshConfig", "enableSdsTokenMount", sds},
		{"MeshConfig", "sdsUseK8sSaJwt", sds},
		{"MeshConfig", "thriftConfig", "use an EnvoyFilter"},
		{"MeshConfig", "terminationDrainDuration", "use defaultConfig.terminationDrainDuration"},
		{"MeshConfig", "fileFlushInterval", "use defaultConfig.fileFlushInterval"},
		{"MeshConfig", "fileFlushMinSize", "use defaultConfig.fileFlushMinSizeKb"},
		{"ProxyConfig", "parentShutdownDuration", "Envoy is not restarted hot; use terminationDrainDuration"},
		{"ProxyConfig", "connectTimeout", "use MeshConfig.connectTimeout"},
	}
}

// Annotations returns the annotations that Istio has removed and that therefore have no effect. An
// entry with Prefix is for all annotations whose names begin with Name.
func Annotations() []Annotation {
	const overlay = "use proxy.istio.io/config with the field "
	return []Annotation{
		{
			Name:      "networking.istio.io/configScope",
			Successor: `use networking.istio.io/exportTo: "." instead of PRIVATE, "*" instead of PUBLIC`,
			Lost:      "the service is visible in every namespace that its exportTo allows",
		},
		{
			Name: "auth.istio.io/", Prefix: true,
			Successor: "use PeerAuthentication.portLevelMtls and a DestinationRule's portLevelSettings",
			Lost:      "the mode of mutual TLS of this port follows from PeerAuthentication alone",
		},
		{
			Name: "policy.istio.io/", Prefix: true, Successor: "use AuthorizationPolicy with action CUSTOM",
			Lost: "no check is made before requests",
		},
		{Name: "sidecar.istio.io/controlPlaneAuthPolicy", Successor: overlay + "controlPlaneAuthPolicy"},
	}
}

// KindOf returns the entry of a retired kind, and whether there is one. It may be an entry for all
// other kinds of the group.
func KindOf(group, kind string) (Kind, bool) {
	for _, k := range Kinds() {
		if k.Group == group && (k.Kind == kind || k.Kind == "") {
			return k, true
		}
	}
	return Kind{}, false
}

// FieldOf returns the entry of a retired field, and whether there is one. message is the last part
// of its message's name, and name the JSON or protobuf name of the field.
func FieldOf(message, name string) (Field, bool) {
	for _, f := range Fields() {
		if f.Message == message && (f.Name == name || f.Name == camelCase(name)) {
			return f, true
		}
	}
	return Field{}, false
}

// AnnotationOf returns the entry of a retired annotation, and whether there is one. It may be an
// entry for all names with a prefix.
func AnnotationOf(name string) (Annotation, bool) {
	for _, a := range Annotations() {
		if a.Name == name || a.Prefix && strings.HasPrefix(name, a.Name) {
			return a, true
		}
	}
	return Annotation{}, false
}

// Reason returns the reason in the Problem for an object with the annotation.
func (a Annotation) Reason() string {
	reason := "is retired and has no effect"
	if a.Lost != "" {
		reason += ": " + a.Lost
	}
	return reason + "; " + a.Successor
}

// MessageName returns the last part of a message's full name, with that of the messages around it:
// "istio.networking.v1alpha3.HTTPFaultInjection.Abort" is "HTTPFaultInjection.Abort". If no part
// begins with a capital letter, it returns the full name.
func MessageName(full string) string {
	parts := strings.Split(full, ".")
	for i, part := range parts {
		if part != "" && part[0] >= 'A' && part[0] <= 'Z' {
			return strings.Join(parts[i:], ".")
		}
	}
	return full
}

// camelCase returns the JSON name of a field by its protobuf name. It returns a name without
// underscores unchanged.
func camelCase(name string) string {
	var out strings.Builder
	for i, part := range strings.Split(name, "_") {
		if i > 0 && part != "" {
			part = strings.ToUpper(part[:1]) + part[1:]
		}
		out.WriteString(part)
	}
	return cmp.Or(out.String(), name)
}
