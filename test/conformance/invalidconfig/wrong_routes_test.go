package invalidconfig

import "fmt"

// routeOf returns a route of a kind with the given parents and rules.
func routeOf(kind, parent, rules string) string {
	return fmt.Sprintf(`apiVersion: gateway.networking.k8s.io/v1
kind: %s
metadata: {name: $NAME, namespace: $SHOP, creationTimestamp: "2030-01-01T00:00:00Z"}
spec: {parentRefs: [%s], rules: [%s]}`, kind, parent, rules)
}

// httpParent is the good Gateway's HTTP listener. Wrong routes share it with the good ones.
const httpParent = "{name: web, sectionName: http}"

// httpRouteOf returns an HTTPRoute for a hostname of its own, with one rule.
func httpRouteOf(rule string) string {
	return routeOf("HTTPRoute", httpParent+"], hostnames: [$NAME.example.com", rule)
}

// backendOf returns an HTTPRoute with one backend.
func backendOf(backend string) string { return httpRouteOf("{backendRefs: [" + backend + "]}") }

// filtersOf returns an HTTPRoute with filters.
func filtersOf(filters string) string {
	return httpRouteOf("{filters: [" + filters + "], backendRefs: [{name: web, port: 80}]}")
}

// matchOf returns an HTTPRoute with one match, and a second rule in which all is well.
func matchOf(match string) string {
	return httpRouteOf("{matches: [" + match + "], backendRefs: [{name: web, port: 80}]}, {backendRefs: [{name: web, port: 80}]}")
}

// policyOf returns a BackendTLSPolicy for a Service that a route calls.
func policyOf(target, validation string) string {
	return fmt.Sprintf(`apiVersion: gateway.networking.k8s.io/v1
kind: BackendTLSPolicy
metadata: {name: $NAME, namespace: $SHOP, creationTimestamp: "2030-01-01T00:00:00Z"}
spec: {targetRefs: [{group: "", kind: Service, %s}], validation: {hostname: a.example.com, %s}}
---
apiVersion: v1
kind: Service
metadata: {name: $NAME, namespace: $SHOP}
spec: {selector: {app: lonely}, ports: [{name: https, port: 443}]}
---
`, target, validation) + routeOf("HTTPRoute", httpParent+"], hostnames: [$NAME.example.com", "{backendRefs: [{name: $NAME, port: 443}]}")
}

// trafficPolicyOf returns an XBackendTrafficPolicy for a Service.
func trafficPolicyOf(service, spec string) string {
	return fmt.Sprintf(`apiVersion: gateway.networking.x-k8s.io/v1alpha1
kind: XBackendTrafficPolicy
metadata: {name: $NAME, namespace: $SHOP, creationTimestamp: "2030-01-01T00:00:00Z"}
spec: {targetRefs: [{group: "", kind: Service, name: %s}], %s}
`, service, spec)
}

// externalOf returns an XBackend, and a route that calls it.
func externalOf(spec string) string {
	return fmt.Sprintf(`apiVersion: gateway.networking.x-k8s.io/v1alpha1
kind: XBackend
metadata: {name: $NAME, namespace: $SHOP, creationTimestamp: "2030-01-01T00:00:00Z"}
spec: {type: ExternalHostname, %s}
---
`, spec) + backendOf("{group: gateway.networking.x-k8s.io, kind: XBackend, name: $NAME}")
}

// wrongRoutes are routes with mistakes.
func wrongRoutes() []wrong {
	const valid, backend, filter = "{backendRefs: [{name: web, port: 80}]}", "spec.rules[0].backendRefs[0]", "spec.rules[0].filters[0]"
	const notFound, unsupported = "ResolvedRefs=False/BackendNotFound", "Accepted=False/UnsupportedValue"
	const partly = "PartiallyInvalid=True/UnsupportedValue"
	return []wrong{
		{"Gateway that does not exist", routeOf("HTTPRoute", "{name: gone}", valid), "", "spec.parentRefs[0]"},
		{"parent of an unknown kind", routeOf("HTTPRoute", "{kind: Listener, name: web}", valid), "", "spec.parentRefs[0]"},
		{"listener that does not exist", routeOf("HTTPRoute", "{name: web, sectionName: gone}", valid), "Accepted=False/NoMatchingParent", "spec.parentRefs[0]"},
		{"port without listener", routeOf("HTTPRoute", "{name: web, sectionName: http}, {name: web, port: 1234}", "{matches: [{path: {value: /$NAME}}], backendRefs: [{name: web, port: 80}]}"), "Accepted=False/NoMatchingParent", "spec.parentRefs[1]"},
		{"hostname that no listener has", routeOf("HTTPRoute", "{name: web, sectionName: https}], hostnames: [example.org", valid), "Accepted=False/NoMatchingListenerHostname", "spec.parentRefs[0]"},
		{"namespace that the listener does not allow", "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {name: $NAME, namespace: $OTHER}\nspec: {parentRefs: [{name: web, namespace: $SHOP, sectionName: https}], rules: [" + valid + "]}", "Accepted=False/NotAllowedByListeners", "spec.parentRefs[0]"},
		{"TCPRoute at an HTTP listener", routeOf("TCPRoute", httpParent, valid), "Accepted=False/NotAllowedByListeners", "spec.parentRefs[0]"},
		{"Service that does not exist as parent", routeOf("HTTPRoute", `{group: "", kind: Service, name: gone}`, valid), "Accepted=False/NoMatchingParent", "spec.parentRefs[0]"},
		{"port that the parent does not have", routeOf("HTTPRoute", `{group: "", kind: Service, name: lonely, port: 99}`, valid), "Accepted=False/NoMatchingParent", "spec.parentRefs[0]"},
		{"backend that does not exist", backendOf("{name: gone, port: 80}"), notFound, backend},
		{"second backend that does not exist", backendOf("{name: web, port: 80}, {name: gone, port: 80}"), notFound, "spec.rules[0].backendRefs[1]"},
		{"backend of an unknown kind", backendOf("{group: example.com, kind: Function, name: web, port: 80}"), "ResolvedRefs=False/InvalidKind", backend},
		{"backend of another namespace", backendOf("{name: hidden, namespace: $OTHER, port: 80}"), "ResolvedRefs=False/RefNotPermitted", backend},
		{"port that the backend does not have", backendOf("{name: web, port: 99}"), notFound, backend + ".port"},
		{"Hostname that no service has", backendOf("{group: networking.istio.io, kind: Hostname, name: none.example.com, port: 80}"), notFound, backend},
		{"unknown filter", filtersOf("{type: Cache}"), unsupported, filter},
		{"extension that does not exist", filtersOf("{type: ExtensionRef, extensionRef: {group: example.com, kind: Filter, name: a}}"), "ResolvedRefs=False/InvalidKind", filter + ".extensionRef"},
		{"filter without its configuration", filtersOf("{type: RequestHeaderModifier}"), unsupported, filter},
		{"filter that is repeated", filtersOf("{type: RequestHeaderModifier, requestHeaderModifier: {remove: [a]}}, {type: RequestHeaderModifier, requestHeaderModifier: {remove: [b]}}"), unsupported, "spec.rules[0].filters[1]"},
		{"redirect and rewrite", filtersOf("{type: RequestRedirect, requestRedirect: {hostname: a.example.com}}, {type: URLRewrite, urlRewrite: {hostname: a.example.com}}"), "Accepted=False/IncompatibleFilters", "spec.rules[0].filters"},
		{"prefix replaced of an exact path", httpRouteOf("{matches: [{path: {type: Exact, value: /a}}], filters: [{type: URLRewrite, urlRewrite: {path: {type: ReplacePrefixMatch, replacePrefixMatch: /b}}}], backendRefs: [{name: web, port: 80}]}"), unsupported, "spec.rules[0]"},
		{"unknown path modifier", filtersOf("{type: URLRewrite, urlRewrite: {path: {type: ReplaceSuffix}}}"), unsupported, "spec.rules[0]"},
		{"mirror that does not exist", filtersOf("{type: RequestMirror, requestMirror: {backendRef: {name: gone, port: 80}}}"), notFound, filter + ".requestMirror.backendRef"},
		{"mirror of another namespace", filtersOf("{type: RequestMirror, requestMirror: {backendRef: {name: hidden, namespace: $OTHER, port: 80}}}"), "ResolvedRefs=False/RefNotPermitted", filter + ".requestMirror.backendRef"},
		{"unknown filter of a backend", backendOf("{name: web, port: 80, filters: [{type: Cache}]}"), unsupported, backend + ".filters[0]"},
		{"malformed regular expression of a path", matchOf(`{path: {type: RegularExpression, value: "/a(b"}}`), partly, "spec.rules[0].matches[0].path.value"},
		{"malformed regular expression of a header", matchOf(`{headers: [{type: RegularExpression, name: a, value: "[b"}]}`), partly, "spec.rules[0].matches[0].headers[0].value"},
		{"malformed regular expression of a query parameter", matchOf(`{queryParams: [{type: RegularExpression, name: a, value: "*"}]}`), partly, "spec.rules[0].matches[0].queryParams[0].value"},
		{"unknown type of a path match", matchOf("{path: {type: Suffix, value: /a}}"), partly, "spec.rules[0].matches[0].path.type"},
		{"malformed timeout", httpRouteOf("{timeouts: {request: soon}, backendRefs: [{name: web, port: 80}]}"), unsupported, "spec.rules[0].timeouts.request"},
		{"malformed regular expression of a gRPC method", routeOf("GRPCRoute", httpParent+"], hostnames: [$NAME.example.com", `{matches: [{method: {type: RegularExpression, service: "a("}}], backendRefs: [{name: reviews, port: 81}]}`), unsupported, "spec.rules[0].matches[0].method"},
		{"gRPC backend that does not exist", routeOf("GRPCRoute", httpParent+"], hostnames: [$NAME.example.com", "{backendRefs: [{name: gone, port: 81}]}"), notFound, backend},
		{"gRPC backend of another namespace", routeOf("GRPCRoute", httpParent+"], hostnames: [$NAME.example.com", "{backendRefs: [{name: web, namespace: $OTHER, port: 80}]}"), "ResolvedRefs=False/RefNotPermitted", backend},
		{"TLS backend that does not exist", routeOf("TLSRoute", "{name: web, sectionName: pass}], hostnames: [$NAME.example.com", "{backendRefs: [{name: gone, port: 443}]}"), notFound, backend},
		{"TLS backend of another namespace", routeOf("TLSRoute", "{name: web, sectionName: pass}], hostnames: [$NAME.example.com", "{backendRefs: [{name: hidden, namespace: $OTHER, port: 80}]}"), "ResolvedRefs=False/RefNotPermitted", backend},
		{"TCP backend that does not exist", routeOf("TCPRoute", "{name: $NAME}", "{backendRefs: [{name: gone, port: 443}]}") + "\n---\n" + gatewayOf("", "{name: tcp, port: 9001, protocol: TCP}"), notFound, backend},
		{"CA certificates of a policy that do not exist", policyOf("name: $NAME", `caCertificateRefs: [{group: "", kind: ConfigMap, name: gone}]`), "ResolvedRefs=False/InvalidCACertificateRef", "spec.validation.caCertificateRefs[0]"},
		{"no CA certificates of a policy", policyOf("name: $NAME", `caCertificateRefs: [{group: "", kind: ConfigMap, name: gone}]`), "Accepted=False/NoValidCACertificate", "spec.validation.caCertificateRefs[0]"},
		{"CA certificates of a policy in another kind", policyOf("name: $NAME", `caCertificateRefs: [{group: example.com, kind: Bundle, name: a}]`), "ResolvedRefs=False/InvalidKind", "spec.validation.caCertificateRefs[0]"},
		{"unknown CA certificates of a policy", policyOf("name: $NAME", "wellKnownCACertificates: Other"), "Accepted=False/Invalid", "spec.validation.wellKnownCACertificates"},
		{"target of another policy", policyOf("name: secure", "wellKnownCACertificates: System"), "Accepted=False/Conflicted", "spec.targetRefs[0]"},
		{"policy for a Service that does not exist", policyOf("name: absent", "wellKnownCACertificates: System"), "Accepted=False/TargetNotFound", "spec.targetRefs[0]"},
		{"retry budget of a Service that does not exist", trafficPolicyOf("gone", "retryConstraint: {}"), "Accepted=False/TargetNotFound", "spec.targetRefs[0]"},
		{"retry budget with a session", trafficPolicyOf("lonely", "retryConstraint: {}, sessionPersistence: {sessionName: a}"), "Accepted=False/Invalid", "spec.sessionPersistence"},
		{"retry budget without a duration", trafficPolicyOf("lonely", "retryConstraint: {budget: {interval: soon}}"), "Accepted=False/Invalid", "spec.retryConstraint.budget.interval"},
		{"external backend that does not exist", backendOf("{group: gateway.networking.x-k8s.io, kind: XBackend, name: gone}"), notFound, backend},
		{"external backend with the name of a Service", externalOf("port: {port: 80}, externalHostname: {hostname: web.shop.svc.cluster.local}"), "Accepted=False/Invalid", "spec.externalHostname.hostname"},
		{"external backend without its CA certificates", externalOf(`port: {port: 443}, externalHostname: {hostname: api.example.com}, tls: {mode: ServerOnly, validation: {hostname: api.example.com, caCertificateRefs: [{group: "", kind: ConfigMap, name: gone}]}}`), "Accepted=False/Invalid", "spec.tls.validation.caCertificateRefs[0]"},
		{"external backend with a protocol that is not supported", externalOf("port: {port: 80}, protocol: MCP, externalHostname: {hostname: api.example.com}"), "Accepted=False/UnsupportedProtocol", "spec.protocol"},
		{"policy for a port that does not exist", policyOf("name: $NAME, sectionName: gone", "wellKnownCACertificates: System"), "Accepted=False/TargetNotFound", "spec.targetRefs[0].sectionName"},
	}
}
