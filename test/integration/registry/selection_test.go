package registry

import (
	"fmt"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/test/support/sidecar"
)

const (
	// vmEntry has an address and labels.
	vmEntry = "{apiVersion: networking.istio.io/v1, kind: WorkloadEntry, metadata: {name: vm, namespace: $NS, labels: {%s}}, spec: {address: %s, ports: {http: 7070}}}"
	// both is a ServiceEntry that selects pods and WorkloadEntries.
	both = `{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {name: both, namespace: $NS}, spec: {hosts: [both.example.com], resolution: STATIC,
  location: MESH_INTERNAL, ports: [{number: 80, name: http, protocol: HTTP, targetPort: 8080}], workloadSelector: {labels: {team: a}}}}`
)

// TestSelectionOnTheWire: Services select WorkloadEntries, and ServiceEntries select pods, and both follow labels and addresses.
func TestSelectionOnTheWire(t *testing.T) {
	p := launch(t, "{}")
	p.apply(`{apiVersion: v1, kind: Node, metadata: {name: node-$NS}}`)
	p.apply(`{apiVersion: v1, kind: Service, metadata: {name: web, namespace: $NS}, spec: {selector: {app: web}, ports: [{name: http, port: 80, targetPort: 8080}]}}`)
	p.apply(both)
	x := p.connect("client", p.namespace, "10.9.0.1")
	web, entry := p.outbound(80, "web"), "outbound|80||both.example.com"
	p.Eventually("clusters", all(has(x, api.EndpointType, web, true), has(x, api.EndpointType, entry, true), has(x, api.RouteType, "80", true)))
	p.pod("web-1", "app: web, team: a", "10.4.0.1", "True")
	p.Eventually("a pod of both", all(addresses(x, web, "10.4.0.1"), addresses(x, entry, "10.4.0.1")))

	vm := func(labels, address string) func() { return p.apply1(fmt.Sprintf(vmEntry, labels, address)) }
	eds := func(clusters ...string) []string {
		var list []string
		for _, c := range clusters {
			list = append(list, "EDS "+c)
		}
		return list
	}
	accounts := []string{"CDS " + entry, "EDS " + entry} // the cluster contains the accounts of the pods as accepted identities
	p.follow(x, []step{
		{"a pod leaves the ServiceEntry", func() { p.label("web-1", `{"team": "b"}`) }, addresses(x, entry), accounts},
		{"and is selected again", func() { p.label("web-1", `{"team": "a"}`) }, addresses(x, entry, "10.4.0.1"), accounts},
		{"a WorkloadEntry for both", vm("app: web, team: a", "192.0.2.1"), all(addresses(x, web, "10.4.0.1", "192.0.2.1"), addresses(x, entry, "10.4.0.1", "192.0.2.1")), eds(entry, web)},
		{"its address", vm("app: web, team: a", "192.0.2.2"), all(addresses(x, web, "10.4.0.1", "192.0.2.2"), addresses(x, entry, "10.4.0.1", "192.0.2.2")), eds(entry, web)},
		{"a pod beside it", func() { p.pod("web-2", "app: web", "10.4.0.2", "True") }, addresses(x, web, "10.4.0.1", "10.4.0.2", "192.0.2.2"), eds(web)},
		{"another pod is deleted", func() { p.remove("web-2") }, addresses(x, web, "10.4.0.1", "192.0.2.2"), eds(web)},
		{"it leaves the Service, and what its calls are named after is another", vm("team: a", "192.0.2.2"), addresses(x, web, "10.4.0.1"), eds(entry, web)},
		{"a label without a selector, and a later change", func() {
			p.apply(fmt.Sprintf(vmEntry, "team: a, other: b", "192.0.2.2"))
			p.label("web-1", `{"team": "b"}`)
		}, addresses(x, entry, "192.0.2.2"), accounts},
	})
	p.Eventually("whose services they are", p.page("/debug/registryz", `"both.example.com"`, `"External"`, `"Kubernetes"`))
	p.pending(x)
}

// pending creates a slice whose endpoint refers to a pod that is created later: callers receive the
// endpoint when its identity is known.
func (p *controlPlane) pending(x *sidecar.Proxy) {
	p.Helper()
	late := p.outbound(80, "late")
	p.apply(`{apiVersion: v1, kind: Service, metadata: {name: late, namespace: $NS}, spec: {ports: [{name: http, port: 80}]}}`)
	p.apply(`{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: late-1, namespace: $NS, labels: {kubernetes.io/service-name: late}}, addressType: IPv4,
  ports: [{name: http, port: 8080}], endpoints: [{addresses: [10.4.0.9], targetRef: {kind: Pod, name: late-1, namespace: $NS}}]}`)
	p.Eventually("the endpoint waits", all(has(x, api.EndpointType, late, true), addresses(x, late)))
	p.pod("late-1", "app: late, security.istio.io/tlsMode: istio", "10.4.0.9", "True")
	p.Eventually("its pod is created", all(addresses(x, late, "10.4.0.9"), func() error {
		c := new(clusterv3.Cluster)
		if x.Read(api.ClusterType, late, c); !strings.Contains(c.String(), "/ns/"+p.namespace+"/sa/"+account) {
			return fmt.Errorf("the cluster does not want the pod's account")
		}
		return nil
	}))
}

// TestProxiesOfPodsOnTheWire: the services of a proxy are those with an endpoint at its address,
// selected or listed by hand. A proxy at an address without a workload is reported.
func TestProxiesOfPodsOnTheWire(t *testing.T) {
	p := launch(t, "{}")
	p.apply(`{apiVersion: v1, kind: Node, metadata: {name: node-$NS}}`)
	p.pod("app-1", "app: one", "10.5.0.1", "True")
	p.apply(`{apiVersion: v1, kind: Service, metadata: {name: first, namespace: $NS}, spec: {selector: {app: one}, ports: [{name: http, port: 80, targetPort: 8080}]}}`)
	p.apply(`{apiVersion: v1, kind: Service, metadata: {name: second, namespace: $NS}, spec: {selector: {app: one}, ports: [{name: tcp, port: 81, targetPort: 9090}]}}`)
	p.apply(`{apiVersion: v1, kind: Service, metadata: {name: manual, namespace: $NS}, spec: {ports: [{name: http, port: 80}]}}`)
	p.apply(slice("manual-1", "manual", "7070", "10.5.0.1"))
	x := p.connect("app-1", p.namespace, "10.5.0.1")
	for _, port := range []string{"8080", "9090", "7070"} {
		p.Eventually("inbound", has(x, api.ClusterType, "inbound|"+port+"||", true))
	}
	p.Eventually("all workloads are known", func() error {
		if page, err := p.GetPage("/debug/push_status"); err != nil || strings.Contains(page, "pilot_no_ip") {
			return fmt.Errorf("%w\n%s", err, page)
		}
		return nil
	})
	p.connect("nobody", p.namespace, "10.5.0.250")
	p.Eventually("a proxy at an address without a workload", p.page("/debug/push_status", "pilot_no_ip", "nobody."+p.namespace))
	p.removeService("second")
	p.Eventually("one of the services is deleted", func() error { // its clusters are kept while connections drain
		l := new(listenerv3.Listener)
		if !x.Read(api.ListenerType, "virtualInbound", l) || !strings.Contains(l.String(), `"0.0.0.0_8080"`) || strings.Contains(l.String(), `"0.0.0.0_9090"`) {
			return fmt.Errorf("listener %v", l)
		}
		return nil
	})
}

// TestKindsOfServicesOnTheWire checks headless Services, ExternalName Services, declared protocols,
// and the visibility of Services.
func TestKindsOfServicesOnTheWire(t *testing.T) {
	p := launch(t, "{}")
	elsewhere := p.cluster.Namespace(t, "elsewhere", nil)
	p.apply(`
{apiVersion: v1, kind: Service, metadata: {name: db, namespace: $NS}, spec: {clusterIP: None, ports: [{name: tcp, port: 5432}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: api, namespace: $NS}, spec: {ports: [{name: web, port: 8000, appProtocol: http}, {name: tcp-x, port: 8001}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: alias, namespace: $NS}, spec: {type: ExternalName, externalName: api.$NS.svc.cluster.local, ports: [{name: http, port: 8000}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: mine, namespace: $NS, annotations: {networking.istio.io/exportTo: "."}}, spec: {ports: [{name: http, port: 80}]}}
---
{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {name: ours, namespace: $NS}, spec: {hosts: [ours.example.com], exportTo: ["."], resolution: DNS, ports: [{number: 443, name: tls, protocol: TLS}]}}`)
	x, other := p.connect("client", p.namespace, "10.9.0.1"), p.connect("client", elsewhere, "10.9.0.2")
	seen := []string{p.outbound(5432, "db"), p.outbound(8000, "api"), p.outbound(8001, "api")}
	hidden := []string{p.outbound(80, "mine"), "outbound|443||ours.example.com"}
	for _, name := range seen {
		p.Eventually("all see", all(has(x, api.ClusterType, name, true), has(other, api.ClusterType, name, true)))
	}
	for _, name := range hidden {
		p.Eventually("only its namespace sees", all(has(x, api.ClusterType, name, true), has(other, api.ClusterType, name, false)))
	}
	c := new(clusterv3.Cluster)
	if x.Read(api.ClusterType, seen[0], c); c.GetType() != clusterv3.Cluster_ORIGINAL_DST {
		t.Errorf("a headless Service's cluster is %s", c.GetType())
	}
	p.Eventually("the other name is a domain of the first", all(has(x, api.RouteType, "8000", true), func() error {
		r := new(routev3.RouteConfiguration)
		if x.Read(api.RouteType, "8000", r); !strings.Contains(r.String(), `"alias.`+p.namespace+`.svc.cluster.local"`) {
			return fmt.Errorf("routes %v", r)
		}
		return nil
	}))
	l := new(listenerv3.Listener)
	for _, name := range x.ResourceNames(api.ListenerType) {
		if strings.HasSuffix(name, "_8001") && x.Read(api.ListenerType, name, l) && strings.Contains(l.String(), "http_connection_manager") {
			t.Errorf("%s speaks HTTP", name)
		}
	}
}

// TestSettingsOnTheWire: selectors of namespaces and defaults for all follow the ConfigMap.
func TestSettingsOnTheWire(t *testing.T) {
	p := launch(t, "{}")
	p.apply(`{apiVersion: v1, kind: Service, metadata: {name: web, namespace: $NS}, spec: {ports: [{name: http, port: 80}]}}`)
	x := p.connect("client", p.namespace, "10.9.0.1")
	web := p.outbound(80, "web")
	timeout := func(want int64) func() error {
		return func() error {
			c := new(clusterv3.Cluster)
			if x.Read(api.ClusterType, web, c); c.GetConnectTimeout().GetSeconds() != want {
				return fmt.Errorf("connect timeout %v, want %d s", c.GetConnectTimeout(), want)
			}
			return nil
		}
	}
	p.Eventually("seen", all(has(x, api.ClusterType, web, true), timeout(10)))
	p.choose("connectTimeout: 7s")
	p.Eventually("another timeout", timeout(7))
	p.apply(`{apiVersion: v1, kind: Node, metadata: {name: node-$NS}}`)
	p.apply(`{apiVersion: v1, kind: Service, metadata: {name: web, namespace: $NS}, spec: {selector: {app: web}, ports: [{name: http, port: 80, targetPort: 8080}]}}`)
	p.pod("web-1", "app: web, security.istio.io/tlsMode: istio", "10.6.0.1", "True")
	answers := func(domain string) func() error {
		return func() error {
			c := new(clusterv3.Cluster)
			if x.Read(api.ClusterType, web, c); !strings.Contains(c.String(), `"spiffe://`+domain+"/ns/"+p.namespace+"/sa/"+account+`"`) {
				return fmt.Errorf("another may answer: %v", c.TransportSocketMatches)
			}
			return nil
		}
	}
	p.Eventually("who may answer", answers("cluster.local"))
	p.choose("trustDomain: example.org")
	p.Eventually("another trust domain", answers("example.org"))
	p.choose("discoverySelectors: [{matchLabels: {kubernetes.io/metadata.name: other}}]")
	p.Eventually("not chosen", has(x, api.ClusterType, web, false))
	p.choose("discoverySelectors: [{matchLabels: {kubernetes.io/metadata.name: " + p.namespace + "}}]")
	p.Eventually("selected without a change of its own", has(x, api.ClusterType, web, true))
	p.choose("{discoverySelectors: [{matchLabels: {team: red}}]}")
	p.Eventually("not chosen", has(x, api.ClusterType, web, false))
	p.apply(`{apiVersion: v1, kind: Namespace, metadata: {name: $NS, labels: {team: red}}}`)
	p.Eventually("the namespace gets the label", has(x, api.ClusterType, web, true))
	p.apply(`{apiVersion: v1, kind: Namespace, metadata: {name: $NS, labels: {team: blue}}}`)
	p.Eventually("and another one", has(x, api.ClusterType, web, false))
}

// TestRulesOnTheWire: an invalid rule and one of another revision change nothing, one for gateways
// sends nothing to a sidecar, and later rules are applied.
func TestRulesOnTheWire(t *testing.T) {
	p := launch(t, "{}")
	p.apply(`{apiVersion: v1, kind: Service, metadata: {name: web, namespace: $NS}, spec: {ports: [{name: http, port: 80}]}}`)
	x := p.connect("client", p.namespace, "10.9.0.1")
	p.Eventually("its route", leads(x, "80", p.outbound(80, "web")))
	rule := func(name, host, more, timeout string) string {
		return fmt.Sprintf(`{apiVersion: networking.istio.io/v1, kind: VirtualService, metadata: {name: %s, namespace: $NS, %s}, spec: {hosts: ["%s"], http: [{timeout: %s, route: [{destination: {host: web}}]}]}}`, name, more, host, timeout)
	}
	timeout := func(want string) func() error {
		return func() error {
			r := new(routev3.RouteConfiguration)
			if x.Read(api.RouteType, "80", r); !strings.Contains(strings.ReplaceAll(r.String(), " ", ""), "timeout:{"+want+"}") {
				return fmt.Errorf("no timeout of %s in %v", want, r)
			}
			return nil
		}
	}
	gateway := func(port string) string {
		return `{apiVersion: networking.istio.io/v1, kind: Gateway, metadata: {name: edge, namespace: $NS}, spec: {selector: {app: edge}, servers: [{port: {number: ` + port + `, name: http, protocol: HTTP}, hosts: ["*"]}]}}`
	}
	p.follow(x, []step{
		{"a rule", p.apply1(rule("web", "web", "labels: {}", "1s")), timeout("seconds:1"), []string{"RDS 80"}},
		{"written again, a Gateway, another revision's, a wrong one, and a good one behind them", func() {
			p.apply(rule("web", "web", "annotations: {note: again}", "1s"))
			p.apply(gateway("80"))
			p.apply(gateway("81"))
			p.apply(rule("other", "web", `labels: {istio.io/rev: canary}, creationTimestamp: null`, "9s"))
			p.apply(rule("wrong", "a..b", "labels: {}", "8s"))
			p.apply(rule("web", "web", "annotations: {note: more}", "2s"))
		}, timeout("seconds:2"), []string{"RDS 80"}},
	})
	p.Eventually("all known objects", p.page("/debug/configz", `"web"`, `"edge"`))
	p.Eventually("what is wrong", p.page("/debug/problemz", "wrong", "hosts"))
}
