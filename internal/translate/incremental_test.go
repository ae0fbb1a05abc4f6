package translate

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/translate/listener"
	"github.com/meshpilot/meshpilot/test/support/fixture"
	"github.com/meshpilot/meshpilot/test/support/golden"
	"github.com/meshpilot/meshpilot/test/support/longtest"
)

// providersThatComeAndGo are providers of services that some edits create and others delete.
const providersThatComeAndGo = `
extensionProviders:
- {name: ask, envoyExtAuthzGrpc: {service: dns.example.com, port: 80}}
- {name: als, envoyHttpAls: {service: dns.example.com, port: 80}}
- {name: zipkin, zipkin: {service: a.default.svc.cluster.local, port: 80}}
`

// differentProxies are sidecars, gRPC applications and gateways whose resources differ.
var differentProxies = []string{
	"{namespace: default, addresses: [10.1.0.1], labels: {app: a}, identity: true, selfDiscovery: true}",
	"{namespace: default, addresses: [10.1.0.3], dnsCapture: true, idleTimeout: 300s, httpProxyPort: '15007', proxyConfig: {proxyHeaders: {attemptCount: {disabled: true}}, connectionSettings: {httpIdleTimeout: 9s}}}",
	"{namespace: other, addresses: [10.1.0.9], locality: r/a, network: near, node: n1, certificate: [chain, key, roots]}",
	"{namespace: default, addresses: [10.1.0.2], cluster: remote, dnsCapture: true, network: far}",
	"{namespace: default, addresses: [10.1.0.1], labels: {app: a}, identity: true, generator: grpc}",
	"{namespace: other, addresses: [10.1.0.4], generator: grpc}",
	"{type: router, labels: {gateway.networking.k8s.io/gateway-name: a}}", "{type: router, namespace: other, labels: {gateway.networking.k8s.io/gateway-name: b}}",
	"{type: router, account: gw}", "{type: router, cluster: remote, account: gw}", "{type: router, namespace: other, addresses: [10.1.0.2], labels: {app: a, istio: ingressgateway}, identity: true, selfDiscovery: true}",
}

// TestChangesAddUpToTheWhole makes random edits as push does: each generator is asked only for the
// resources that it reports as changed. The accumulated resources are compared with the resources
// that new generators make for the whole mesh.
func TestChangesAddUpToTheWhole(t *testing.T) {
	meshes := longtest.Rounds(3, 12)
	saved := 0
	for seed := range uint64(meshes) {
		random := rand.New(rand.NewPCG(seed, 7))
		fetching := []snapshot.KeyFetching{
			snapshot.FetchedByControlPlane, snapshot.FetchedByBoth, snapshot.FetchedByProxies,
		}[seed%3]
		m := fixture.NewWith(
			t,
			snapshot.Features{KeyFetching: fetching, PersistentSessions: true},
			[]byte(everyResolution+namespacesThatHide),
			[]byte(providersThatComeAndGo+namespacesAreChosen),
		)
		table := NewTable(Options{})
		var followers []*follower
		for _, proxy := range differentProxies {
			p := fixture.Proxy(t, []byte(proxy))
			for i := range table.Generators {
				followers = append(
					followers,
					&follower{gen: &table.Generators[i], proxy: p, key: view.KeyFor(m.Snapshot(), p)},
				)
			}
		}
		var log []string
		for _, kind := range editedKinds(random) {
			text := randomEdit(random, kind)
			if random.IntN(4) == 0 {
				text = randomGatewayAPI(random)
			}
			log = append(log, text)
			before := m.Snapshot()
			var s *snapshot.Snapshot
			var d snapshot.Delta
			if news, what := randomNews(random); random.IntN(6) == 0 {
				log[len(log)-1] = what
				s, d = m.Send(news)
			} else if random.IntN(4) == 0 {
				s, d = m.Delete(t, text)
			} else {
				s, d = m.Apply(t, text)
			}
			for _, f := range followers {
				f.move(t, before, s, d)
				f.follow(s, d)
			}
			fresh := NewTable(Options{})
			for i, f := range followers {
				g := &fresh.Generators[i%len(fresh.Generators)]
				if f.view != nil && f.view.Snapshot != s {
					saved++
				}
				want := whole(t, g, view.Build(s, f.key))
				if diff := resource.Compare(want, f.current(want)); !diff.Empty() {
					t.Fatalf("seed %d: generator %d (%s) has others than new generators make for %+v: %s, after\n%s",
						seed, i%len(fresh.Generators), g.TypeURL, f.key, describe(t, diff, want), strings.Join(log, "---\n"))
				}
			}
		}
	}
	if saved == 0 {
		t.Error("no change was found not to touch something: the test is not effective")
	}
}

func describe(t *testing.T, d resource.Diff, want *resource.Set) string {
	t.Helper()
	var b strings.Builder
	for _, r := range d.Updated {
		fmt.Fprintf(&b, "has %v\n", golden.Decode(t, r))
		if w := want.Get(r.Name); w != nil {
			fmt.Fprintf(&b, "wants %v\n", golden.Decode(t, w))
		}
	}
	fmt.Fprintf(&b, "lacks %v\n", d.Removed)
	return b.String()
}

// names are the names of EDS, ECDS and RDS that these tests request.
var names = func() []string {
	list := []string{
		"kubernetes://cert", "kubernetes://cert-cacert", "kubernetes-gateway://other/cert", "80", "9080", "http_proxy", "a.default.svc.cluster.local:80",
		"http.80", "http.8080", "http.9080", "https.443.https.a.default", "https.443.https.b.other", "https.443.https.a.other",
		"https.443.https-443-https.a-istio-autogenerated-k8s-gateway-https.default", "https.443.https-443-https.b-istio-autogenerated-k8s-gateway-https.other",
		"0.0.0.0_443_dns.example.com", "0.0.0.0_443", "0.0.0.0_443_*.example.com",
		"0.0.0.0_9080_tcp", "10.96.0.9_9080_tcp", "10.9.0.1_9080_tcp", "0.0.0.0_80_dns.example.com", "10.1.0.1_9080_tcp",
		listener.PoliciesExtension, "meshpilot.authentication", "meshpilot.authorization", "meshpilot.custom",
		"meshpilot.tokens", mesh.LocalCluster,
	}
	for _, plugin := range []string{"default.a", "default.b", "istio-system.a", "istio-system.b"} {
		plugin = "extensions.istio.io/trafficextension/" + plugin
		list = append(list, plugin, plugin+"~istio-translated-wasmplugin")
	}
	for _, host := range []string{
		"static.default.svc.cluster.local", "a.default.svc.cluster.local",
		"b.other.svc.cluster.local", "dns.example.com", "one.example.com", "x.example.com",
	} {
		for _, port := range []uint32{80, 9080} {
			for _, subset := range []string{"", "v1", "v2"} {
				n := mesh.ClusterName{Direction: mesh.Outbound, Port: port, Subset: subset, Host: mesh.Hostname(host)}
				list = append(list, n.String(), n.DefaultSNI())
			}
		}
	}
	slices.Sort(list)
	return list
}()

// follower has the resources of one generator for one Key, updated change by change.
type follower struct {
	gen   *view.Generator
	proxy *mesh.Proxy
	key   view.Key
	view  *view.View
	set   *resource.Set
}

// move starts again if the proxy has another Key now.
func (f *follower) move(t *testing.T, before, s *snapshot.Snapshot, d snapshot.Delta) {
	t.Helper()
	key := view.KeyFor(s, f.proxy)
	if key == f.key {
		return
	}
	if !view.KeyChangeFilter(before, s, d)(f.proxy) {
		t.Fatalf("the Key of %s changed from %+v to %+v without a report", f.proxy.ID, f.key, key)
	}
	f.key, f.view, f.set = key, nil, nil
}

func (f *follower) follow(s *snapshot.Snapshot, d snapshot.Delta) {
	if f.view != nil && (d.Empty() || !f.gen.IsTouched(f.view, s, d)) {
		return
	}
	old := f.view
	f.view = view.Build(s, f.key)
	switch {
	case f.gen.Named != nil:
		again := names
		if old != nil && f.gen.Affected != nil {
			again = slices.Compact(slices.Sorted(slices.Values(f.gen.Affected(old, f.view, d, names))))
		}
		var updated []*resource.Resource
		var removed []string
		for _, n := range again {
			if r := f.gen.Named(f.view, n); r != nil {
				updated = append(updated, r)
			} else {
				removed = append(removed, n)
			}
		}
		f.set = f.set.With(updated, removed)
	case f.gen.Update != nil && old != nil:
		if diff, ok := f.gen.Update(old, f.view, d); ok {
			f.set = f.set.With(diff.Updated, diff.Removed)
			return
		}
		fallthrough
	default:
		f.set, _ = resource.NewSet(f.gen.All(f.view))
	}
}

// current returns the resources that the proxy has, of endpoints only the wanted ones: the last
// ones of a deleted cluster stay.
func (f *follower) current(want *resource.Set) *resource.Set {
	if f.gen.TypeURL != api.EndpointType {
		return f.set
	}
	var gone []string
	for _, r := range f.set.List() {
		if want.Get(r.Name) == nil {
			gone = append(gone, r.Name)
		}
	}
	return f.set.With(nil, gone)
}

// whole generates all resources for a View; endpoints only of existing clusters.
func whole(t *testing.T, g *view.Generator, v *view.View) *resource.Set {
	t.Helper()
	var list []*resource.Resource
	if g.All != nil {
		list = g.All(v)
	} else {
		current := names
		if g.TypeURL == api.EndpointType && g.Affected != nil {
			current = g.Affected(nil, v, snapshot.Delta{All: true}, names)
		}
		for _, n := range current {
			list = append(list, g.Named(v, n))
		}
	}
	set, err := resource.NewSet(slices.DeleteFunc(list, isNil))
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// randomEdit returns one object of a kind, or "" if it has no edit of the kind.
func randomEdit(r *rand.Rand, kind api.Kind) string {
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	name, namespace := pick("a", "b"), pick("default", "other")
	host := pick(
		"static",
		"a",
		"b.other",
		"dns.example.com",
		`"*.example.com"`,
		`"*"`,
		"static.default.svc.cluster.local",
		"a.default.svc.cluster.local",
	)
	meta := fmt.Sprintf("metadata: {name: %s, namespace: %s}\n", name, namespace)
	// inNamespace returns meta, with the namespace ns instead of "other".
	inNamespace := func(ns string) string {
		return strings.Replace(meta, "namespace: other", "namespace: "+ns, 1)
	}
	session := pick(
		meta,
		meta,
		fmt.Sprintf("metadata: {name: %s, namespace: %s, labels: {%s}}\n", name, namespace,
			pick("istio.io/persistent-session: 'sid:/a'", "istio.io/persistent-session-header: x-session")),
	)
	switch kind {
	case api.Ingress:
		return "kind: Ingress\n" + meta + fmt.Sprintf("spec: {%srules: [{host: %s, http: {paths: [{path: %s, pathType: %s, backend: {service: {name: %s, port: {%s}}}}]}}]}\n",
			pick(
				"",
				"",
				"defaultBackend: {service: {name: static, port: {number: 80}}}, ",
				"tls: [{hosts: [dns.example.com], secretName: cert}], ",
				"ingressClassName: theirs, ",
			),
			pick(
				"dns.example.com",
				"x.example.com",
				`"*.example.com"`,
				`""`,
			), pick("/", "/a"), pick("Prefix", "Exact"), pick("static", "a"), pick("number: 80", "name: http"))
	case api.Secret: // what images of plugins are pulled with
		return "kind: Secret\n" + inNamespace("istio-system") +
			"type: kubernetes.io/dockerconfigjson\ndata: {.dockerconfigjson: " + pick("e30K", "W10K", "YQo=") + "}\n"
	case api.Namespace:
		return fmt.Sprintf("kind: Namespace\nmetadata: {name: %s, labels: {%s}}\n", namespace,
			pick("x: z", "x: z", "hidden: 'yes'"))
	case api.VirtualService:
		if r.IntN(4) == 0 { // a delegate
			return "kind: VirtualService\n" + meta + fmt.Sprintf(
				"spec: {exportTo: [%s], http: [{route: [{destination: {host: static, subset: %s}}]}]}\n",
				pick(`"*"`, `"."`), pick("v1", "v2"))
		}
		return "kind: VirtualService\n" + meta + fmt.Sprintf("spec: {hosts: [%s], exportTo: [%s], %s%s}\n", host, pick(`"*"`, `"."`), pick(
			"",
			"gateways: [a, mesh], ",
			"gateways: [other/b, default/a], ",
		), pick(
			"http: [{match: [{uri: {prefix: /a}}], delegate: {name: a}}, {delegate: {name: b, namespace: other}}]",
			"http: [{route: [{destination: {host: static, subset: v1}}]}]",
			"http: [{match: [{sourceLabels: {app: a}}], route: [{destination: {host: x.example.com}}]}]",
			"tcp: [{route: [{destination: {host: static}}]}]",
			"tls: [{match: [{sniHosts: [dns.example.com], port: 80}], route: [{destination: {host: dns.example.com}}]}]",
			"tls: [{match: [{sniHosts: [dns.example.com]}], route: [{destination: {host: static}}]}]",
		))
	case api.Gateway:
		return "kind: Gateway\n" + meta + fmt.Sprintf("spec: {%s, servers: [%s]}\n", pick(
			"selector: {app: a}",
			"selector: {}",
		), pick(
			`{port: {number: 80, name: http, protocol: HTTP}, hosts: ["*"]}`,
			`{port: {number: 9080, name: http, protocol: HTTP}, hosts: ["./*"]}, {port: {number: 80, name: redirect, protocol: HTTP}, hosts: ["*"], tls: {httpsRedirect: true}}`,
			`{port: {number: 443, name: https, protocol: HTTPS}, hosts: [dns.example.com], tls: {mode: SIMPLE, credentialName: cert}}`,
			`{port: {number: 443, name: https, protocol: HTTPS}, hosts: [dns.example.com], tls: {mode: SIMPLE, credentialName: "kubernetes-gateway://other/cert"}}`,
			`{port: {number: 443, name: tls, protocol: TLS}, hosts: ["*.example.com"], tls: {mode: PASSTHROUGH}}, {port: {number: 9080, name: tcp, protocol: TCP}, hosts: ["*"]}`,
			`{port: {number: 443, name: auto, protocol: TLS}, hosts: ["*.local"], tls: {mode: AUTO_PASSTHROUGH}}`,
		))
	case api.DestinationRule:
		return "kind: DestinationRule\n" + meta + fmt.Sprintf("spec: {host: %s, exportTo: [%s], %ssubsets: [{name: %s, labels: {v: a}}], trafficPolicy: {%s}}\n",
			host, pick(`"*"`, `"."`, "default"), pick(
				"",
				"",
				"workloadSelector: {matchLabels: {app: a}}, ",
			), pick("v1", "v2"), pick(
				"loadBalancer: {simple: RANDOM}", "loadBalancer: {consistentHash: {httpHeaderName: x}}",
				"connectionPool: {tcp: {maxConnections: 3, idleTimeout: 9s}}", "tls: {mode: ISTIO_MUTUAL}",
				"outlierDetection: {consecutive5xxErrors: 3}, loadBalancer: {localityLbSetting: {enabled: true, failoverPriority: [v]}}",
			))
	case api.Service:
		if r.IntN(4) == 0 { // a gateway of a network
			return fmt.Sprintf("kind: Service\n"+
				"metadata: {name: %s, namespace: %s, labels: {topology.istio.io/network: far}}\n"+
				"spec: {clusterIP: 10.96.0.9, externalIPs: [%s], ports: [{name: tls, port: 15443}]}\n",
				name, namespace, pick("203.0.113.1", "203.0.113.2", "203.0.113.1, 203.0.113.2"))
		}
		return "kind: Service\n" + session + fmt.Sprintf("spec: {%s}\n", pick(
			"clusterIP: 10.96.0.9, selector: {app: a}, ports: [{name: http, port: 80}, {name: tcp, port: 9080}]",
			"clusterIP: 10.96.0.9, ports: [{name: grpc, port: 9080}]",
			"clusterIP: 10.96.0.9, internalTrafficPolicy: Local, ports: [{name: http, port: 80}]",
			"clusterIP: None, ports: [{name: tcp, port: 9080}]",
			"type: ExternalName, externalName: static.default.svc.cluster.local, ports: [{name: http, port: 80}]",
		))
	case api.WorkloadEntry:
		return "kind: WorkloadEntry\n" + meta + fmt.Sprintf("spec: {%s, labels: {app: %s}}\n",
			pick(
				"address: 10.1.0.1",
				"address: 10.1.0.4",
				"address: vm.example.com",
				"network: far",
				"network: far, serviceAccount: a",
				"address: 10.1.0.4, network: far, serviceAccount: a",
			), pick("a", "b"))
	case api.ServiceEntry:
		hosts := pick(
			"dns.example.com",
			"dns.example.com",
			"x.example.com",
			"a."+namespace+".svc.cluster.local",
			`"*.example.com"`,
		)
		return "kind: ServiceEntry\n" + session + fmt.Sprintf("spec: {hosts: [%s], %s, exportTo: [%s]}\n", hosts, pick(
			"resolution: DYNAMIC_DNS, ports: [{name: http, number: 80, protocol: HTTP}, {name: tls, number: 9080, protocol: TLS}]",
			"resolution: STATIC, workloadSelector: {labels: {app: a}}, ports: [{name: tcp, number: 9080, protocol: TCP}]",
			"resolution: DNS, ports: [{name: web, number: 9080, protocol: HTTP}]",
			"resolution: DNS, ports: [{name: http, number: 80, protocol: HTTP}]",
			"resolution: STATIC, addresses: [10.9.0.1], ports: [{name: tcp, number: 9080, protocol: TCP}], endpoints: [{address: 10.1.0.1, labels: {v: a}}]",
			"resolution: STATIC, ports: [{name: http, number: 80, protocol: HTTP}], endpoints: [{address: 10.1.0.7}, {address: 10.1.0.8}]",
			"resolution: STATIC, ports: [{name: http, number: 80, protocol: HTTP}], endpoints: [{address: 10.1.0.7, serviceAccount: "+pick("a", "b")+"}]",
			"resolution: NONE, ports: [{name: http, number: 80, protocol: HTTP}]",
		), pick(`"*"`, `"."`))
	case api.Sidecar:
		return "kind: Sidecar\n" + meta + fmt.Sprintf("spec: {%s}\n", pick(
			`egress: [{hosts: ["./*"]}]`, `egress: [{hosts: ["default/static.default.svc.cluster.local", "*/*.example.com"]}]`,
			`egress: [{port: {number: 9080, protocol: HTTP, name: http}, hosts: ["*/*"]}, {hosts: ["default/*"]}]`,
			`ingress: [{port: {number: 80, protocol: HTTP, name: http}, defaultEndpoint: "127.0.0.1:8080", captureMode: NONE}]`,
			`outboundTrafficPolicy: {mode: REGISTRY_ONLY}`,
			`outboundTrafficPolicy: {mode: ALLOW_ANY, egressProxy: {host: static.default.svc.cluster.local, port: {number: 80}}}, egress: [{hosts: ["*/*", "~other/*"]}]`,
			`ingress: [{port: {number: 80, protocol: HTTPS, name: https}, tls: {mode: MUTUAL, credentialName: cert}}], egress: [{port: {number: 0, protocol: TCP, name: s}, bind: "unix:///run/a.sock", hosts: ["*/a.default.svc.cluster.local"]}, {hosts: ["./*"]}]`,
		))
	case api.Telemetry:
		return "kind: Telemetry\n" + inNamespace(pick("other", "istio-system")) + fmt.Sprintf("spec: {%s%s}\n",
			pick("", "selector: {matchLabels: {app: a}}, "), pick(
				"accessLogging: [{providers: [{name: envoy}]}]", "accessLogging: [{disabled: true}]", "accessLogging: [{match: {mode: SERVER}, providers: [{name: als}]}]",
				"tracing: [{providers: [{name: zipkin}], randomSamplingPercentage: 5}]", "tracing: [{disableSpanReporting: true}]",
				"metrics: [{overrides: [{match: {mode: CLIENT}, tagOverrides: {host: {value: request.host}}}]}]",
			))
	case api.AuthorizationPolicy:
		return "kind: AuthorizationPolicy\n" + inNamespace(pick("other", "istio-system")) + fmt.Sprintf("spec: {%s%s}\n",
			pick("", "selector: {matchLabels: {app: a}}, "), pick(
				"rules: [{from: [{source: {namespaces: [default]}}]}]", "action: DENY, rules: [{to: [{operation: {paths: [/a]}}]}]",
				"action: CUSTOM, provider: {name: ask}, rules: [{}]", "action: AUDIT, rules: [{}]",
			))
	case api.RequestAuthentication:
		return "kind: RequestAuthentication\n" + inNamespace(pick("other", "istio-system")) + fmt.Sprintf("spec: {%sjwtRules: [%s]}\n",
			pick("", "selector: {matchLabels: {app: a}}, "), pick(
				"", "{issuer: a, jwks: '{\"kty\": \"oct\", \"k\": \"YQ\"}'}", "{issuer: 'https://dns.example.com'}, {issuer: b, jwksUri: 'http://static.default.svc.cluster.local/keys'}",
				"{issuer: b, jwksUri: 'https://dns.example.com:80/keys', timeout: 3s}", "{issuer: b, jwksUri: 'http://static.default.svc.cluster.local/keys', outputPayloadToHeader: x}",
			))
	case api.WasmPlugin, api.TrafficExtension:
		selected := inNamespace("istio-system") + "spec: {"
		selected += pick("", "selector: {matchLabels: {app: a}}, ", "selector: {matchLabels: {istio: ingressgateway}}, ")
		selected += pick("", "", "phase: AUTHN, ", "phase: AUTHZ, ", "priority: 3, ")
		selected += pick("", "", "match: [{mode: SERVER}], ",
			"match: [{mode: CLIENT, ports: [{number: 80}]}, {mode: SERVER, ports: [{number: 9080}]}], ")
		if kind == api.TrafficExtension {
			return "kind: TrafficExtension\n" + selected + pick(
				"lua: {inlineCode: a = 1}",
				"lua: {inlineCode: b = 1}",
				"wasm: {url: example.com/a}",
				"wasm: {url: example.com/a, type: NETWORK}",
				"wasm: {url: example.com/a, imagePullSecret: a}",
			) + "}\n"
		}
		selected += "url: " + pick("example.com/a", "http://example.com/b", "file:///c")
		selected += pick("", "", ", type: NETWORK")
		selected += pick("", ", pluginConfig: {a: b}", ", failStrategy: FAIL_OPEN", ", imagePullSecret: b")
		return "kind: WasmPlugin\n" + selected + "}\n"
	case api.PeerAuthentication:
		return "kind: PeerAuthentication\n" + inNamespace(pick("other", "istio-system")) + fmt.Sprintf("spec: {%smtls: {mode: %s}}\n",
			pick(
				"",
				"selector: {matchLabels: {app: a}}, ",
				"selector: {matchLabels: {app: a}}, portLevelMtls: {80: {mode: DISABLE}}, ",
			), pick("STRICT", "PERMISSIVE", "DISABLE", "UNSET"))
	case api.EnvoyFilter:
		return "kind: EnvoyFilter\n" + meta + fmt.Sprintf("spec: {%s, configPatches: [%s]}\n", pick(
			"priority: 1",
			"workloadSelector: {labels: {app: a}}",
		), pick(
			"{applyTo: CLUSTER, match: {context: SIDECAR_OUTBOUND}, patch: {operation: MERGE, value: {dns_lookup_family: V4_ONLY}}}",
			"{applyTo: CLUSTER, match: {cluster: {service: static.default.svc.cluster.local}}, patch: {operation: REMOVE}}",
			"{applyTo: CLUSTER, patch: {operation: ADD, value: {name: more, type: STATIC, connect_timeout: 1s}}}",
			"{applyTo: LISTENER, match: {listener: {portNumber: 9080}}, patch: {operation: MERGE, value: {per_connection_buffer_limit_bytes: 9}}}",
			"{applyTo: VIRTUAL_HOST, match: {routeConfiguration: {name: '80'}}, patch: {operation: MERGE, value: {request_headers_to_remove: [x]}}}",
			"{applyTo: HTTP_ROUTE, patch: {operation: MERGE, value: {route: {timeout: 3s}}}}",
		))
	case api.EndpointSlice:
		return fmt.Sprintf(`kind: EndpointSlice
metadata: {name: %s, namespace: %s, labels: {kubernetes.io/service-name: %s}}
ports: [{name: http, port: 80}, {name: tcp, port: 9080}]
endpoints: [{addresses: [10.1.0.%d], zone: %s, conditions: {%s}}]
`, name, namespace, name, 1+r.IntN(3), pick("a", "b"), pick("", "", "ready: false, serving: false, terminating: false"))
	default:
		return templateEdit(r, kind, fmt.Sprintf("name: %s, namespace: %s", name, namespace))
	}
}

// Namespaces that are hidden bring all their objects when they are no longer, and take them away
// when they are.
const (
	namespacesAreChosen = `
ingressControllerMode: DEFAULT
discoverySelectors: [{matchExpressions: [{key: hidden, operator: DoesNotExist}]}]
`
	namespacesThatHide = `
---
kind: Namespace
metadata: {name: default}
---
kind: Namespace
metadata: {name: other}
---
kind: Namespace
metadata: {name: istio-system}
---
kind: IngressClass
metadata: {name: theirs}
spec: {controller: example.com/ingress}
`
)
