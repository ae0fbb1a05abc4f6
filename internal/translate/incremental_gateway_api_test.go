package translate

import (
	"fmt"
	"math/rand/v2"
)

// randomGatewayAPI returns an object of the Gateway API that a random edit adds, changes or deletes.
func randomGatewayAPI(r *rand.Rand) string {
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	name, namespace := pick("a", "b"), pick("default", "other")
	object := func(kind, spec string) string {
		return fmt.Sprintf(
			"apiVersion: gateway.networking.k8s.io/v1\nkind: %s\nmetadata: {name: %s, namespace: %s}\nspec: %s\n", kind, name, namespace, spec)
	}
	parent := pick("{name: a, namespace: default}", "{name: b, namespace: other}", "{name: a, namespace: default, sectionName: http}",
		"{kind: ListenerSet, name: a}", `{group: "", kind: Service, name: a, namespace: default}`)
	backend := pick("{name: static, port: 80}", "{name: a, namespace: default, port: 80}", "{name: b, namespace: other, port: 9080}",
		"{group: networking.istio.io, kind: Hostname, name: dns.example.com, port: 80}", "{name: gone, port: 80}")
	certificate := pick("cert", "gone")
	switch r.IntN(8) {
	case 0:
		listener := fmt.Sprintf("{name: http, port: %s, protocol: HTTP, hostname: %s, allowedRoutes: {namespaces: {from: All}}}",
			pick("80", "8080"), pick(`"*.example.com"`, "dns.example.com"))
		tls := fmt.Sprintf("{name: https, port: 443, protocol: HTTPS, hostname: %s, tls: {certificateRefs: [{name: %s}]}}",
			pick(`"*.example.com"`, "dns.example.com"), certificate)
		last := pick("{name: tls, port: 443, protocol: TLS, hostname: x.example.com, tls: {mode: Passthrough}}", "{name: tcp, port: 9080, protocol: TCP}")
		return object("Gateway", fmt.Sprintf("{gatewayClassName: istio, allowedListeners: {namespaces: {from: %s}}, listeners: [%s, %s, %s]%s}",
			pick("All", "Same"), listener, tls, last, pick("", ", tls: {backend: {clientCertificateRef: {name: cert}}}")))
	case 1:
		return object("ListenerSet", fmt.Sprintf("{parentRef: {name: %s, namespace: default}, listeners: [{name: more, port: %s, protocol: HTTP}]}",
			pick("a", "b"), pick("80", "9080")))
	case 2, 3:
		filter := pick("", "filters: [{type: RequestRedirect, requestRedirect: {scheme: https}}], ",
			"filters: [{type: URLRewrite, urlRewrite: {path: {type: ReplacePrefixMatch, replacePrefixMatch: /x}}}], ",
			"filters: [{type: RequestMirror, requestMirror: {backendRef: "+backend+"}}], ")
		return object("HTTPRoute", fmt.Sprintf("{parentRefs: [%s], hostnames: %s, rules: [{matches: [{path: {value: %s}}], %sbackendRefs: [%s]}]}",
			parent, pick("[]", "[dns.example.com]", `["*.example.com"]`), pick("/", "/a"), filter, backend))
	case 4:
		return object("GRPCRoute", fmt.Sprintf("{parentRefs: [%s], rules: [{matches: [{method: {service: x.Y}}], backendRefs: [%s]}]}", parent, backend))
	case 5:
		kind := pick("TLSRoute", "TCPRoute")
		hosts := ""
		if kind == "TLSRoute" {
			hosts = "hostnames: [x.example.com], "
		}
		return object(kind, fmt.Sprintf("{parentRefs: [%s], %srules: [{backendRefs: [%s]}]}", parent, hosts, backend))
	case 6:
		return object("BackendTLSPolicy", fmt.Sprintf(
			`{targetRefs: [{group: "", kind: Service, name: %s}], validation: {hostname: x.example.com, wellKnownCACertificates: System}}`, pick("a", "static")))
	default:
		return object("ReferenceGrant", fmt.Sprintf(
			`{from: [{group: gateway.networking.k8s.io, kind: %s, namespace: default}], to: [{group: "", kind: %s}]}`,
			pick("HTTPRoute", "GRPCRoute", "Gateway"), pick("Service", "Secret")))
	}
}
