package translate

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/config/decode"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/test/support/fixture"
)

// bystanders are objects that an invalid one must not affect: they have the same host, port or
// labels.
const bystanders = `
kind: ServiceEntry
metadata: {name: good, namespace: default}
spec:
  hosts: [good.example.com]
  resolution: STATIC
  ports: [{number: 80, name: http, protocol: HTTP}, {number: 3306, name: tcp, protocol: TCP}]
  endpoints: [{address: 192.0.2.1}]
---
kind: ServiceEntry
metadata: {name: selecting, namespace: default}
spec:
  hosts: [selecting.example.com]
  resolution: STATIC
  ports: [{number: 80, name: http, protocol: HTTP}]
  workloadSelector: {labels: {app: vm}}
---
kind: WorkloadEntry
metadata: {name: good, namespace: default}
spec: {address: 192.0.2.7, labels: {app: vm}}
---
kind: Service
metadata: {name: web, namespace: default}
spec: {clusterIP: 10.96.0.1, selector: {app: vm}, ports: [{name: http, port: 80}]}
`

// TestWrongObjectsAffectNothing: an invalid object is reported with its field, and all resources of
// proxies are the same as without it.
func TestWrongObjectsAffectNothing(t *testing.T) {
	entry := func(spec string) string {
		return "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\n" + meta + "spec: {" + spec + "}"
	}
	workload := func(spec string) string {
		return "apiVersion: networking.istio.io/v1\nkind: WorkloadEntry\n" + meta + "spec: {" + spec + "}"
	}
	group := func(spec string) string {
		return "apiVersion: networking.istio.io/v1\nkind: WorkloadGroup\n" + meta + "spec: {" + spec + "}"
	}
	const ports, host = "ports: [{number: 80, name: http, protocol: HTTP}]", "hosts: [bad.example.com], "
	many := func(n int, format string) string {
		list := make([]string, n)
		for i := range list {
			list[i] = fmt.Sprintf(format, i)
		}
		return "[" + strings.Join(list, ",") + "]"
	}
	for name, c := range map[string]struct{ object, field string }{
		"no host":             {entry(ports), "spec.hosts"},
		"host for everything": {entry("hosts: ['*'], " + ports), "spec.hosts[0]"},
		"host that is none":   {entry("hosts: [good.example.com, 'a b'], " + ports), "spec.hosts[1]"},
		"huge list of hosts":  {entry("hosts: " + many(300, "h%d.example.com") + ", " + ports), "spec.hosts"},
		"port out of range": {
			entry(host + "ports: [{number: 70000, name: http, protocol: HTTP}]"),
			"spec.ports[0].number",
		},
		"target out of range": {
			entry(host + "ports: [{number: 80, targetPort: 70000, name: http, protocol: HTTP}]"),
			"spec.ports[0].targetPort",
		},
		"port twice": {
			entry(host + "ports: [{number: 80, name: a}, {number: 80, name: b}]"),
			"spec.ports[1].number",
		},
		"port name twice": {
			entry(host + "ports: [{number: 80, name: a}, {number: 81, name: a}]"),
			"spec.ports[1].name",
		},
		"unknown protocol": {
			entry(host + "ports: [{number: 80, name: a, protocol: SCTP}]"),
			"spec.ports[0].protocol",
		},
		"unknown resolution":   {entry(host + ports + ", resolution: MAGIC"), "spec.resolution"},
		"unknown location":     {entry(host + ports + ", location: NOWHERE"), "spec.location"},
		"unknown field":        {entry(host + ports + ", port: 80"), "spec.port"},
		"address that is none": {entry(host + ports + ", addresses: [here]"), "spec.addresses[0]"},
		"range to be resolved": {
			entry(host + ports + ", addresses: [10.0.0.0/8], resolution: DNS"),
			"spec.addresses[0]",
		},
		"endpoints and selector": {
			entry(
				host + ports + ", resolution: STATIC, endpoints: [{address: 192.0.2.1}], workloadSelector: {labels: {app: vm}}",
			),
			"spec.workloadSelector",
		},
		"endpoints of NONE": {entry(host + ports + ", endpoints: [{address: 192.0.2.1}]"), "spec.endpoints"},
		"name to be static": {
			entry(host + ports + ", resolution: STATIC, endpoints: [{address: a.example.com}]"),
			"spec.endpoints[0].address",
		},
		"endpoint nowhere": {
			entry(host + ports + ", resolution: STATIC, endpoints: [{}]"),
			"spec.endpoints[0].address",
		},
		"endpoint of unknown port": {
			entry(host + ports + ", resolution: STATIC, endpoints: [{address: 192.0.2.1, ports: {x: 1}}]"),
			"spec.endpoints[0].ports[x]",
		},
		"socket to be resolved": {
			entry(host + ports + ", resolution: DNS, endpoints: [{address: 'unix:///s'}]"),
			"spec.endpoints[0].address",
		},
		"socket of two ports": {
			entry(
				host + "resolution: STATIC, ports: [{number: 80, name: a}, {number: 81, name: b}], endpoints: [{address: 'unix:///s'}]",
			),
			"spec.endpoints",
		},
		"huge list of endpoints": {
			entry(host + ports + ", resolution: STATIC, endpoints: " + many(5000, "{address: 192.0.2.1, weight: %d}")),
			"spec.endpoints",
		},
		"wildcard to be resolved": {
			entry("hosts: ['*.example.com'], " + ports + ", resolution: DNS"), "spec.hosts[0]",
		},
		"two names in turn": {
			entry(
				host + ports + ", resolution: DNS_ROUND_ROBIN, endpoints: [{address: a.example.com}, {address: b.example.com}]",
			),
			"spec.endpoints",
		},
		"one name of many": {entry(host + ports + ", resolution: DYNAMIC_DNS"), "spec.hosts[0]"},
		"bytes to a name of many": {
			entry("hosts: ['*.example.com'], resolution: DYNAMIC_DNS, ports: [{number: 80, name: a, protocol: TCP}]"),
			"spec.ports[0].protocol",
		},
		"exported to two minds": {entry(host + ports + ", exportTo: ['*', '~']"), "spec.exportTo[0]"},
		"selector by wildcard": {
			entry(host + ports + ", resolution: STATIC, workloadSelector: {labels: {app: '*'}}"),
			"spec.workloadSelector.labels[app]",
		},
		"workload nowhere":         {workload("labels: {app: vm}"), "spec.address"},
		"workload at a wildcard":   {workload("address: '*.example.com', labels: {app: vm}"), "spec.address"},
		"workload at a range":      {workload("address: 10.0.0.0/8, labels: {app: vm}"), "spec.address"},
		"workload at a bad socket": {workload("address: 'unix://x', labels: {app: vm}"), "spec.address"},
		"workload port out of range": {
			workload("address: 192.0.2.9, labels: {app: vm}, ports: {http: 0}"),
			"spec.ports[http]",
		},
		"socket with a port": {
			workload("address: 'unix:///s', labels: {app: vm}, ports: {http: 80}"), "spec.ports",
		},
		"label that is none": {workload("address: 192.0.2.9, labels: {app: vm, 'a b': c}"), "spec.labels[a b]"},
		"huge locality": {
			workload("address: 192.0.2.9, labels: {app: vm}, locality: " + strings.Repeat("x", 3000)),
			"spec.locality",
		},
		"negative weight":     {workload("address: 192.0.2.9, labels: {app: vm}, weight: -1"), "spec.weight"},
		"group of nothing":    {group("metadata: {labels: {app: vm}}"), "spec.template"},
		"probe without a way": {group("template: {}, probe: {periodSeconds: 1}"), "spec.probe"},
		"probe of two ways": {
			group("template: {}, probe: {tcpSocket: {port: 1}, grpc: {port: 1}}"),
			"spec.probe.tcpSocket",
		},
		"probe in the past": {
			group("template: {}, probe: {periodSeconds: -1, tcpSocket: {port: 1}}"),
			"spec.probe.periodSeconds",
		},
	} {
		t.Run(name, func(t *testing.T) {
			without, with := fixture.New(t, []byte(bystanders), nil), fixture.New(t, []byte(bystanders), nil)
			var problems []config.Problem
			for _, d := range decode.Manifest("bad.yaml", []byte(c.object)) {
				problems = append(problems, d.Problems...)
				if d.Config != nil {
					with.Send(mesh.Event{Config: d.Config})
				}
			}
			if !hasError(problems, c.field) {
				t.Errorf("no Error names bad and %s: %v", c.field, problems)
			}
			for _, proxy := range []string{
				"{}", "{dnsCapture: true, addresses: [192.0.2.7], labels: {app: vm}}",
				"{type: router}",
			} {
				if diff := cmp.Diff(sentTo(t, without, proxy), sentTo(t, with, proxy)); diff != "" {
					t.Errorf("proxy %s: -without +with:\n%s", proxy, diff)
				}
			}
		})
	}
}

const meta = "metadata: {name: bad, namespace: default, creationTimestamp: \"2020-01-01T00:00:00Z\"}\n"

func hasError(list []config.Problem, field string) bool {
	for _, p := range list {
		if p.Severity == config.Error && p.Key.Name == "bad" && p.Field == field && p.Reason != "" {
			return true
		}
	}
	return false
}

// sentTo returns all that a proxy is sent, as text by type and name.
func sentTo(t *testing.T, m *fixture.Mesh, proxy string) map[string]string {
	t.Helper()
	v := m.View(fixture.Proxy(t, []byte(proxy)))
	all := map[string]string{}
	table := NewTable(Options{})
	for i := range table.Generators {
		for _, r := range made(&table.Generators[i], v) {
			all[r.TypeURL+" "+r.Name] = string(r.Body)
		}
	}
	return all
}

func made(g *view.Generator, v *view.View) []*resource.Resource {
	if g.All != nil {
		return g.All(v)
	}
	var list []*resource.Resource
	for _, n := range []string{
		"80", "3306", "outbound|80||good.example.com", "outbound|3306||good.example.com", "outbound|80||selecting.example.com",
		"outbound|80||web.default.svc.cluster.local", "outbound|80||bad.example.com",
	} {
		if r := g.Named(v, n); r != nil {
			list = append(list, r)
		}
	}
	return list
}

// TestAllocatedAddressesAgree: the address allocated to a host is the same in all resources of a
// proxy, and is used only for proxies whose applications can resolve it.
func TestAllocatedAddressesAgree(t *testing.T) {
	m := fixture.New(t, []byte(bystanders), nil)
	key := mesh.ServiceKey{Namespace: "default", Host: "good.example.com"}
	address := m.Snapshot().Service(key).Allocated[0]
	for proxy, knows := range map[string]bool{
		"{}":                                   false,
		"{dnsCapture: true}":                   true,
		"{dnsCapture: true, namespace: other}": true,
	} {
		sent := sentTo(t, m, proxy)
		in := map[string]bool{}
		for name, text := range sent {
			kind, _, _ := strings.Cut(name, " ")
			in[kind[strings.LastIndexByte(kind, '.')+1:]] = in[kind[strings.LastIndexByte(kind, '.')+1:]] ||
				strings.Contains(text, address) || strings.Contains(name, address)
		}
		want := map[string]bool{"Listener": knows, "RouteConfiguration": knows, "NameTable": knows}
		for kind, has := range in {
			if has != want[kind] {
				t.Errorf("proxy %s: %s has %s: %t", proxy, kind, address, has)
			}
		}
	}
}
