package view

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

func object(t *testing.T, kind api.Kind, namespace, name string, spec proto.Message) mesh.Event {
	t.Helper()
	c, err := config.New(config.Meta{Key: config.Key{Kind: kind, Namespace: namespace, Name: name}, Created: time.Unix(1, 0)}, spec)
	if err != nil {
		t.Fatal(err)
	}
	return mesh.Event{Config: c}
}

func service(namespace, name string, edit ...func(*mesh.Service)) mesh.Event {
	s := mesh.Service{
		ServiceKey: mesh.ServiceKey{Namespace: namespace, Host: mesh.Hostname(name + "." + namespace + ".svc.cluster.local")},
		Provider:   mesh.Kubernetes, Name: name, Resolution: mesh.Static,
		Ports: []mesh.Port{{Name: "http", Number: 80, Protocol: mesh.HTTP, Target: 8080}},
	}
	for _, f := range edit {
		f(&s)
	}
	return mesh.Event{Service: s.Sealed()}
}

func pod(namespace, name, ip string, labels map[string]string) mesh.Event {
	return mesh.Event{Workload: mesh.Workload{
		Provider: mesh.Kubernetes, Namespace: namespace, Name: name, Addresses: []string{ip}, Labels: labels,
		ContainerPorts: mesh.NamedPorts{{Name: "web", Number: 9090}},
	}.Sealed()}
}

func proxy(namespace, name, ip string) *mesh.Proxy {
	return &mesh.Proxy{
		Type: mesh.SidecarProxy, Namespace: namespace, Name: name, Addresses: []netip.Addr{netip.MustParseAddr(ip)},
		DNSDomain: namespace + ".svc.cluster.local",
	}
}

func apply(events ...mesh.Event) *snapshot.Snapshot {
	s, _ := snapshot.NewBuilder(snapshot.Options{}).Apply(events...)
	return s
}

func hosts(v *View) []string {
	list := []string{}
	for _, s := range v.Services {
		list = append(list, string(s.Host))
	}
	return list
}

func TestAlikeProxiesShareAKey(t *testing.T) {
	app := map[string]string{"app": "web"}
	s := apply(
		service("shop", "web", func(s *mesh.Service) { s.Selector = app }),
		pod("shop", "web-1", "10.0.0.1", map[string]string{"app": "web", "pod-template-hash": "1"}),
		pod("shop", "web-2", "10.0.0.2", map[string]string{"app": "web", "pod-template-hash": "2"}),
		pod("shop", "cart-1", "10.0.0.3", map[string]string{"app": "cart"}),
	)
	one, two, cart := KeyFor(s, proxy("shop", "web-1", "10.0.0.1")), KeyFor(s, proxy("shop", "web-2", "10.0.0.2")), KeyFor(s, proxy("shop", "cart-1", "10.0.0.3"))
	if one != two {
		t.Errorf("two pods of a Deployment differ:\n%s", cmp.Diff(one, two, cmp.AllowUnexported(Key{})))
	}
	if one == cart {
		t.Error("pods of two services have one Key")
	}
}

func TestInstancesOfAProxy(t *testing.T) {
	app := map[string]string{"app": "web"}
	entry := mesh.Service{
		ServiceKey: mesh.ServiceKey{Namespace: "shop", Host: "web.example.com"}, Provider: mesh.External, Resolution: mesh.Static,
		Ports: []mesh.Port{{Name: "tcp", Number: 9000, Protocol: mesh.TCP}},
	}
	s := apply(
		service("shop", "web", func(s *mesh.Service) { s.Selector = app }),
		service("shop", "named", func(s *mesh.Service) {
			s.Selector, s.Ports = app, []mesh.Port{{Name: "http", Number: 81, Protocol: mesh.HTTP, TargetName: "web"}}
		}),
		service("shop", "dns", func(s *mesh.Service) {
			s.Selector, s.Ports = app, []mesh.Port{{Name: "dns", Number: 53, Protocol: mesh.UDP, Target: 53}}
		}),
		service("other", "web", func(s *mesh.Service) { s.Selector = app }),
		// not ready: its listeners must exist nevertheless
		pod("shop", "web-1", "10.0.0.1", app),
		mesh.Event{Service: entry.Sealed()},
		mesh.Event{Shard: mesh.Shard{Service: entry.ServiceKey, Endpoints: []*mesh.Endpoint{{Address: "10.0.0.1", Port: 9001, ServicePort: "tcp"}}}.Sealed()},
	)
	v := Build(s, KeyFor(s, proxy("shop", "web-1", "10.0.0.1")))
	var got []string
	for _, i := range v.Inbound {
		got = append(got, string(i.Service.Host)+" "+i.Port.Name+" "+mesh.ClusterName{Direction: mesh.Inbound, Port: i.TargetPort}.String())
	}
	want := []string{
		"web.shop.svc.cluster.local http inbound|8080||",
		"web.example.com tcp inbound|9001||",
		"named.shop.svc.cluster.local http inbound|9090||",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestProxyOfAnUnknownPodUsesItsOwnLabels(t *testing.T) {
	s := apply(service("shop", "web", func(s *mesh.Service) { s.Selector = map[string]string{"app": "web"} }))
	p := proxy("shop", "web-1", "10.0.0.1")
	p.Labels = map[string]string{"app": "web"}
	if v := Build(s, KeyFor(s, p)); len(v.Inbound) != 1 {
		t.Errorf("inbound %v", v.Inbound)
	}
}

func TestVisibility(t *testing.T) {
	exportTo := func(to ...string) func(*mesh.Service) {
		return func(s *mesh.Service) { s.ExportTo = to }
	}
	s := apply(service("a", "public"), service("a", "private", exportTo(".")), service("a", "nowhere", exportTo("~")),
		service("a", "shared", exportTo("b")), service("a", "hidden", exportTo(".", "b", "~")), service("a", "wide", exportTo("*", "~")))
	for namespace, want := range map[string][]string{
		"a": {"private.a.svc.cluster.local", "public.a.svc.cluster.local", "wide.a.svc.cluster.local"},
		"b": {"public.a.svc.cluster.local", "shared.a.svc.cluster.local", "wide.a.svc.cluster.local"},
		"c": {"public.a.svc.cluster.local", "wide.a.svc.cluster.local"},
	} {
		if diff := cmp.Diff(want, hosts(Build(s, KeyFor(s, proxy(namespace, "p", "10.0.0.1"))))); diff != "" {
			t.Errorf("seen from %s (-want +got):\n%s", namespace, diff)
		}
	}
}

func TestSidecarSelection(t *testing.T) {
	sidecar := func(ns, name string, labels map[string]string) mesh.Event {
		spec := &networking.Sidecar{}
		if labels != nil {
			spec.WorkloadSelector = &networking.WorkloadSelector{Labels: labels}
		}
		return object(t, api.Sidecar, ns, name, spec)
	}
	s := apply(sidecar("istio-system", "root", nil), sidecar("shop", "all", nil), sidecar("shop", "web", map[string]string{"app": "web"}),
		pod("shop", "web", "10.0.0.1", map[string]string{"app": "web"}))
	for _, tt := range []struct{ namespace, ip, want string }{
		{"shop", "10.0.0.1", "web"}, {"shop", "10.0.0.2", "all"}, {"other", "10.0.0.3", "root"},
	} {
		if got := KeyFor(s, proxy(tt.namespace, "web", tt.ip)).Sidecar.Name; got != tt.want {
			t.Errorf("proxy of %s at %s: Sidecar %q, want %q", tt.namespace, tt.ip, got, tt.want)
		}
	}
}

func TestEgressHosts(t *testing.T) {
	all := []mesh.Event{
		service("shop", "web"), service("shop", "cart"), service("bank", "pay"), service("bank", "audit"),
		object(t, api.VirtualService, "shop", "pay", &networking.VirtualService{
			Hosts: []string{"pay.bank.svc.cluster.local"},
			Http:  []*networking.HTTPRoute{{Route: []*networking.HTTPRouteDestination{{Destination: &networking.Destination{Host: "audit.bank.svc.cluster.local"}}}}},
		}),
	}
	for _, tt := range []struct {
		name  string
		hosts []string
		want  []string
	}{
		// The namespace's own VirtualService comes along, and with it the service that it routes
		// to.
		{"own namespace", []string{"./*"}, []string{
			"audit.bank.svc.cluster.local", "cart.shop.svc.cluster.local", "web.shop.svc.cluster.local",
		}},
		{"one host", []string{"*/web.shop.svc.cluster.local"}, []string{"web.shop.svc.cluster.local"}},
		{"another namespace", []string{"bank/*"}, []string{"audit.bank.svc.cluster.local", "pay.bank.svc.cluster.local"}},
		{"a wildcard host", []string{"*/*.bank.svc.cluster.local"}, []string{
			"audit.bank.svc.cluster.local", "pay.bank.svc.cluster.local",
		}},
		{"nothing", []string{"~/*"}, []string{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := apply(append(all, object(t, api.Sidecar, "shop", "s", &networking.Sidecar{
				Egress: []*networking.IstioEgressListener{{Hosts: tt.hosts}},
			}))...)
			if diff := cmp.Diff(tt.want, hosts(Build(s, KeyFor(s, proxy("shop", "p", "10.0.0.9"))))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestTargetsOfImportedRulesAreVisible(t *testing.T) {
	s := apply(service("bank", "pay"), service("bank", "audit"),
		object(t, api.VirtualService, "shop", "pay", &networking.VirtualService{
			Hosts: []string{"pay.bank.svc.cluster.local"},
			Http:  []*networking.HTTPRoute{{Route: []*networking.HTTPRouteDestination{{Destination: &networking.Destination{Host: "audit.bank.svc.cluster.local"}}}}},
		}),
		object(t, api.Sidecar, "shop", "s", &networking.Sidecar{
			Egress: []*networking.IstioEgressListener{{Hosts: []string{"./pay.bank.svc.cluster.local", "bank/pay.bank.svc.cluster.local"}}},
		}))
	v := Build(s, KeyFor(s, proxy("shop", "p", "10.0.0.9")))
	if diff := cmp.Diff([]string{"audit.bank.svc.cluster.local", "pay.bank.svc.cluster.local"}, hosts(v)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestEgressListenersImport checks which services the egress listeners of a Sidecar import, and
// which are imported only because routes refer to them.
func TestEgressListenersImport(t *testing.T) {
	ports := func(numbers ...uint32) func(*mesh.Service) {
		return func(s *mesh.Service) {
			s.Ports = nil
			for _, n := range numbers {
				s.Ports = append(s.Ports, mesh.Port{Name: fmt.Sprint("http-", n), Number: n, Protocol: mesh.HTTP, Target: 8080})
			}
		}
	}
	leads := func(destinations ...*networking.Destination) *networking.VirtualService {
		vs := &networking.VirtualService{Hosts: []string{"web"}, Http: []*networking.HTTPRoute{{}}}
		for _, d := range destinations {
			vs.Http[0].Route = append(vs.Http[0].Route, &networking.HTTPRouteDestination{Destination: d})
		}
		return vs
	}
	to := func(host string, port uint32) *networking.Destination {
		d := &networking.Destination{Host: host + ".bank.svc.cluster.local"}
		if port != 0 {
			d.Port = &networking.PortSelector{Number: port}
		}
		return d
	}
	elsewhere := leads(to("pay", 0))
	elsewhere.Http[0].Match = []*networking.HTTPMatchRequest{{SourceNamespace: "bank"}}
	on := func(port uint32, protocol string) *networking.SidecarPort {
		return &networking.SidecarPort{Number: port, Protocol: protocol, Name: "x"}
	}
	for _, tt := range []struct {
		name   string
		rule   *networking.VirtualService
		egress []*networking.IstioEgressListener
		// want has for each listener the hosts that it imports; clusters are HOST:PORT.
		want     [][]string
		clusters []string
	}{
		{"a route destination", leads(to("pay", 0)), []*networking.IstioEgressListener{{Hosts: []string{"./*"}}},
			[][]string{{"web.shop"}}, []string{"pay.bank:80", "pay.bank:81", "web.shop:80"}},
		{"a port of it", leads(to("pay", 81)), []*networking.IstioEgressListener{{Hosts: []string{"./*"}}},
			[][]string{{"web.shop"}}, []string{"pay.bank:81", "web.shop:80"}},
		{"two ports of it", leads(to("pay", 81), to("pay", 80)), []*networking.IstioEgressListener{{Hosts: []string{"./*"}}},
			[][]string{{"web.shop"}}, []string{"pay.bank:80", "pay.bank:81", "web.shop:80"}},
		{"a port that it does not have", leads(to("pay", 82)), []*networking.IstioEgressListener{{Hosts: []string{"./*"}}},
			[][]string{{"web.shop"}}, []string{"web.shop:80"}},
		{"a route for another namespace", elsewhere, []*networking.IstioEgressListener{{Hosts: []string{"./*"}}},
			[][]string{{"web.shop"}}, []string{"web.shop:80"}},
		{"a listener with a port", nil, []*networking.IstioEgressListener{{Port: on(81, "HTTP"), Hosts: []string{"*/*"}}},
			[][]string{{"audit.bank", "pay.bank"}}, []string{"audit.bank:81", "pay.bank:81"}},
		{"a listener with a port and one without", nil,
			[]*networking.IstioEgressListener{{Port: on(81, "HTTP"), Hosts: []string{"bank/*"}}, {Hosts: []string{"*/pay.bank.svc.cluster.local"}}},
			[][]string{{"audit.bank", "pay.bank"}, {"pay.bank"}}, []string{"audit.bank:81", "pay.bank:80", "pay.bank:81"}},
		{"an HTTP proxy", nil, []*networking.IstioEgressListener{{Port: on(3128, "HTTP_PROXY"), Hosts: []string{"bank/*"}}},
			[][]string{{"audit.bank", "pay.bank"}}, []string{"audit.bank:81", "pay.bank:80", "pay.bank:81"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			events := []mesh.Event{
				service("shop", "web", ports(80)), service("bank", "pay", ports(80, 81)), service("bank", "audit", ports(81)),
				object(t, api.Sidecar, "shop", "s", &networking.Sidecar{Egress: tt.egress}),
			}
			if tt.rule != nil {
				events = append(events, object(t, api.VirtualService, "shop", "rule", tt.rule))
			}
			s := apply(events...)
			v := Build(s, KeyFor(s, proxy("shop", "p", "10.0.0.9")))
			short := func(h mesh.Hostname) string { return strings.TrimSuffix(string(h), ".svc.cluster.local") }
			var imported [][]string
			for _, e := range v.Egress {
				var list []string
				for _, svc := range e.Services {
					list = append(list, short(svc.Host))
				}
				imported = append(imported, list)
			}
			if diff := cmp.Diff(tt.want, imported); diff != "" {
				t.Errorf("services of the listeners (-want +got):\n%s", diff)
			}
			var clusters []string
			for _, svc := range v.Services {
				for _, p := range svc.Ports {
					if v.ImportsPort(svc.Host, p.Number) {
						clusters = append(clusters, fmt.Sprintf("%s:%d", short(svc.Host), p.Number))
					}
				}
			}
			if diff := cmp.Diff(tt.clusters, clusters); diff != "" {
				t.Errorf("ports of all services (-want +got):\n%s", diff)
			}
		})
	}
}

// TestSinceNoticesImportedPorts tests that Since reports a service whose imported ports alone have
// changed.
func TestSinceNoticesImportedPorts(t *testing.T) {
	b := snapshot.NewBuilder(snapshot.Options{})
	rule := func(port uint32) mesh.Event {
		return object(t, api.VirtualService, "shop", "rule", &networking.VirtualService{Hosts: []string{"web"}, Http: []*networking.HTTPRoute{{
			Route: []*networking.HTTPRouteDestination{{Destination: &networking.Destination{
				Host: "pay.bank.svc.cluster.local", Port: &networking.PortSelector{Number: port},
			}}},
		}}})
	}
	pay := service("bank", "pay", func(s *mesh.Service) {
		s.Ports = []mesh.Port{{Name: "http-80", Number: 80, Protocol: mesh.HTTP}, {Name: "http-81", Number: 81, Protocol: mesh.HTTP}}
	})
	s, _ := b.Apply(service("shop", "web"), pay, rule(80), object(t, api.Sidecar, "shop", "s", &networking.Sidecar{
		Egress: []*networking.IstioEgressListener{{Hosts: []string{"./*"}}},
	}))
	old := Build(s, KeyFor(s, proxy("shop", "p", "10.0.0.9")))
	next, d := b.Apply(rule(81))
	diff, ok := Build(next, old.Key).DiffSince(old, d)
	if want := []mesh.Hostname{"pay.bank.svc.cluster.local"}; !ok || !slices.Equal(diff.Services, want) {
		t.Errorf("services %v, known %v; want %v", diff.Services, ok, want)
	}
}

func TestOnlyMatchingSourceLabelsAreInTheKey(t *testing.T) {
	vs := object(t, api.VirtualService, "shop", "web", &networking.VirtualService{
		Hosts: []string{"web"},
		Http:  []*networking.HTTPRoute{{Match: []*networking.HTTPMatchRequest{{SourceLabels: map[string]string{"app": "cart"}}}}},
	})
	s := apply(vs, service("shop", "web"), pod("shop", "cart", "10.0.0.1", map[string]string{"app": "cart", "x": "1"}),
		pod("shop", "else", "10.0.0.2", map[string]string{"app": "else"}))
	cart, other := Build(s, KeyFor(s, proxy("shop", "cart", "10.0.0.1"))), Build(s, KeyFor(s, proxy("shop", "else", "10.0.0.2")))
	if !cart.SourceMatches(map[string]string{"app": "cart"}, "") || cart.SourceMatches(map[string]string{"app": "cart"}, "bank") {
		t.Error("the proxy with the labels: matches wrongly")
	}
	if other.SourceMatches(map[string]string{"app": "cart"}, "") || !other.SourceMatches(nil, "shop") {
		t.Error("the proxy without the labels: matches wrongly")
	}
}

func TestOneServicePerHostname(t *testing.T) {
	entry := func(ns string, created int64) mesh.Event {
		return mesh.Event{Service: mesh.Service{
			ServiceKey: mesh.ServiceKey{Namespace: ns, Host: "ext.example.com"}, Provider: mesh.External, Created: time.Unix(created, 0),
		}.Sealed()}
	}
	s := apply(entry("a", 5), entry("b", 1), entry("c", 9))
	for namespace, want := range map[string]string{"a": "a", "c": "c", "d": "b"} {
		v := Build(s, KeyFor(s, proxy(namespace, "p", "10.0.0.1")))
		if len(v.Services) != 1 || v.Service("ext.example.com").Namespace != want {
			t.Errorf("seen from %s: %s's, want %s's", namespace, v.Service("ext.example.com").Namespace, want)
		}
	}
}

// TestOwnAndExportedServicesOfOneHost tests which of several ServiceEntries of a host takes
// precedence. Sidecars use the ServiceEntry of their own namespace. Without one, and for gateways,
// a ServiceEntry that is not exported to all namespaces precedes, then the oldest.
func TestOwnAndExportedServicesOfOneHost(t *testing.T) {
	const host = "api.example.com"
	entry := func(ns string, created int64, to ...string) mesh.Event {
		return mesh.Event{Service: mesh.Service{
			ServiceKey: mesh.ServiceKey{Namespace: ns, Host: host}, Provider: mesh.External, Created: time.Unix(created, 0), ExportTo: to,
		}.Sealed()}
	}
	sidecar := object(t, api.Sidecar, "gw", "s", &networking.Sidecar{Egress: []*networking.IstioEgressListener{{Hosts: []string{"*/*"}}}})
	for _, tt := range []struct {
		name             string
		objects          []mesh.Event
		gateway, sidecar string
	}{
		{"a public one of its own namespace, and an older one", []mesh.Event{entry("a", 1), entry("gw", 5)}, "a", "gw"},
		{"a private one of its own namespace, and an older one", []mesh.Event{entry("a", 1), entry("gw", 5, ".")}, "gw", "gw"},
		{"one for its namespace, and an older one for all", []mesh.Event{entry("a", 1, "*"), entry("b", 5, "gw")}, "b", "b"},
		{"one for all and its namespace, and an older one for all", []mesh.Event{entry("a", 1), entry("b", 5, "gw", "*")}, "a", "a"},
		{"two for its namespace", []mesh.Event{entry("b", 5, "gw"), entry("c", 3, "gw", "x")}, "c", "c"},
		{"as by default, of which one is for all", []mesh.Event{
			{Settings: &mesh.Settings{Mesh: &meshconfig.MeshConfig{DefaultServiceExportTo: []string{"gw"}}}}, entry("a", 1, "*"), entry("b", 5),
		}, "b", "b"},
		{"a Sidecar", []mesh.Event{entry("a", 1, "*"), entry("b", 5, "gw"), sidecar}, "b", "b"},
	} {
		s := apply(tt.objects...)
		for kind, want := range map[mesh.ProxyType]string{mesh.RouterProxy: tt.gateway, mesh.SidecarProxy: tt.sidecar} {
			p := proxy("gw", "p", "10.0.0.1")
			p.Type = kind
			if got := Build(s, KeyFor(s, p)).Service(host).Namespace; got != want {
				t.Errorf("%s: a %s uses the service of namespace %s, want %s", tt.name, kind, got, want)
			}
		}
	}
}

// TestKubernetesServiceAndServiceEntriesOfOneHost tests which service of a hostname takes
// precedence: for sidecars that of their own namespace before that of Kubernetes, for gateways that
// of Kubernetes.
func TestKubernetesServiceAndServiceEntriesOfOneHost(t *testing.T) {
	const host = "web.shop.svc.cluster.local"
	entry := func(ns string, created int64) mesh.Event {
		return mesh.Event{Service: mesh.Service{
			ServiceKey: mesh.ServiceKey{Namespace: ns, Host: host}, Provider: mesh.External, Created: time.Unix(created, 0),
		}.Sealed()}
	}
	s := apply(entry("old", 1), entry("own", 9), service("shop", "web", func(s *mesh.Service) { s.Created = time.Unix(5, 0) }),
		object(t, api.Sidecar, "own", "s", &networking.Sidecar{
			WorkloadSelector: &networking.WorkloadSelector{Labels: map[string]string{"app": "narrow"}},
			Egress:           []*networking.IstioEgressListener{{Hosts: []string{"*/*"}}},
		}),
		object(t, api.Sidecar, "own", "t", &networking.Sidecar{
			WorkloadSelector: &networking.WorkloadSelector{Labels: map[string]string{"app": "other"}},
			Egress:           []*networking.IstioEgressListener{{Hosts: []string{"shop/*"}}},
		}))
	for _, tt := range []struct {
		name, namespace, app string
		kind                 mesh.ProxyType
		want                 string
	}{
		{"a sidecar", "own", "", mesh.SidecarProxy, "own"},
		{"a sidecar whose Sidecar imports both", "own", "narrow", mesh.SidecarProxy, "own"},
		{"a sidecar whose Sidecar imports the other", "own", "other", mesh.SidecarProxy, "shop"},
		{"a sidecar elsewhere", "else", "", mesh.SidecarProxy, "shop"},
		{"a gateway", "own", "", mesh.RouterProxy, "shop"},
	} {
		p := proxy(tt.namespace, "p", "10.0.0.1")
		p.Type, p.Labels = tt.kind, map[string]string{"app": tt.app}
		if got := Build(s, KeyFor(s, p)).Service(host).Namespace; got != tt.want {
			t.Errorf("%s: the service of namespace %s is used, want %s", tt.name, got, tt.want)
		}
	}
}

func TestTouched(t *testing.T) {
	s := apply(service("a", "web"), service("b", "hidden", func(s *mesh.Service) { s.ExportTo = []string{"."} }))
	key := KeyFor(s, proxy("a", "p", "10.0.0.1"))
	key.Sidecar = config.Key{Kind: api.Sidecar, Namespace: "istio-system", Name: "x"}
	v := Build(s, key)
	endpoints := func(ns, name string) snapshot.Delta {
		k := mesh.ServiceKey{Namespace: ns, Host: mesh.Hostname(name + "." + ns + ".svc.cluster.local")}
		return snapshot.Delta{Endpoints: map[mesh.ServiceKey]struct{}{k: {}}}
	}
	configs := func(kind api.Kind, ns string) snapshot.Delta {
		return snapshot.Delta{Configs: map[config.Key]struct{}{{Kind: kind, Namespace: ns, Name: "x"}: {}}}
	}
	for name, tt := range map[string]struct {
		delta snapshot.Delta
		want  bool
	}{
		"everything":           {snapshot.Delta{All: true}, true},
		"endpoints seen":       {endpoints("a", "web"), true},
		"endpoints hidden":     {endpoints("b", "hidden"), false},
		"a rule":               {configs(api.DestinationRule, "z"), true},
		"a Sidecar elsewhere":  {configs(api.Sidecar, "z"), false},
		"a kind of no effect":  {configs(api.WasmPlugin, "a"), false},
		"a workload":           {snapshot.Delta{Workloads: map[netip.Addr]struct{}{netip.MustParseAddr("10.0.0.1"): {}}}, false},
		"the attached Sidecar": {configs(api.Sidecar, "istio-system"), true},
		"another Sidecar":      {configs(api.Sidecar, "a"), false},
	} {
		if got := v.IsAffectedBy(tt.delta); got != tt.want {
			t.Errorf("%s: touched %v", name, got)
		}
	}
}
