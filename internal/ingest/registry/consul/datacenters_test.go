package consul

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/ingest/registry/conform"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// inDatacenter returns the object of a service of another datacenter, with the instances of an
// answer.
func inDatacenter(t *testing.T, dc, name, entries string, oldNew ...string) *config.Config {
	t.Helper()
	spec := *config.Spec[*Service](object(t, name, entries, append(oldNew, `"Datacenter": "dc1"`, `"Datacenter": "`+dc+`"`)...))
	spec.Datacenter = dc
	c, err := newObject("default", &spec)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestDatacenters converts one service of two datacenters, which differ in ports, networks and
// localities.
func TestDatacenters(t *testing.T) {
	fromRegistry := &meshconfig.Network_NetworkEndpoints{Ne: &meshconfig.Network_NetworkEndpoints_FromRegistry{FromRegistry: "west"}}
	networks := &meshconfig.MeshNetworks{Networks: map[string]*meshconfig.Network{
		"far": {Endpoints: []*meshconfig.Network_NetworkEndpoints{fromRegistry}},
	}}
	c := NewConverter(ConverterOptions{Cluster: "home", OtherDatacenters: []string{"west"}})
	events := c.Convert(mesh.Batch{
		{Config: object(t, "web", webEntries)},
		{Config: inDatacenter(t, "west", "web", webEntries, "192.0.2.", "198.18.0.", `"Port": 9090`, `"Port": 9191`, `"Port": 80}`, `"Port": 81}`)},
		{Config: inDatacenter(t, "west", "tcp", dbEntries, "db.example.com", "198.18.0.3")},
		{Settings: &mesh.Settings{Networks: networks}},
	})
	b := snapshot.NewBuilder(snapshot.Options{Cluster: "home"})
	s, _ := b.Apply(events...)
	got := map[string][]string{}
	for _, svc := range s.Services() {
		for _, p := range svc.Ports {
			got[string(svc.Host)] = append(got[string(svc.Host)], p.Name)
		}
		for _, e := range s.Endpoints(svc.ServiceKey).Endpoints {
			got[string(svc.Host)] = append(got[string(svc.Host)],
				strings.Join([]string{e.ServicePort, e.HostPort(), string(e.Cluster), string(e.Network), e.Locality.String()}, " "))
		}
	}
	web := []string{"http-80 192.0.2.1:8080 home  r1/z1/s1", "http-80 192.0.2.20:9090 home  dc1"}
	west := []string{"http-81 198.18.0.1:8080 west far r1/z1/s1", "http-81 198.18.0.20:9191 west far west"}
	want := map[string][]string{
		"web.service.consul":      slices.Concat([]string{"http-80", "http-81"}, web, west),
		"web.service.dc1.consul":  slices.Concat([]string{"http-80"}, web),
		"web.service.west.consul": slices.Concat([]string{"http-81"}, west),
		"v1.web.service.consul":   {"http-80", "http-81", web[0], west[0]},
		"tcp.service.consul":      {"tcp-5432", "tcp-5432 198.18.0.3:5432 west far west"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if state := conform.Fold(events); len(state.Problems)+len(s.Problems()) > 0 {
		t.Errorf("problems %v, %v", state.Problems, s.Problems())
	}
	for host, want := range map[mesh.Hostname]mesh.Hostname{"web.service.consul": "", "web.service.west.consul": "web.service.consul"} {
		if got := s.Service(mesh.ServiceKey{Namespace: "default", Host: host}).RemoteHost; got != want {
			t.Errorf("other networks know %s as %q, want %q", host, got, want)
		}
	}
	gone := config.Key{Kind: Kind, Namespace: "default", Name: "web"}
	s, _ = b.Apply(c.Convert(mesh.Batch{{Op: mesh.Delete, Config: &config.Config{Meta: config.Meta{Key: gone}}}})...)
	key := mesh.ServiceKey{Namespace: "default", Host: "web.service.consul"}
	if n := len(s.Endpoints(key).Endpoints); n != 2 || s.Service(key).Cluster != "west" {
		t.Errorf("after the deregistration at home: %d endpoints of %v", n, s.Service(key))
	}
}

// TestNewAll: the sources of the datacenters and of the peer share their queries.
func TestNewAll(t *testing.T) {
	settings := DefaultSettings()
	settings.URL, settings.OtherDatacenters, settings.Peers = "http://192.0.2.1:8500", []string{"west", "south"}, []string{"north"}
	list, err := NewAll(Options{Settings: settings})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range list {
		got = append(got, s.Name()+" "+s.options.Datacenter)
		if s.options.Queries != 32 {
			t.Errorf("%s has %d queries", s.Name(), s.options.Queries)
		}
	}
	want := []string{"consul/192.0.2.1:8500 ", "consul/192.0.2.1:8500/west west", "consul/192.0.2.1:8500/south south", "consul/192.0.2.1:8500/north.peer "}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	settings.Queries = 0
	if _, err := NewAll(Options{Settings: settings}); err == nil {
		t.Error("no queries are accepted")
	}
}
