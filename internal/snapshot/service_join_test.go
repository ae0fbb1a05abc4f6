package snapshot_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/test/support/fixture"
)

const static = "resolution: STATIC, "

// entry writes a ServiceEntry for h.example.com.
func entry(name, spec string) string {
	return "kind: ServiceEntry\nmetadata: {name: " + name + "}\nspec: {hosts: [h.example.com], " + spec + "}\n---\n"
}

var host = mesh.ServiceKey{Namespace: "default", Host: "h.example.com"}

// outline describes the parts of a joined service as text.
func outline(s *snapshot.Snapshot, k mesh.ServiceKey) (ports, addresses, endpoints, problems string) {
	svc := s.Service(k)
	if svc == nil {
		return "", "", "", ""
	}
	words := func(list []string) string { return strings.Join(list, " ") }
	var p, e, w []string
	for _, port := range svc.Ports {
		p = append(p, fmt.Sprintf("%s/%d/%s", port.Name, port.Number, port.Protocol))
	}
	for _, one := range s.Endpoints(k).Endpoints {
		e = append(e, one.ServicePort+"="+one.HostPort())
	}
	for _, one := range s.Problems() {
		w = append(w, one.Key.Name+" "+one.Field)
	}
	return words(p), words(svc.Addresses), words(e), words(w)
}

// TestEqualHosts checks how several definitions of one host in one namespace are joined,
// independently of their order.
func TestEqualHosts(t *testing.T) {
	const http, tls = "ports: [{name: http, number: 80, protocol: HTTP}]", "ports: [{name: tls, number: 443, protocol: TLS}]"
	for _, c := range []struct {
		name                                  string
		objects                               []string
		ports, addresses, endpoints, problems string
	}{
		{
			name: "ports, addresses and endpoints are joined",
			objects: []string{
				entry("a", static+"addresses: [198.51.100.1], endpoints: [{address: 192.0.2.1}], "+http),
				entry("b", static+"addresses: [198.51.100.2], endpoints: [{address: 192.0.2.2}], "+tls),
			},
			ports: "http/80/HTTP tls/443/TLS", addresses: "198.51.100.1 198.51.100.2", endpoints: "http=192.0.2.1:80 tls=192.0.2.2:443",
		},
		{
			name: "endpoints of one port are joined, each at its own target",
			objects: []string{
				entry("a", static+"endpoints: [{address: 192.0.2.1}], "+http),
				entry("b", static+"endpoints: [{address: 192.0.2.2}], ports: [{name: web, number: 80, protocol: HTTP, targetPort: 8080}]"),
			},
			ports: "http/80/HTTP", endpoints: "http=192.0.2.1:80 http=192.0.2.2:8080",
		},
		{
			name: "two ports of one name stay apart",
			objects: []string{
				entry("a", static+"endpoints: [{address: 192.0.2.1}], "+http),
				entry("b", static+"endpoints: [{address: 192.0.2.2}], ports: [{name: http, number: 8080, protocol: HTTP}]"),
			},
			ports: "http/80/HTTP http-8080/8080/HTTP", endpoints: "http=192.0.2.1:80 http-8080=192.0.2.2:8080",
		},
		{
			name: "the older definition decides the protocol of a port and the location of a host",
			objects: []string{
				entry("a", static+"endpoints: [{address: 192.0.2.1}], "+http),
				entry("b", static+"location: MESH_INTERNAL, endpoints: [{address: 192.0.2.2}], ports: [{name: http, number: 80, protocol: TCP}]"),
			},
			ports: "http/80/HTTP", endpoints: "http=192.0.2.1:80 http=192.0.2.2:80", problems: "b spec.location b spec.ports",
		},
		{
			name: "another resolution adds the endpoints that it can",
			objects: []string{
				entry("a", static+"endpoints: [{address: 192.0.2.1}], "+http),
				entry("b", "resolution: DNS, addresses: [198.51.100.2], endpoints: [{address: 192.0.2.2}, {address: b.example.com}], ports: [{name: http, number: 80, protocol: HTTP}, {name: tls, number: 443, protocol: TLS}]"),
			},
			ports: "http/80/HTTP", endpoints: "http=192.0.2.1:80 http=192.0.2.2:80", problems: "b spec.resolution",
		},
		{
			name: "resolved hosts have their own endpoints on their own ports",
			objects: []string{
				entry("a", "resolution: DNS, "+http),
				entry("b", "resolution: DNS, "+tls),
			},
			ports: "http/80/HTTP tls/443/TLS", endpoints: "http=h.example.com:80 tls=h.example.com:443",
		},
		{
			name: "round robin has one endpoint for a port",
			objects: []string{
				entry("a", "resolution: DNS_ROUND_ROBIN, "+http),
				entry("b", "resolution: DNS_ROUND_ROBIN, ports: [{name: http, number: 80, protocol: HTTP, targetPort: 81}, {name: tls, number: 443, protocol: TLS}]"),
			},
			ports: "http/80/HTTP tls/443/TLS", endpoints: "http=h.example.com:80 tls=h.example.com:443",
		},
		{
			name: "visible elsewhere: only endpoints are added",
			objects: []string{
				entry("a", static+"exportTo: ['.'], endpoints: [{address: 192.0.2.1}], "+http),
				entry("b", static+"endpoints: [{address: 192.0.2.2}], ports: [{name: http, number: 80, protocol: HTTP}, {name: tls, number: 443, protocol: TLS}]"),
			},
			ports: "http/80/HTTP", endpoints: "http=192.0.2.1:80 http=192.0.2.2:80", problems: "b spec.exportTo",
		},
		{
			name: "the same namespaces in another order are the same",
			objects: []string{
				entry("a", static+"exportTo: [x, '.'], endpoints: [{address: 192.0.2.1}], "+http),
				entry("b", static+"exportTo: ['.', x], endpoints: [{address: 192.0.2.2}], "+tls),
			},
			ports: "http/80/HTTP tls/443/TLS", endpoints: "http=192.0.2.1:80 tls=192.0.2.2:443",
		},
		{
			name: "selected beside listed",
			objects: []string{
				entry("a", static+"endpoints: [{address: 192.0.2.1}], "+http),
				entry("b", static+"workloadSelector: {labels: {app: vm}}, ports: [{name: web, number: 80, protocol: HTTP, targetPort: 8080}]"),
				"kind: WorkloadEntry\nmetadata: {name: vm}\nspec: {address: 192.0.2.7, labels: {app: vm}}",
			},
			ports: "http/80/HTTP", endpoints: "http=192.0.2.1:80 http=192.0.2.7:8080", problems: "b spec.workloadSelector",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			type outcome struct{ ports, addresses, endpoints, problems string }
			want := outcome{c.ports, c.addresses, c.endpoints, c.problems}
			events := func(text string) []mesh.Event {
				list, err := fixture.Decode([]byte(text))
				if err != nil {
					t.Fatal(err)
				}
				return fixture.Events(mesh.Upsert, list...)
			}
			all := events(strings.Join(c.objects, "\n---\n"))
			for range 2 {
				m := fixture.New(t, nil, nil)
				for _, e := range all {
					m.Send(e)
				}
				var got outcome
				got.ports, got.addresses, got.endpoints, got.problems = outline(m.Snapshot(), host)
				if diff := cmp.Diff(want, got, cmp.AllowUnexported(outcome{})); diff != "" {
					t.Errorf("-want +got:\n%s", diff)
				}
				slices.Reverse(all)
			}
		})
	}
}

// TestEntryOfKubernetesService: a ServiceEntry that has the host of a Service adds endpoints to it,
// and nothing else.
func TestEntryOfKubernetesService(t *testing.T) {
	const service = `
kind: Service
metadata: {name: web}
spec: {clusterIP: 10.0.0.1, selector: {app: web}, ports: [{name: http, port: 80, targetPort: 8080}]}
---
kind: Pod
metadata: {name: web-1, labels: {app: web}}
status: {podIP: 10.1.0.1}
---
kind: ServiceEntry
metadata: {name: vms}
spec:
  hosts: [web.default.svc.cluster.local]
  addresses: [198.51.100.1]
  resolution: STATIC
  ports: [{name: http, number: 8080, protocol: HTTP}, {name: admin, number: 9000, protocol: HTTP}]
  endpoints: [{address: 192.0.2.1}, {address: unix:///run/s}]
---
kind: ServiceEntry
metadata: {name: more}
spec:
  hosts: [web.default.svc.cluster.local]
  resolution: STATIC
  ports: [{name: http, number: 80, protocol: HTTP}]
  workloadSelector: {labels: {app: vm}}
---
kind: WorkloadEntry
metadata: {name: vm}
spec: {address: 192.0.2.7, labels: {app: vm}, ports: {http: 7000}}
`
	key := mesh.ServiceKey{Namespace: "default", Host: "web.default.svc.cluster.local"}
	m := fixture.New(t, []byte(service), nil)
	ports, addresses, endpoints, problems := outline(m.Snapshot(), key)
	if ports != "http/80/HTTP" || addresses != "10.0.0.1" || problems != "more spec.hosts vms spec.hosts" {
		t.Errorf("ports %q, addresses %q, problems %q", ports, addresses, problems)
	}
	if want := "http=10.1.0.1:8080 http=192.0.2.1:8080 http=192.0.2.7:7000"; endpoints != want {
		t.Errorf("endpoints %q, want %q", endpoints, want)
	}
	// Workloads that a ServiceEntry chooses which does not count itself come and go.
	s, d := m.Apply(t, "kind: WorkloadEntry\nmetadata: {name: vm}\nspec: {address: 192.0.2.8, labels: {app: vm}}")
	if _, _, endpoints, _ = outline(s, key); endpoints != "http=10.1.0.1:8080 http=192.0.2.1:8080 http=192.0.2.8:80" {
		t.Errorf("after the WorkloadEntry moved: %q", endpoints)
	}
	if _, told := d.Endpoints[key]; !told || len(d.Services) != 0 {
		t.Errorf("delta %+v", d)
	}
	// Without the Service the older entry takes precedence.
	s, _ = m.Delete(t, "kind: Service\nmetadata: {name: web}")
	ports, addresses, endpoints, problems = outline(s, key)
	if ports != "http/8080/HTTP admin/9000/HTTP" || addresses != "198.51.100.1" || problems != "more spec.workloadSelector" {
		t.Errorf("without the Service: ports %q, addresses %q, problems %q", ports, addresses, problems)
	}
	if !strings.Contains(endpoints, "unix:///run/s") {
		t.Errorf("without the Service: endpoints %q", endpoints)
	}
	m.Delete(t, "kind: ServiceEntry\nmetadata: {name: vms}\nspec: {}")
	s, _ = m.Delete(t, "kind: ServiceEntry\nmetadata: {name: more}\nspec: {}")
	if s.Service(key) != nil || len(s.Problems()) != 0 {
		t.Errorf("nothing is left, but %v and %v", s.Service(key), s.Problems())
	}
}

// TestSelection: Services choose WorkloadEntries and ServiceEntries pods, and both follow as either
// side changes.
func TestSelection(t *testing.T) {
	const text = `
kind: Service
metadata: {name: web}
spec: {clusterIP: 10.0.0.1, selector: {app: web}, ports: [{name: http, port: 80}]}
---
kind: ServiceEntry
metadata: {name: h}
spec:
  hosts: [h.example.com]
  resolution: STATIC
  ports: [{name: http, number: 80, protocol: HTTP, targetPort: 8080}]
  workloadSelector: {labels: {app: web}}
`
	service := mesh.ServiceKey{Namespace: "default", Host: "web.default.svc.cluster.local"}
	m := fixture.New(t, []byte(text), nil)
	for i, step := range []struct{ object, service, entry string }{
		{"kind: Pod\nmetadata: {name: p, labels: {app: web}}\nstatus: {podIP: 10.1.0.1}", "http=10.1.0.1:80", "http=10.1.0.1:8080"},
		{"kind: WorkloadEntry\nmetadata: {name: vm, labels: {app: web}}\nspec: {address: 192.0.2.1}", "http=10.1.0.1:80 http=192.0.2.1:80", "http=10.1.0.1:8080 http=192.0.2.1:8080"},
		{"kind: WorkloadEntry\nmetadata: {name: far, labels: {app: web}, namespace: other}\nspec: {address: 192.0.2.9}", "http=10.1.0.1:80 http=192.0.2.1:80", "http=10.1.0.1:8080 http=192.0.2.1:8080"},
		{"kind: Pod\nmetadata: {name: p, labels: {app: x}}\nstatus: {podIP: 10.1.0.1}", "http=192.0.2.1:80", "http=192.0.2.1:8080"},
		{"kind: WorkloadEntry\nmetadata: {name: vm}\nspec: {address: 192.0.2.1, labels: {app: web}, ports: {http: 9000}}", "http=192.0.2.1:9000", "http=192.0.2.1:9000"},
		{"kind: WorkloadEntry\nmetadata: {name: vm}\nspec: {address: 'unix:///s', labels: {app: web}}", "", "http=unix:///s:0"},
		{"kind: WorkloadEntry\nmetadata: {name: vm}\nspec: {address: vm.example.com, labels: {app: web}}", "", ""},
		{"kind: WorkloadEntry\nmetadata: {name: vm}\nspec: {network: far, labels: {app: web}}", "http=:80", "http=:8080"},
		{"kind: WorkloadEntry\nmetadata: {name: vm, annotations: {proxy.istio.io/health-checks-enabled: 'true'}}\nspec: {address: 192.0.2.1, labels: {app: web}}", "", ""},
		{"kind: WorkloadEntry\nmetadata: {name: vm, annotations: {proxy.istio.io/health-checks-enabled: 'true'}}\nspec: {address: 192.0.2.1, labels: {app: web}}\nstatus: {conditions: [{type: Healthy, status: 'True'}]}", "http=192.0.2.1:80", "http=192.0.2.1:8080"},
		{"kind: Service\nmetadata: {name: web}\nspec: {clusterIP: 10.0.0.1, selector: {app: x}, ports: [{name: http, port: 80}]}", "http=10.1.0.1:80", "http=192.0.2.1:8080"},
		{strings.Replace(text[strings.Index(text, "---")+4:], "app: web", "app: x", 1), "http=10.1.0.1:80", "http=10.1.0.1:8080"},
	} {
		s, _ := m.Apply(t, step.object)
		if _, _, got, _ := outline(s, service); got != step.service {
			t.Errorf("step %d: the Service has %q, want %q", i, got, step.service)
		}
		if _, _, got, _ := outline(s, host); got != step.entry {
			t.Errorf("step %d: the ServiceEntry has %q, want %q", i, got, step.entry)
		}
	}
}

// TestJoinedServiceNamesItsObjects checks that a joined service names the objects that it was built
// from, so that users can find the origin of a cluster.
func TestJoinedServiceNamesItsObjects(t *testing.T) {
	s := fixture.New(t, []byte(entry("a", "ports: [{name: a, number: 1}]")+entry("b", "subjectAltNames: [x], ports: [{name: b, number: 2}]")), nil).Snapshot()
	svc := s.Service(host)
	if diff := cmp.Diff([]config.Key{{Kind: "ServiceEntry", Namespace: "default", Name: "b"}}, svc.Also); diff != "" || svc.From.Name != "a" {
		t.Errorf("from %v, also (-want +got):\n%s", svc.From, diff)
	}
	if diff := cmp.Diff([]string{"x"}, svc.Accounts); diff != "" {
		t.Errorf("accounts (-want +got):\n%s", diff)
	}
}

// TestSettingsOfImports: a service of the cluster set whose cluster does not have the Service has the
// settings of the Service in another cluster, as long as that exists.
func TestSettingsOfImports(t *testing.T) {
	usual := mesh.ServiceKey{Namespace: "default", Host: "web.default.svc.cluster.local"}
	key := mesh.ServiceKey{Namespace: "default", Host: "web.default.svc.clusterset.local"}
	imported := mesh.Event{Service: mesh.Service{
		ServiceKey: key, Provider: mesh.Kubernetes, Cluster: "local", Name: "web", Resolution: mesh.Static, Addresses: []string{"10.0.0.1"},
		Ports: []mesh.Port{{Name: "port", Number: 80}}, SettingsOf: usual.Host, From: config.Key{Kind: "ServiceImport", Namespace: "default", Name: "web"},
	}.Sealed()}
	remote := func(edit func(*mesh.Service)) mesh.Event {
		s := mesh.Service{
			ServiceKey: usual, Provider: mesh.Kubernetes, Cluster: "remote", Name: "web", Resolution: mesh.Static, Addresses: []string{"10.9.0.1"},
			Ports: []mesh.Port{{Name: "http", Number: 80, Protocol: mesh.HTTP}}, ExportTo: []string{"."}, TrafficDistribution: "PreferClose",
			Accounts: []string{"a"}, Labels: map[string]string{"app": "web"}, Selector: map[string]string{"app": "web"}, SelectsWorkloadEntries: true,
			External: []string{"192.0.2.1"}, From: config.Key{Kind: "Service", Namespace: "default", Name: "web"},
		}
		edit(&s)
		return mesh.Event{Service: s.Sealed()}
	}
	same := func(*mesh.Service) {}
	gone, entry := remote(same), remote(func(s *mesh.Service) { s.Provider = mesh.External })
	gone.Op = mesh.Delete
	for _, c := range []struct {
		name   string
		events []mesh.Event
		want   string
	}{
		{"alone", []mesh.Event{imported}, "port [] []"},
		{"before the Service", []mesh.Event{imported, remote(same)}, "http [.] [a] PreferClose"},
		{"after the Service", []mesh.Event{remote(same), imported}, "http [.] [a] PreferClose"},
		{"with a changed Service", []mesh.Event{remote(same), imported, remote(func(s *mesh.Service) { s.ExportTo = nil })}, "http [] [a] PreferClose"},
		{"after the Service is deleted", []mesh.Event{remote(same), imported, gone}, "port [] []"},
		{"of a headless Service", []mesh.Event{imported, remote(func(s *mesh.Service) { s.Resolution = mesh.Passthrough })}, "port [] []"},
		{"beside a ServiceEntry of its usual host", []mesh.Event{imported, entry}, "port [] []"},
	} {
		b := snapshot.NewBuilder(snapshot.Options{Cluster: "local"})
		for _, e := range c.events {
			if _, d := b.Apply(e); len(d.Services) == 0 {
				t.Errorf("%s: %s changes no service", c.name, e.Service.Host)
			}
		}
		s := b.Current().Service(key)
		if got := strings.TrimSpace(fmt.Sprint(s.Ports[0].Name, " ", s.ExportTo, " ", s.Accounts, " ", s.TrafficDistribution)); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
		if s.Cluster != "local" || !slices.Equal(s.Addresses, []string{"10.0.0.1"}) || s.From.Kind != "ServiceImport" || s.Selector != nil || s.External != nil {
			t.Errorf("%s: %+v", c.name, s)
		}
	}
}

// TestServiceOfSeveralClusters: a Kubernetes Service is one service in all clusters. The local
// definition takes precedence. The others add accounts, and addresses for callers in their cluster,
// and all of it is removed with them.
func TestServiceOfSeveralClusters(t *testing.T) {
	key := mesh.ServiceKey{Namespace: "default", Host: "web.default.svc.cluster.local"}
	in := func(cluster mesh.ClusterID, address, account string, port uint32) mesh.Event {
		return mesh.Event{Service: mesh.Service{
			ServiceKey: key, Provider: mesh.Kubernetes, Cluster: cluster, Resolution: mesh.Static,
			Addresses: []string{address}, Accounts: []string{account}, Ports: []mesh.Port{{Name: "http", Number: port}},
			From: config.Key{Kind: "Service", Namespace: "default", Name: "web"},
		}.Sealed()}
	}
	local, remote, other := in("local", "10.0.0.1", "a", 80), in("remote", "10.9.0.1", "b", 81), in("other", "10.8.0.1", "c", 82)
	gone := remote
	gone.Op = mesh.Delete
	b := snapshot.NewBuilder(snapshot.Options{Cluster: "local"})
	for i, step := range []struct {
		event               mesh.Event
		addresses, accounts []string
		port                uint32
		home                mesh.ClusterID // of callers in the cluster "remote"
		known               []string       // addresses of the service for callers there
	}{
		{remote, []string{"10.9.0.1"}, []string{"b"}, 81, "", []string{"10.9.0.1"}},
		{local, []string{"10.0.0.1"}, []string{"a", "b"}, 80, "remote", []string{"10.9.0.1"}},
		{other, []string{"10.0.0.1"}, []string{"a", "c", "b"}, 80, "remote", []string{"10.9.0.1"}},
		{gone, []string{"10.0.0.1"}, []string{"a", "c"}, 80, "", []string{"10.0.0.1"}},
	} {
		before := b.Current()
		s, d := b.Apply(step.event)
		if s.HasSameVIPClusters(before) != (s.VIPCluster("remote") == before.VIPCluster("remote") && s.VIPCluster("other") == before.VIPCluster("other")) {
			t.Errorf("step %d: wrong set of clusters in which services have other addresses", i)
		}
		if len(d.Services) != 1 {
			t.Errorf("step %d: the delta is %+v", i, d)
		}
		if got := s.VIPCluster("remote"); got != step.home || s.VIPCluster("local") != "" {
			t.Errorf("step %d: the home of callers in remote is %q", i, got)
		}
		if got := s.ServiceForCluster(s.VIPCluster("remote"), s.Service(key)).Addresses; !slices.Equal(got, step.known) {
			t.Errorf("step %d: addresses for callers in remote = %v, want %v", i, got, step.known)
		}
		svc := s.Service(key)
		if !slices.Equal(svc.Addresses, step.addresses) || !slices.Equal(svc.Accounts, step.accounts) || svc.Ports[0].Number != step.port {
			t.Errorf("step %d: %v, %v, port %d", i, svc.Addresses, svc.Accounts, svc.Ports[0].Number)
		}
	}
}
