package listener

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/meshpilot/meshpilot/test/support/fixture"
	"github.com/meshpilot/meshpilot/test/support/longtest"
)

// TestEnvoyAcceptsRandomListeners makes meshes of services, routes and Sidecars that compete for
// few addresses, ports and names, and loads the listeners of all of them into one Envoy.
func TestEnvoyAcceptsRandomListeners(t *testing.T) {
	var all crowd
	problems := 0
	check := func(r *rapid.T) {
		text := randomMesh(r)
		m := fixture.New(t, []byte(text), []byte(oneOf(r, "mesh", "{}", "proxyHttpPort: 3306", "outboundTrafficPolicy: {mode: REGISTRY_ONLY}", "outboundTrafficPolicy: {mode: ALLOW_ANY_DYNAMIC_DNS}")))
		v := m.View(fixture.Proxy(t, []byte(fmt.Sprintf("{labels: {app: %s}, interception: %s, addresses: %s}",
			oneOf(r, "app", "a", "b"), oneOf(r, "interception", "REDIRECT", "TPROXY", "NONE"),
			oneOf(r, "proxy", "[10.9.9.9]", `["fd00::9"]`, `[10.9.9.9, "fd00::9"]`)))))
		g := NewGenerator()
		all.add(t, listenersOf(t, g, v))
		problems += len(g.Problems(v))
		if t.Failed() {
			r.Fatalf("of this mesh:\n%s", text)
		}
	}
	for range longtest.Rounds(1, 5) {
		rapid.Check(t, check)
	}
	t.Logf("%d listeners, %d problems", len(all.listeners), problems)
	all.validate(t)
	if problems < 50 {
		t.Errorf("only %d problems: nothing competes", problems)
	}
}

func oneOf(r *rapid.T, what string, values ...string) string {
	return rapid.SampledFrom(values).Draw(r, what)
}

// someOf returns one to most of the values, perhaps some of them twice, as a YAML list.
func someOf(r *rapid.T, what string, most int, values ...string) string {
	return "[" + strings.Join(rapid.SliceOfN(rapid.SampledFrom(values), 1, most).Draw(r, what), ", ") + "]"
}

func randomMesh(r *rapid.T) string {
	documents := []string{
		`{kind: Pod, metadata: {name: client, labels: {app: a}}, status: {podIP: 10.9.9.9, podIPs: [{ip: 10.9.9.9}, {ip: "fd00::9"}], phase: Running}}`,
		`{kind: Pod, metadata: {name: other, labels: {app: b}}, status: {podIP: 192.0.2.1, phase: Running}}`,
		`{kind: DestinationRule, metadata: {name: all}, spec: {host: "*", trafficPolicy: {connectionPool: {tcp: {idleTimeout: 9s}}, loadBalancer: {consistentHash: {useSourceIp: true}}}}}`,
	}
	for i := range rapid.IntRange(0, 10).Draw(r, "services") {
		documents = append(documents, randomService(r, i))
	}
	for i := range rapid.IntRange(0, 4).Draw(r, "virtual services") {
		documents = append(documents, randomVirtualService(r, i))
	}
	if rapid.Bool().Draw(r, "sidecar") {
		documents = append(documents, randomSidecar(r))
	}
	return strings.Join(documents, "\n---\n")
}

func ports() []string {
	return []string{"80", "443", "3306", "8080", "15001", "15006", "15021", "15090", "15020"}
}

func names() []string {
	return []string{"a.example.com", "b.example.com", `"*.example.com"`, `"*.com"`, "A.Example.com", `"*-eu.example.com"`, "svc-1.default.svc.cluster.local"}
}

func ranges() []string {
	return []string{"192.0.2.1", "192.0.2.2", "192.0.2.0/24", "192.0.2.64/26", "192.0.2.1/32", "0.0.0.0/0", "0.0.0.0", `"2001:db8::1"`, `"2001:db8::/32"`, `"::ffff:192.0.2.0/120"`, "10.9.9.9"}
}

func randomService(r *rapid.T, i int) string {
	numbers := rapid.SliceOfNDistinct(rapid.SampledFrom(ports()), 1, 4, rapid.ID[string]).Draw(r, "ports")
	protocol := func() string {
		return oneOf(r, "protocol", "http", "http", "tcp", "tls", "https", "grpc-web", "mongo", "mysql", "udp", "unknown")
	}
	var list []string
	if rapid.Bool().Draw(r, "kubernetes") {
		for _, n := range numbers {
			list = append(list, fmt.Sprintf("{name: %s-%s, port: %s, targetPort: %s}", protocol(), n, n, oneOf(r, "target", ports()...)))
		}
		kind := fmt.Sprintf("clusterIP: %q, selector: {app: %s}", oneOf(r, "cluster IP", "None", "10.96.0.1", "10.96.0.2", "0.0.0.0", "10.9.9.9", "fd00:96::1"), oneOf(r, "selects", "a", "b"))
		if rapid.IntRange(0, 9).Draw(r, "external name") == 0 {
			kind = "type: ExternalName, externalName: " + oneOf(r, "alias", "a.example.com", "svc-1.default.svc.cluster.local", "nowhere.example.com")
		}
		return fmt.Sprintf("{kind: Service, metadata: {name: svc-%d}, spec: {%s, ports: [%s]}}", i, kind, strings.Join(list, ", "))
	}
	for _, n := range numbers {
		list = append(list, fmt.Sprintf("{name: p-%s, number: %s, protocol: %s}", n, n, protocol()))
	}
	addresses := "[]"
	if rapid.Bool().Draw(r, "addressed") {
		addresses = someOf(r, "addresses", 3, ranges()...)
	}
	return fmt.Sprintf("{kind: ServiceEntry, metadata: {name: svc-%d}, spec: {hosts: %s, addresses: %s, resolution: %s, ports: [%s]}}",
		i, someOf(r, "hosts", 2, names()...), addresses, oneOf(r, "resolution", "NONE", "STATIC", "DNS"), strings.Join(list, ", "))
}

func randomVirtualService(r *rapid.T, i int) string {
	match := func() string {
		fields := []string{
			"port: " + oneOf(r, "port", ports()...), "destinationSubnets: " + someOf(r, "subnets", 3, ranges()...),
			"sourceLabels: {app: " + oneOf(r, "label", "a", "b") + "}", "gateways: [" + oneOf(r, "gateway", "mesh", "other") + "]",
		}
		return strings.Join(slices.DeleteFunc(fields, func(string) bool { return rapid.Bool().Draw(r, "left out") }), ", ")
	}
	route := func() string {
		var list []string
		for range rapid.IntRange(1, 3).Draw(r, "destinations") {
			list = append(list, fmt.Sprintf("{destination: {host: %s, subset: %q}, weight: %d}",
				oneOf(r, "destination", names()...), oneOf(r, "subset", "", "v1"), rapid.IntRange(0, 2).Draw(r, "weight")))
		}
		return "[" + strings.Join(list, ", ") + "]"
	}
	var tls, tcp []string
	for range rapid.IntRange(0, 3).Draw(r, "tls") {
		tls = append(tls, fmt.Sprintf("{match: [{sniHosts: %s, %s}], route: %s}", someOf(r, "sni", 3, append(names(), `"*"`, `"a.*"`)...), match(), route()))
	}
	for range rapid.IntRange(0, 2).Draw(r, "tcp") {
		tcp = append(tcp, fmt.Sprintf("{match: [{%s}], route: %s}", match(), route()))
	}
	return fmt.Sprintf("{kind: VirtualService, metadata: {name: vs-%d}, spec: {hosts: %s, tls: [%s], tcp: [%s]}}",
		i, someOf(r, "hosts", 2, append(names(), `"*"`)...), strings.Join(tls, ", "), strings.Join(tcp, ", "))
}

func randomSidecar(r *rapid.T) string {
	var egress, ingress []string
	for range rapid.IntRange(0, 4).Draw(r, "egress") {
		bind := oneOf(r, "bind", "", "", "127.0.0.1", "127.0.0.2", "0.0.0.0", "::", "::1", "192.0.2.1", "10.9.9.9")
		number := oneOf(r, "port", ports()...)
		if rapid.IntRange(0, 4).Draw(r, "socket") == 0 {
			bind, number = oneOf(r, "path", "unix:///run/a.sock", "unix:///run/"+strings.Repeat("x", 120)), "0"
		}
		egress = append(egress, fmt.Sprintf("{port: {number: %s, protocol: %s, name: p}, bind: %q, captureMode: %s, hosts: [%s]}",
			number, oneOf(r, "protocol", "HTTP", "TCP", "TLS", "HTTP_PROXY", "UNKNOWN", "UDP"), bind,
			oneOf(r, "capture", "DEFAULT", "NONE", "IPTABLES"), oneOf(r, "hosts", `"*/*"`, "./a.example.com", "./b.example.com", `"*/*", "~./a.example.com"`)))
	}
	if rapid.Bool().Draw(r, "everything") {
		egress = append(egress, `{hosts: ["*/*"]}`)
	}
	for range rapid.IntRange(0, 3).Draw(r, "ingress") {
		protocol, tls := oneOf(r, "protocol", "HTTP", "TCP", "UNKNOWN", "HTTPS", "TLS", "UDP"), ""
		if protocol == "HTTPS" || protocol == "TLS" {
			tls = ", tls: " + oneOf(r, "tls", "{mode: SIMPLE, credentialName: a}", "{mode: SIMPLE, serverCertificate: /a, privateKey: /b, maxProtocolVersion: TLSV1_2}",
				"{mode: MUTUAL, credentialNames: [a, b], subjectAltNames: [a.example.com]}", "{mode: MUTUAL, serverCertificate: /a, privateKey: /b, caCertificates: /c}",
				"{mode: OPTIONAL_MUTUAL, credentialName: a, caCertCredentialName: b}")
		}
		ingress = append(ingress, fmt.Sprintf("{port: {number: %s, protocol: %s, name: p}, bind: %q, captureMode: %s, defaultEndpoint: \"127.0.0.1:9\"%s}",
			oneOf(r, "port", ports()...), protocol, oneOf(r, "bind", "", "127.0.0.1", "10.9.9.9", "::1"), oneOf(r, "capture", "DEFAULT", "NONE"), tls))
	}
	return fmt.Sprintf("{kind: Sidecar, metadata: {name: default}, spec: {egress: [%s], ingress: [%s], outboundTrafficPolicy: %s}}",
		strings.Join(egress, ", "), strings.Join(ingress, ", "),
		oneOf(r, "policy", "{mode: REGISTRY_ONLY}", "{mode: ALLOW_ANY}", "{mode: ALLOW_ANY, egressProxy: {host: a.example.com, port: {number: 80}}}"))
}
