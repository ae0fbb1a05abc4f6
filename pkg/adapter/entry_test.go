package adapter_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/pkg/adapter"
)

func webService() adapter.Service {
	return adapter.Service{
		ServiceKey:      adapter.ServiceKey{Namespace: "shop", Name: "web"},
		Hosts:           []string{"Web.shop.example.", "web.example"},
		Ports:           []adapter.Port{{Name: "http", Number: 80, Protocol: "http", TargetPort: 8080}},
		Addresses:       []string{"240.0.0.1"},
		SubjectAltNames: []string{"web.internal"},
		Labels:          map[string]string{"team": "a"},
		Instances: []adapter.Instance{
			{ID: "b", Address: "10.0.0.2", Ports: map[string]uint32{"http": 31000}, Labels: map[string]string{"version": "v2"}},
			{ID: "a", Address: "::ffff:10.0.0.1", Weight: 3, Locality: "r/z", Network: "n", ServiceAccount: "web"},
			{ID: "c", Address: "10.0.0.3", Health: adapter.Unhealthy},
			{ID: "d", Address: "10.0.0.4", Health: adapter.Draining},
		},
	}
}

// newEntry returns the only ServiceEntry of a service, or an empty Entry if the service is refused.
func newEntry(t *testing.T, s adapter.Service) (adapter.Entry, []adapter.FieldError) {
	t.Helper()
	entries, problems := adapter.NewEntries("Marathon", s)
	if len(entries) > 1 {
		t.Fatalf("%d entries", len(entries))
	}
	return append(entries, adapter.Entry{})[0], problems
}

func TestNewEntries(t *testing.T) {
	got, problems := newEntry(t, webService())
	if len(problems) > 0 {
		t.Fatalf("a valid service has problems: %v", problems)
	}
	want := adapter.Entry{
		Namespace: "shop", Name: "marathon-web", Labels: map[string]string{"team": "a"},
		Annotations: map[string]string{adapter.PlatformAnnotation: "Marathon", adapter.ServiceAnnotation: "web"},
		Spec: &networking.ServiceEntry{
			Hosts: []string{"web.shop.example", "web.example"}, Addresses: []string{"240.0.0.1"},
			SubjectAltNames: []string{"web.internal"},
			Ports:           []*networking.ServicePort{{Name: "http", Number: 80, Protocol: "HTTP", TargetPort: 8080}},
			Location:        networking.ServiceEntry_MESH_INTERNAL, Resolution: networking.ServiceEntry_STATIC,
			Endpoints: []*networking.WorkloadEntry{
				{Address: "10.0.0.1", Weight: 3, Locality: "r/z", Network: "n", ServiceAccount: "web"},
				{Address: "10.0.0.2", Ports: map[string]uint32{"http": 31000}, Labels: map[string]string{"version": "v2"}},
			},
		},
	}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestNewEntriesUsesDNSForNames(t *testing.T) {
	s := webService()
	s.Instances = append(s.Instances, adapter.Instance{ID: "e", Address: "Node1.Example."})
	got, problems := newEntry(t, s)
	if len(problems) > 0 || got.Spec.GetResolution() != networking.ServiceEntry_DNS ||
		got.Spec.GetEndpoints()[2].GetAddress() != "node1.example" {
		t.Errorf("%v, problems %v", got.Spec, problems)
	}
}

func TestNewEntriesProblems(t *testing.T) {
	for _, c := range []struct {
		name    string
		edit    func(*adapter.Service)
		want    string
		refused bool
		left    int // endpoints
	}{
		{"no host", func(s *adapter.Service) { s.Hosts = nil }, "hosts: no valid host", true, 0},
		{"address as host", func(s *adapter.Service) { s.Hosts[0] = "10.0.0.1" }, `hosts[0]: "10.0.0.1" is not a DNS name`, false, 2},
		{"no port", func(s *adapter.Service) { s.Ports = nil }, "ports: no valid port", true, 0},
		{"port 0", func(s *adapter.Service) { s.Ports[0].Number = 0 }, "ports[0].number: 0 is not a port number", true, 0},
		{"target port", func(s *adapter.Service) { s.Ports[0].TargetPort = 70000 }, "ports[0].targetPort: 70000 is not a port number", true, 0},
		{"port without a name", func(s *adapter.Service) { s.Ports[0].Name = "" }, "ports[0].name: is empty", true, 0},
		{"two ports of one number", func(s *adapter.Service) {
			s.Ports = append(s.Ports, adapter.Port{Name: "x", Number: 80})
		}, "ports[1]: x 80 has the name or number of another port", false, 2},
		{"virtual address", func(s *adapter.Service) { s.Addresses[0] = "x" }, `addresses[0]: "x" is neither an IP address nor a CIDR`, false, 2},
		{"namespace", func(s *adapter.Service) { s.Namespace = "a/b" }, `namespace: "a/b" is not a DNS label`, true, 0},
		{"no name", func(s *adapter.Service) { s.Name = "" }, "name: is empty", true, 0},
		{"too many hosts", func(s *adapter.Service) { s.Hosts = make([]string, adapter.MaxHosts+1) }, "hosts: 65 exceed the limit of 64", true, 0},
		{"too many instances", func(s *adapter.Service) {
			s.Instances = make([]adapter.Instance, adapter.MaxInstances+1)
		}, "instances: 65537 exceed the limit of 65536", true, 0},
		{"instance without address", func(s *adapter.Service) { s.Instances[0].Address = "" }, "instances[b].address: is missing", false, 1},
		{"instance with a bad address", func(s *adapter.Service) { s.Instances[0].Address = "10.0.0" }, `instances[b].address: "10.0.0" is neither`, false, 1},
		{"unspecified address", func(s *adapter.Service) { s.Instances[0].Address = "0.0.0.0" }, `instances[b].address: "0.0.0.0" is neither`, false, 1},
		{"two instances of one ID", func(s *adapter.Service) { s.Instances[0].ID = "a" }, "instances[a]: another instance has the same ID", false, 1},
		{"instance without ID", func(s *adapter.Service) { s.Instances[0].ID = "" }, "instances: an instance has no ID", false, 1},
		{"port of an instance", func(s *adapter.Service) { s.Instances[0].Ports["http"] = 0 }, "instances[b].ports[http]: 0 is not a port number", false, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := webService()
			c.edit(&s)
			got, problems := newEntry(t, s)
			found := false
			for _, p := range problems {
				found = found || strings.Contains(p.Error(), c.want)
			}
			if !found {
				t.Errorf("problems %v, want %q", problems, c.want)
			}
			if (got.Spec == nil) != c.refused || len(got.Spec.GetEndpoints()) != c.left {
				t.Errorf("entry %v; want refused=%v with %d endpoints", got.Spec, c.refused, c.left)
			}
		})
	}
}

// TestNewEntriesOfLargeService splits a service with more endpoints than a ServiceEntry can have.
func TestNewEntriesOfLargeService(t *testing.T) {
	s := webService()
	s.Instances = nil
	const n = 10_000
	for i := range n {
		s.Instances = append(s.Instances, adapter.Instance{ID: fmt.Sprintf("%05d", i), Address: fmt.Sprintf("10.0.%d.%d", i>>8, i&255)})
	}
	entries, problems := adapter.NewEntries("Marathon", s)
	names, addresses := map[string]bool{}, map[string]bool{}
	for _, e := range entries {
		names[e.Name] = true
		for _, x := range e.Spec.GetEndpoints() {
			addresses[x.GetAddress()] = true
		}
		if len(e.Spec.GetEndpoints()) > 4096 || !slices.Equal(e.Spec.GetHosts(), entries[0].Spec.GetHosts()) || len(e.Spec.GetPorts()) != 1 {
			t.Errorf("entry %s: hosts %v, ports %v, %d endpoints", e.Name, e.Spec.GetHosts(), e.Spec.GetPorts(), len(e.Spec.GetEndpoints()))
		}
	}
	if len(problems) > 0 || len(entries) != 3 || len(names) != 3 || len(addresses) != n || !names["marathon-web"] {
		t.Errorf("%d entries with %d addresses: %v; problems %v", len(entries), len(addresses), names, problems)
	}
}

func TestEntryName(t *testing.T) {
	for _, valid := range []string{"web", "web.shop-1"} {
		if got := adapter.EntryName("P", valid); got != "p-"+valid {
			t.Errorf("EntryName(%q) = %q", valid, got)
		}
	}
	seen := map[string]string{}
	for _, name := range []string{"/team/web", "/team-web", "Team/web", "a_b", "A_b", "日本", "", strings.Repeat("a", 300), strings.Repeat("a", 301)} {
		got := adapter.EntryName("P", name)
		if other, found := seen[got]; found || len(got) > 63 || strings.Trim(got, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
			t.Errorf("EntryName(%q) = %q, as for %q", name, got, other)
		}
		seen[got] = name
	}
}
