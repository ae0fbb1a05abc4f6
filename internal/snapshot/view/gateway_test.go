package view_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/test/support/fixture"
)

const twoGateways = `
kind: Gateway
metadata: {name: first}
spec:
  selector: {app: gateway}
  servers:
  - {port: {number: 80, name: http, protocol: HTTP}, hosts: ["default/a.example.com", "./b.example.com", "*/c.example.com"]}
  - {port: {number: 443, name: https, protocol: HTTPS}, hosts: [a.example.com], tls: {mode: SIMPLE, credentialName: cert}}
---
kind: Gateway
metadata: {name: second, namespace: other}
spec:
  selector: {app: gateway}
  servers:
  - {port: {number: 80, name: http, protocol: HTTP}, hosts: ["./b.example.com"]}
  - {port: {number: 443, name: https, protocol: HTTPS}, hosts: [a.example.com, b.example.com], tls: {mode: SIMPLE, credentialName: cert}}
---
kind: VirtualService
metadata: {name: here}
spec: {hosts: [a.example.com, b.example.com, "*"], gateways: [first], http: [{route: [{destination: {host: x}}]}]}
---
kind: VirtualService
metadata: {name: elsewhere, namespace: other}
spec: {hosts: [a.example.com, b.example.com], gateways: [default/first, second], http: [{route: [{destination: {host: x}}]}]}
---
kind: VirtualService
metadata: {name: private, namespace: third}
spec: {hosts: [c.example.com], gateways: [default/first], exportTo: ["."], http: [{route: [{destination: {host: x}}]}]}
`

const gatewayProxy = "{type: router, name: gateway, labels: {app: gateway}, addresses: [10.1.0.1]}"

func TestGatewaysAreMerged(t *testing.T) {
	v := fixture.New(t, []byte(twoGateways), nil).View(fixture.Proxy(t, []byte(gatewayProxy)))
	g := v.Gateway()
	if len(g.Listeners) != 2 || g.Listeners[0].Port != 80 || g.Listeners[1].Port != 443 {
		t.Fatalf("listeners %+v", g.Listeners)
	}
	if r := g.RouteByName("http.80"); r == nil || len(r.Servers) != 2 || r.Servers[0].Gateway != "default/first" {
		t.Errorf("the servers in plain text do not share a route: %+v", r)
	}
	if g.RouteByName("https.443.https.first.default") == nil || g.RouteByName("https.443.https.second.other") == nil {
		t.Error("servers of HTTPS have no routes of their own")
	}
	if names := g.Listeners[1].Servers[1].ServerNames; !slices.Equal(names, []string{"b.example.com"}) {
		t.Errorf("the younger server has the names %v", names)
	}
	if len(g.Problems) != 1 || !strings.Contains(g.Problems[0].String(), `ask for "a.example.com" are those of Gateway/default/first`) {
		t.Errorf("problems %v", g.Problems)
	}
	if v.Gateway() != g {
		t.Error("the same is merged twice")
	}
}

// TestServersTakeHosts: a server serves the hosts that it has in common with a VirtualService, of
// the namespaces that the server names.
func TestServersTakeHosts(t *testing.T) {
	v := fixture.New(t, []byte(twoGateways), nil).View(fixture.Proxy(t, []byte(gatewayProxy)))
	servers := v.Gateway().RouteByName("http.80").Servers
	bound := func(gateway string) string {
		var list []string
		for _, vs := range v.VirtualServicesOf(gateway) {
			for _, s := range servers {
				if s.Gateway == gateway {
					for _, h := range s.ServedHosts(vs) {
						list = append(list, vs.Config.Name+" "+string(h))
					}
				}
			}
		}
		return strings.Join(list, ", ")
	}
	for gateway, want := range map[string]string{
		"default/first": "here a.example.com, here b.example.com, here c.example.com",
		"other/second":  "elsewhere b.example.com",
		"nobody/else":   "",
	} {
		if got := bound(gateway); got != want {
			t.Errorf("%s serves %q, want %q", gateway, got, want)
		}
	}
}

// TestGatewayKeyMoves: the Key of a gateway follows the Gateways that select it and its Services,
// and no change of one that does not alter it moves it.
func TestGatewayKeyMoves(t *testing.T) {
	m := fixture.New(t, []byte(twoGateways), nil)
	p, sidecar := fixture.Proxy(t, []byte(gatewayProxy)), fixture.Proxy(t, []byte("{labels: {app: gateway}}"))
	for _, step := range []struct {
		name, object   string
		delete         bool
		moves, touched bool
	}{
		{"a Gateway that selects others", "kind: Gateway\nmetadata: {name: others}\nspec: {selector: {app: x}, servers: [{port: {number: 81, name: a, protocol: HTTP}, hosts: ['*']}]}", false, false, false},
		{"another server of a Gateway that selects it", "kind: Gateway\nmetadata: {name: first}\nspec: {selector: {app: gateway}, servers: [{port: {number: 81, name: a, protocol: HTTP}, hosts: ['*']}]}", false, false, true},
		{"a Gateway that selects it now", "kind: Gateway\nmetadata: {name: others}\nspec: {selector: {app: gateway}, servers: [{port: {number: 81, name: a, protocol: HTTP}, hosts: ['*']}]}", false, true, false},
		{"a Gateway is deleted", "kind: Gateway\nmetadata: {name: others}\nspec: {}", true, true, true},
		{"a Service that leads to it", "kind: Service\nmetadata: {name: gateway}\nspec: {selector: {app: gateway}, ports: [{name: http, port: 80, targetPort: 8080}]}", false, true, true},
		{"a Service of others", "kind: Service\nmetadata: {name: web}\nspec: {selector: {app: web}, ports: [{name: http, port: 80, targetPort: 8080}]}", false, false, true},
	} {
		before := m.Snapshot()
		key, own := view.KeyFor(before, p), view.KeyFor(before, sidecar)
		apply := m.Apply
		if step.delete {
			apply = m.Delete
		}
		s, d := apply(t, step.object)
		now := view.KeyFor(s, p)
		if (now != key) != step.moves {
			t.Errorf("%s: the Key moves: %t, want %t: %+v", step.name, now != key, step.moves, now.Gateway)
		}
		if now != key && !view.KeyChangeFilter(before, s, d)(p) {
			t.Errorf("%s: the Key has changed although KeyMoves returned false", step.name)
		}
		if got := view.Build(before, key).IsAffectedBy(d); got != step.touched {
			t.Errorf("%s: touched: %t, want %t", step.name, got, step.touched)
		}
		if view.KeyFor(s, sidecar).Gateway != own.Gateway || own.Gateway != (view.GatewayKey{}) {
			t.Errorf("%s: a sidecar has something of gateways: %+v", step.name, own.Gateway)
		}
	}
	if ports := view.KeyFor(m.Snapshot(), p).Gateway.Ports; ports != "80:8080" {
		t.Errorf("ports %q", ports)
	}
}

func TestServerHostsArePerNamespace(t *testing.T) {
	m := fixture.New(t, []byte(twoGateways), nil)
	v := m.View(fixture.Proxy(t, []byte(gatewayProxy)))
	want := []view.GatewayHost{{Namespace: "default", Host: "a.example.com"}, {Namespace: "default", Host: "b.example.com"}, {Namespace: "*", Host: "c.example.com"}}
	if got := v.Gateway().Listeners[0].Servers[0].Hosts; !slices.Equal(got, want) {
		t.Errorf("hosts %v, want %v", got, want)
	}
	if fixture.New(t, nil, nil).View(&mesh.Proxy{Type: mesh.SidecarProxy}).Gateway() != nil {
		t.Error("a sidecar has a Gateway")
	}
}

const deployedGateway = `
kind: Gateway
apiVersion: gateway.networking.k8s.io/v1
metadata: {name: gw, namespace: infra}
spec: {gatewayClassName: istio, listeners: [{name: http, port: 80, protocol: HTTP}]}
---
kind: Gateway
metadata: {name: x, namespace: evil}
spec:
  selector: {gateway.networking.k8s.io/gateway-name: gw}
  servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: ["*"]}]
`

const deployedProxy = "{type: router, name: gw, namespace: infra, labels: {gateway.networking.k8s.io/gateway-name: gw}, addresses: [10.1.0.2]}"

// TestForeignGatewaysAreReported: a Gateway of another namespace does not add servers to a deployed
// gateway, and gets a Problem.
func TestForeignGatewaysAreReported(t *testing.T) {
	g := fixture.New(t, []byte(deployedGateway), nil).View(fixture.Proxy(t, []byte(deployedProxy))).Gateway()
	if len(g.Listeners) != 1 || len(g.Listeners[0].Servers) != 1 || g.Listeners[0].Servers[0].Object.Namespace != "infra" {
		t.Fatalf("listeners %+v", g.Listeners)
	}
	if len(g.Problems) != 1 || !strings.Contains(g.Problems[0].String(), "Gateways of other namespaces are not served there") {
		t.Errorf("problems %v", g.Problems)
	}
}

const boundToListeners = `
kind: Namespace
apiVersion: v1
metadata: {name: evil}
---
kind: Namespace
apiVersion: v1
metadata: {name: friend, labels: {edge: "yes"}}
---
kind: Gateway
apiVersion: gateway.networking.k8s.io/v1
metadata: {name: gw, namespace: infra}
spec:
  gatewayClassName: istio
  listeners:
  - {name: same, port: 80, protocol: HTTP}
  - {name: all, port: 81, protocol: HTTP, allowedRoutes: {namespaces: {from: All}}}
  - {name: chosen, port: 82, protocol: HTTP, allowedRoutes: {namespaces: {from: Selector, selector: {matchLabels: {edge: "yes"}}}}}
`

// TestListenersPermitVirtualServices: allowedRoutes of a listener also holds for VirtualServices
// that are bound to it by the name of its Gateway.
func TestListenersPermitVirtualServices(t *testing.T) {
	config := boundToListeners
	for _, namespace := range []string{"evil", "friend", "infra"} {
		config += "---\nkind: VirtualService\nmetadata: {name: bound, namespace: " + namespace + "}\nspec: {hosts: [" + namespace +
			".example.com], gateways: [infra/gw-istio-autogenerated-k8s-gateway-same, infra/gw-istio-autogenerated-k8s-gateway-all," +
			" infra/gw-istio-autogenerated-k8s-gateway-chosen], http: [{route: [{destination: {host: x}}]}]}\n"
	}
	v := fixture.New(t, []byte(config), nil).View(fixture.Proxy(t, []byte(deployedProxy)))
	want := map[uint32]string{80: "infra", 81: "evil friend infra", 82: "friend"}
	for _, l := range v.Gateway().Listeners {
		var list []string
		for _, vs := range v.VirtualServicesOf(l.Servers[0].Gateway) {
			if l.Servers[0].ServesHostOf(vs) {
				list = append(list, vs.Config.Namespace)
			}
		}
		if slices.Sort(list); strings.Join(list, " ") != want[l.Port] {
			t.Errorf("port %d has the VirtualServices of %q, want %q", l.Port, list, want[l.Port])
		}
	}
}

// TestPortsOfSeveralServices: of several Services with a port, the oldest decides on which port a
// gateway listens, and one whose ports are not translated only without another.
func TestPortsOfSeveralServices(t *testing.T) {
	p := fixture.Proxy(t, []byte("{type: router, labels: {app: gateway}, addresses: [10.1.0.2]}"))
	service := func(name, labels, ports string) string {
		return "---\nkind: Service\nmetadata: {name: " + name + ", labels: {" + labels + "}}\nspec: {selector: {app: gateway}, ports: [" + ports + "]}\n"
	}
	const untranslated = `experimental.istio.io/disable-gateway-port-translation: "true"`
	for name, test := range map[string]struct{ objects, want string }{ // The fixture's objects are created in their order.
		"the oldest": {
			service("b", "", "{name: http, port: 80, targetPort: 8080}, {name: tls, port: 443, targetPort: 8443}") +
				service("a", "", "{name: http, port: 80, targetPort: 8081}, {name: more, port: 81, targetPort: 8082}"),
			"443:8443;80:8080;81:8082",
		},
		"UDP is another port": {
			service("a", "", "{name: quic, port: 443, targetPort: 9443, protocol: UDP}") +
				service("b", "", "{name: tls, port: 443, targetPort: 8443}"),
			"443:8443;443:9443/udp",
		},
		"without translation": {
			service("a", untranslated, "{name: http, port: 80, targetPort: 8081}, {name: more, port: 81, targetPort: 8082}") +
				service("b", "", "{name: http, port: 80, targetPort: 8080}"),
			"80:8080;81:81",
		},
	} {
		if got := view.KeyFor(fixture.New(t, []byte(test.objects), nil).Snapshot(), p).Gateway.Ports; got != test.want {
			t.Errorf("%s: ports %q, want %q", name, got, test.want)
		}
	}
}
