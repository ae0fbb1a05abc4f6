package invalidconfig

import "fmt"

// wrong is an object with a mistake. $NAME is its name, $SHOP its namespace, and $OTHER another one.
type wrong struct {
	mistake string
	// text has the object first, then other objects that it needs.
	text string
	// condition is the condition that names the mistake, as TYPE=STATUS/REASON. It is empty if no
	// controller owns the status of the object.
	condition string
	// field is the field that the Problem names.
	field string
}

// gatewayOf returns a Gateway with the given listeners, and fields before them.
func gatewayOf(fields, listeners string) string {
	return fmt.Sprintf(`apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: $NAME, namespace: $SHOP}
spec: {gatewayClassName: good, %s listeners: [%s]}`, fields, listeners)
}

// httpsOf returns a Gateway with an HTTPS listener that has the given certificateRefs.
func httpsOf(references string) string {
	return gatewayOf("", fmt.Sprintf("{name: https, port: 443, protocol: HTTPS, tls: {certificateRefs: [%s]}}", references))
}

// secretOf returns a Secret with the name of the object.
func secretOf(data string) string {
	return "\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: $NAME, namespace: $SHOP}\ntype: Opaque\ndata: " + data
}

// validatingOf returns a Gateway that validates client certificates with the given CA certificates.
func validatingOf(references string) string {
	return gatewayOf(fmt.Sprintf("tls: {frontend: {default: {validation: {caCertificateRefs: [%s]}}}},", references),
		"{name: https, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: certificate}]}}")
}

// setOf returns a ListenerSet of a Gateway.
func setOf(gateway, listeners string) string {
	return fmt.Sprintf(`apiVersion: gateway.networking.k8s.io/v1
kind: ListenerSet
metadata: {name: $NAME, namespace: $SHOP, creationTimestamp: "2030-01-01T00:00:00Z"}
spec: {parentRef: {name: %s}, listeners: [%s]}`, gateway, listeners)
}

// classOf returns a GatewayClass of a controller with parameters.
func classOf(controller, parameters string) string {
	return fmt.Sprintf(`apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: $NAME}
spec: {controllerName: %s, parametersRef: %s}`, controller, parameters)
}

const httpListener = "{name: http, port: 80, protocol: HTTP}"

// wrongGateways are Gateways and ListenerSets with mistakes.
func wrongGateways() []wrong {
	const invalidCertificate, certificate = "ResolvedRefs=False/InvalidCertificateRef", "spec.listeners[0].tls.certificateRefs[0]"
	const authorities = "spec.tls.frontend.default.validation.caCertificateRefs[0]"
	return []wrong{
		{"certificate that does not exist", httpsOf("{name: gone}"), invalidCertificate, certificate},
		{"malformed certificate", httpsOf("{name: $NAME}") + secretOf("{tls.crt: eA==, tls.key: eA==}"), invalidCertificate, certificate},
		{"key of another certificate", httpsOf("{name: $NAME}") + secretOf("$MISMATCH"), invalidCertificate, certificate},
		{"expired certificate", httpsOf("{name: $NAME}") + secretOf("$EXPIRED"), invalidCertificate, certificate},
		{"certificate in a ConfigMap", httpsOf("{kind: ConfigMap, name: authority}"), invalidCertificate, certificate},
		{"certificate of another namespace", httpsOf("{name: private, namespace: $OTHER}"), "ResolvedRefs=False/RefNotPermitted", certificate},
		{"no certificate", gatewayOf("", "{name: https, port: 443, protocol: HTTPS, tls: {options: {a.example.com/b: c}}}"), invalidCertificate, "spec.listeners[0].tls.certificateRefs"},
		{"TLS listener without certificate", gatewayOf("", "{name: tls, port: 443, protocol: TLS, tls: {mode: Terminate, options: {a.example.com/b: c}}}"), invalidCertificate, "spec.listeners[0].tls.certificateRefs"},
		{"unknown protocol", gatewayOf("", "{name: x, port: 80, protocol: example.com/other}"), "Accepted=False/UnsupportedProtocol", "spec.listeners[0].protocol"},
		{"two protocols on a port", gatewayOf("", httpListener+", {name: tcp, port: 80, protocol: TCP}"), "Conflicted=True/ProtocolConflict", "spec.listeners[1].port"},
		{"hostname of another listener", gatewayOf("",
			"{name: a, port: 80, protocol: HTTP, hostname: a.example.com}, {name: b, port: 80, protocol: HTTP, hostname: a.example.com}"),
			"Conflicted=True/HostnameConflict", "spec.listeners[1].hostname"},
		{"unknown kind of routes", gatewayOf("", "{name: http, port: 80, protocol: HTTP, allowedRoutes: {kinds: [{group: example.com, kind: Route}]}}"), "ResolvedRefs=False/InvalidRouteKinds", "spec.listeners[0].allowedRoutes.kinds[0]"},
		{"kind of routes of another protocol", gatewayOf("", "{name: http, port: 80, protocol: HTTP, allowedRoutes: {kinds: [{kind: HTTPRoute}, {kind: TCPRoute}]}}"), "ResolvedRefs=False/InvalidRouteKinds", "spec.listeners[0].allowedRoutes.kinds[1]"},
		{"selector with an unknown operator", gatewayOf("", "{name: http, port: 80, protocol: HTTP, allowedRoutes: {namespaces: {from: Selector, selector: {matchExpressions: [{key: a, operator: Like}]}}}}"),
			"Accepted=False/UnsupportedValue", "spec.listeners[0].allowedRoutes.namespaces.selector"},
		{"CA certificates that do not exist", validatingOf(`{group: "", kind: ConfigMap, name: gone}`), "ResolvedRefs=False/InvalidCACertificateRef", authorities},
		{"malformed CA certificates", validatingOf(`{group: "", kind: ConfigMap, name: $NAME}`) +
			"\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: $NAME, namespace: $SHOP}\ndata: {ca.crt: x}", "Accepted=False/NoValidCACertificate", authorities},
		{"CA certificates in another kind", validatingOf(`{group: example.com, kind: Bundle, name: a}`), "ResolvedRefs=False/InvalidCACertificateKind", authorities},
		{"CA certificates of another namespace", validatingOf(`{group: "", kind: ConfigMap, name: authority, namespace: $OTHER}`), "ResolvedRefs=False/RefNotPermitted", authorities},
		{"client certificate that does not exist", gatewayOf("tls: {backend: {clientCertificateRef: {name: gone}}},", httpListener), "ResolvedRefs=False/InvalidClientCertificateRef", "spec.tls.backend.clientCertificateRef"},
		{"client certificate of another namespace", gatewayOf("tls: {backend: {clientCertificateRef: {name: private, namespace: $OTHER}}},", httpListener), "ResolvedRefs=False/RefNotPermitted", "spec.tls.backend.clientCertificateRef"},
		{"parameters of an unknown kind", gatewayOf("infrastructure: {parametersRef: {group: example.com, kind: Settings, name: a}},", httpListener), "Accepted=False/InvalidParameters", "spec.infrastructure.parametersRef"},
		{"malformed parameters", gatewayOf(`infrastructure: {parametersRef: {group: "", kind: ConfigMap, name: $NAME}},`, httpListener) +
			"\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: $NAME, namespace: $SHOP}\ndata: {deployment: '['}", "Accepted=False/InvalidParameters", "spec.infrastructure.parametersRef"},
		{"class with parameters of an unknown kind", classOf("istio.io/gateway-controller", "{group: example.com, kind: Settings, name: a}"), "Accepted=False/InvalidParameters", "spec.parametersRef"},
		{"class with parameters without a namespace", classOf("istio.io/gateway-controller", `{group: "", kind: ConfigMap, name: a}`), "Accepted=False/InvalidParameters", "spec.parametersRef"},
		{"class with parameters under an unknown key", classOf("istio.io/gateway-controller", `{group: "", kind: ConfigMap, name: $NAME, namespace: $SHOP}`) +
			"\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: $NAME, namespace: $SHOP}\ndata: {pods: '{}'}", "Accepted=False/InvalidParameters", "spec.parametersRef"},
		{"parameters of a class whose gateways run elsewhere", classOf("istio.io/unmanaged-gateway", `{group: "", kind: ConfigMap, name: a, namespace: $SHOP}`), "Accepted=False/InvalidParameters", "spec.parametersRef"},
		{"address of an unknown type", gatewayOf("addresses: [{type: example.com/other, value: a}],", httpListener), "Accepted=False/UnsupportedAddress", "spec.addresses[0].type"},
		{"address of a Service that does not exist", gatewayOf("addresses: [{type: Hostname, value: gone}],", httpListener), "Programmed=False/AddressNotUsable", "spec.addresses"},
		{"no listener that is accepted", gatewayOf("", "{name: x, port: 80, protocol: example.com/other}"), "Accepted=False/ListenersNotValid", "spec.listeners[0].protocol"},
		{"class that does not exist", "apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {name: $NAME, namespace: $SHOP}\nspec: {gatewayClassName: none, listeners: [" + httpListener + "]}", "", "spec.gatewayClassName"},
		{"ListenerSet of a Gateway that allows none", setOf("closed", httpListener), "Accepted=False/NotAllowed", "spec.parentRef"},
		{"ListenerSet of a Gateway that does not exist", setOf("gone", httpListener), "", "spec.parentRef"},
		{"ListenerSet with another protocol on a port", setOf("web", "{name: tcp, port: 80, protocol: TCP}"), "Conflicted=True/ProtocolConflict", "spec.listeners[0].port"},
		{"ListenerSet with a hostname of the Gateway", setOf("web", `{name: https, port: 443, protocol: HTTPS, hostname: "*.example.com", tls: {certificateRefs: [{name: certificate}]}}`), "Conflicted=True/HostnameConflict", "spec.listeners[0].hostname"},
		{"ListenerSet with a hostname of another one", setOf("web", `{name: http, port: 81, protocol: HTTP, hostname: more.example.com}`), "Conflicted=True/HostnameConflict", "spec.listeners[0].hostname"},
		{"ListenerSet without certificate", setOf("web", "{name: https, port: 444, protocol: HTTPS, tls: {certificateRefs: [{name: gone}]}}"), invalidCertificate, certificate},
	}
}
