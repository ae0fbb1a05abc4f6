package consul

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/consul/api"
	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/base/recovery"
	"github.com/meshpilot/meshpilot/internal/ingest/registry"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/conform"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// The answers of Consul's /v1/health/service/NAME, as the HTTP interface writes them.
const (
	webEntries = `[
	{"Node": {"ID": "n1", "Node": "node-1", "Address": "192.0.2.1", "Datacenter": "dc1", "Meta": {"region": "r1", "zone": "z1", "subzone": "s1"}},
	 "Service": {"ID": "web-1", "Service": "web", "Port": 8080, "Tags": ["v1", "version|v1"], "Meta": {"protocol": "http", "team": "a"},
	   "Weights": {"Passing": 10, "Warning": 3}, "TaggedAddresses": {"virtual": {"Address": "198.51.100.1", "Port": 80}}},
	 "Checks": [{"CheckID": "serfHealth", "Status": "passing", "Output": "alive"}, {"CheckID": "service:web-1", "Status": "warning"}]},
	{"Node": {"ID": "n2", "Node": "node-2", "Address": "192.0.2.2", "Datacenter": "dc1"},
	 "Service": {"ID": "web-2", "Service": "web", "Address": "192.0.2.20", "Port": 9090, "Meta": {"protocol": "http", "team": "a", "service-account": "web"},
	   "TaggedAddresses": {"virtual": {"Address": "198.51.100.1", "Port": 80}}},
	 "Checks": [{"CheckID": "_service_maintenance:web-2", "Status": "critical"}]}]`
	dbEntries = `[
	{"Node": {"ID": "n3", "Node": "node-3", "Address": "192.0.2.3", "Datacenter": "dc1", "Meta": {"external-node": "true"}},
	 "Service": {"ID": "db", "Service": "db", "Address": "db.example.com", "Port": 5432, "Meta": {"protocol": "tcp"}}, "Checks": []}]`
	apiEntries = `[
	{"Node": {"Node": "node-1", "Address": "192.0.2.1", "Datacenter": "dc1"},
	 "Service": {"ID": "api-1", "Service": "api", "Port": 7000}, "Checks": [{"CheckID": "c", "Status": "critical"}]},
	{"Node": {"Node": "node-2", "Address": "192.0.2.2", "Datacenter": "dc1"},
	 "Service": {"ID": "api-2", "Service": "api", "Port": 7001}, "Checks": [{"CheckID": "c", "Status": "passing"}]},
	{"Node": {"Node": "node-2", "Address": "192.0.2.2", "Datacenter": "dc1"},
	 "Service": {"ID": "api-2-sidecar-proxy", "Service": "api", "Kind": "connect-proxy", "Port": 21000}, "Checks": []}]`
)

// object returns the object of a service for an answer of Consul in which pairs of texts are
// replaced.
func object(t testing.TB, name, entries string, oldNew ...string) *config.Config {
	t.Helper()
	for i := 0; i < len(oldNew); i += 2 {
		if !strings.Contains(entries, oldNew[i]) {
			t.Fatalf("%q is not in the entries", oldNew[i])
		}
	}
	var list []*api.ServiceEntry
	if err := json.Unmarshal([]byte(strings.NewReplacer(oldNew...).Replace(entries)), &list); err != nil {
		t.Fatal(err)
	}
	c, err := newObject("default", &Service{Name: name, Instances: parseInstances(list)})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestConformance(t *testing.T) {
	web := func(oldNew ...string) mesh.Event { return mesh.Event{Config: object(t, "web", webEntries, oldNew...)} }
	db := func(oldNew ...string) mesh.Event { return mesh.Event{Config: object(t, "db", dbEntries, oldNew...)} }
	other := mesh.Event{Config: object(t, "api", apiEntries)}
	conform.Run(t, conform.Fixture{
		Start:         conform.Converter(func() registry.Converter { return NewConverter(ConverterOptions{}) }),
		PassesThrough: true,
		Objects:       mesh.Batch{web(), db(), other},
		Changed: mesh.Batch{
			web("192.0.2.20", "192.0.2.21"),
			web(`"Status": "warning"`, `"Status": "critical"`),
			web("version|v1", "version|v2"),
			web(`"v1", `, ""),
			web("198.51.100.1", "198.51.100.2"),
			web(`"Port": 80}`, `"Port": 81}`),
			web(`"zone": "z1"`, `"zone": "z2"`),
			web(`"Datacenter": "dc1"`, `"Datacenter": "dc2"`),
			web(`"protocol": "http"`, `"protocol": "grpc"`),
			web(`"Warning": 3`, `"Warning": 4`),
			db("db.example.com", "192.0.2.30"),
			db(`"external-node": "true"`, `"external-node": "false"`),
		},
		Same: mesh.Batch{
			web(`"Output": "alive"`, `"Output": "still alive"`),
			web(`"v1", "version|v1"`, `"version|v1", "v1"`),
			db("db.example.com", "DB.example.com."),
		},
		Broken: mesh.Batch{
			web(`"Address": "192.0.2.20"`, `"Address": "192.0.2.300"`),
			web(`"protocol": "http"`, `"protocol": "gopher"`),
			web(`"Address": "198.51.100.1"`, `"Address": "web.example.com"`),
			db(`"Port": 5432`, `"Port": 0`),
			db(`"Port": 5432`, `"Port": 70000`),
		},
		Shared: mesh.Batch{
			{Settings: &mesh.Settings{Mesh: &meshconfig.MeshConfig{TrustDomain: "another"}}},
			{Settings: &mesh.Settings{Networks: &meshconfig.MeshNetworks{Networks: map[string]*meshconfig.Network{
				"n": {Endpoints: []*meshconfig.Network_NetworkEndpoints{{Ne: &meshconfig.Network_NetworkEndpoints_FromCidr{FromCidr: "192.0.2.0/24"}}}},
			}}}},
		},
		Large: func(n int) mesh.Batch {
			spec := &Service{Name: "large"}
			for i := range n {
				spec.Instances = append(spec.Instances, Instance{
					ID: fmt.Sprintf("node/%05d", i), Address: fmt.Sprintf("198.18.%d.%d", i>>8, i&255), Ports: []int{80}, Health: api.HealthPassing,
				})
			}
			large, err := newObject("default", spec)
			if err != nil {
				t.Fatal(err)
			}
			return mesh.Batch{{Config: large}}
		},
		Old:     web(),
		Renamed: mesh.Event{Config: object(t, "website", webEntries)},
	})
}

func TestPoisonedObjects(t *testing.T) {
	conform.RunPoisoned(t, func(r *recovery.Recorder) registry.Converter {
		return NewConverter(ConverterOptions{Recovery: r})
	}, mesh.Batch{
		{Source: "test", Config: object(t, "web", webEntries)},
		{Source: "test", Config: object(t, "db", dbEntries)},
		{Source: "test", Config: object(t, "api", apiEntries)},
	})
}

// convertOne returns the services and the endpoints of one object, by host.
func convertOne(t *testing.T, c *config.Config) (map[string]*mesh.Service, map[string][]*mesh.Endpoint, *conform.State) {
	t.Helper()
	state := conform.Fold(NewConverter(ConverterOptions{}).Convert(mesh.Batch{{Config: c}}))
	services, endpoints := map[string]*mesh.Service{}, map[string][]*mesh.Endpoint{}
	for _, s := range state.Services {
		services[string(s.Host)] = s
	}
	for _, s := range state.Shards {
		endpoints[string(s.Service.Host)] = s.Endpoints
	}
	return services, endpoints, state
}

func TestConvertService(t *testing.T) {
	services, endpoints, state := convertOne(t, object(t, "web", webEntries))
	if len(state.Problems) > 0 {
		t.Errorf("problems %v", state.Problems)
	}
	main := services["web.service.consul"]
	if main == nil {
		t.Fatalf("services %v", services)
	}
	if diff := cmp.Diff([]mesh.Port{{Name: "http-80", Number: 80, Protocol: mesh.HTTP}}, main.Ports); diff != "" {
		t.Errorf("ports (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"198.51.100.1"}, main.Addresses); diff != "" {
		t.Errorf("addresses (-want +got):\n%s", diff)
	}
	if main.Provider != mesh.Consul || main.Resolution != mesh.Static || main.MeshExternal || main.Namespace != "default" {
		t.Errorf("service %+v", main)
	}
	if diff := cmp.Diff(map[string]string{"team": "a"}, main.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	alias := services["web.service.dc1.consul"]
	if alias == nil || alias.Resolution != mesh.Alias || alias.AliasOf != "web.service.consul" {
		t.Errorf("alias of the datacenter: %+v", alias)
	}
	if len(services) != 3 || services["v1.web.service.consul"] == nil || len(services["v1.web.service.consul"].Addresses) > 0 {
		t.Errorf("services %v", services)
	}
	if list := endpoints["v1.web.service.consul"]; len(list) != 1 || list[0].Address != "192.0.2.1" {
		t.Errorf("endpoints of the tag: %v", list)
	}
	list := endpoints["web.service.consul"]
	if len(list) != 2 {
		t.Fatalf("%d endpoints", len(list))
	}
	want := &mesh.Endpoint{
		Address: "192.0.2.1", Port: 8080, ServicePort: "http-80", Workload: "node-1/web-1", Owner: "web", Namespace: "default",
		Node: "node-1", Cluster: "Kubernetes", Locality: mesh.Locality{Region: "r1", Zone: "z1", SubZone: "s1"}, Weight: 3,
		Labels: map[string]string{
			"version": "v1", "team": "a", "topology.istio.io/cluster": "Kubernetes", "topology.istio.io/subzone": "s1",
			"topology.kubernetes.io/region": "r1", "topology.kubernetes.io/zone": "z1",
		},
	}
	if diff := cmp.Diff(want, list[0]); diff != "" {
		t.Errorf("endpoint (-want +got):\n%s", diff)
	}
	second := list[1]
	if second.Health != mesh.Draining || second.Address != "192.0.2.20" || second.Port != 9090 ||
		second.Account != "spiffe://cluster.local/ns/default/sa/web" || !second.TLS {
		t.Errorf("second endpoint %+v", second)
	}
}

func TestConvertPortsWithoutVirtualAddress(t *testing.T) {
	services, endpoints, _ := convertOne(t, object(t, "api", apiEntries))
	want := []mesh.Port{{Name: "7000", Number: 7000}, {Name: "7001", Number: 7001}}
	if diff := cmp.Diff(want, services["api.service.consul"].Ports); diff != "" {
		t.Errorf("ports (-want +got):\n%s", diff)
	}
	list := endpoints["api.service.consul"]
	if len(list) != 2 || list[0].Health != mesh.Unhealthy || list[1].Health != mesh.Healthy || list[1].ServicePort != "7001" {
		t.Errorf("endpoints %+v", list)
	}
}

func TestConvertExternalService(t *testing.T) {
	services, endpoints, _ := convertOne(t, object(t, "db", dbEntries))
	s := services["db.service.consul"]
	if s == nil || !s.MeshExternal || s.Resolution != mesh.DNS || endpoints["db.service.consul"][0].Address != "db.example.com" {
		t.Errorf("service %+v, endpoints %v", s, endpoints)
	}
}

func TestConvertHealth(t *testing.T) {
	for _, test := range []struct {
		checks, weights string
		health          mesh.Health
		weight          uint32
	}{
		{`[]`, `{}`, mesh.Healthy, 0},
		{`[{"Status": "passing"}]`, `{"Passing": 1, "Warning": 1}`, mesh.Healthy, 0},
		{`[{"Status": "passing"}]`, `{"Passing": 100000, "Warning": 1}`, mesh.Healthy, 65535},
		{`[{"Status": "warning"}]`, `{"Passing": 5, "Warning": 2}`, mesh.Healthy, 2},
		{`[{"Status": "warning"}]`, `{"Passing": 5, "Warning": 0}`, mesh.Unhealthy, 0},
		{`[{"Status": "warning"}, {"Status": "critical"}]`, `{"Passing": 5}`, mesh.Unhealthy, 5},
		{`[{"Status": "unheard of"}]`, `{}`, mesh.Unhealthy, 0},
		{`[null, {"CheckID": "_node_maintenance", "Status": "critical"}]`, `{}`, mesh.Draining, 0},
	} {
		entries := fmt.Sprintf(`[{"Node": {"Node": "n", "Address": "192.0.2.1"}, "Service": {"ID": "a", "Port": 80, "Weights": %s}, "Checks": %s}]`,
			test.weights, test.checks)
		_, endpoints, _ := convertOne(t, object(t, "a", entries))
		e := endpoints["a.service.consul"][0]
		if e.Health != test.health || test.health == mesh.Healthy && e.Weight != test.weight {
			t.Errorf("%s, %s: health %q, weight %d", test.checks, test.weights, e.Health, e.Weight)
		}
	}
}

// TestConvertLimits registers more ports and tags than a service may have.
func TestConvertLimits(t *testing.T) {
	var entries []string
	for i := range 100 {
		entries = append(entries, fmt.Sprintf(
			`{"Node": {"Node": "n", "Address": "192.0.2.1"}, "Service": {"ID": "a-%d", "Port": %d, "Tags": ["tag-%d"]}}`, i, 1000+i, i))
	}
	services, endpoints, state := convertOne(t, object(t, "a", "["+strings.Join(entries, ",")+"]"))
	if n := len(services["a.service.consul"].Ports); n != maxPorts || len(endpoints["a.service.consul"]) != maxPorts {
		t.Errorf("%d ports", n)
	}
	if len(services) != 1+maxTagHosts {
		t.Errorf("%d services", len(services))
	}
	if problems := state.Problems["ConsulService/default/a"]; len(problems) != 2 {
		t.Errorf("problems %v", problems)
	}
}
