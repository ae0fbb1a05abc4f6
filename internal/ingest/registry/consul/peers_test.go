package consul

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/consul/api"

	"github.com/meshpilot/meshpilot/internal/ingest/registry/conform"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// httpMeta is the meta of all services of the fake server.
var httpMeta = map[string]string{"protocol": "http"}

// fakePeering is the peering "west" of a fakeServer, which imports all of its services. It exists
// if state is set.
type fakePeering struct {
	state    api.PeeringState
	mistaken []string // queries that lacked ?peer=west, or had it although servers have no peer
}

// answer answers a query of a peering. It returns false for any other query.
func (p *fakePeering) answer(w http.ResponseWriter, r *http.Request, services map[string][]string) bool {
	if p.state == "" {
		return false
	}
	name, ok := strings.CutPrefix(r.URL.Path, "/v1/peering/")
	switch {
	case !ok:
		wanted := !strings.HasSuffix(r.URL.Path, "/"+serverService)
		if r.URL.Query().Has("peer") != wanted || wanted && r.URL.Query().Get("peer") != "west" {
			p.mistaken = append(p.mistaken, r.URL.String())
		}
	case name != "west":
		http.Error(w, "Peering not found", http.StatusNotFound)
	default:
		peering := api.Peering{Name: name, State: p.state}
		if p.state != api.PeeringStatePending {
			peering.StreamStatus.ImportedServices = slices.Sorted(maps.Keys(services))
		}
		_ = json.NewEncoder(w).Encode(peering)
	}
	return ok
}

func ofPeer(name string) func(*Source) { return func(s *Source) { s.part = part{peer: name} } }

func startTimeout(d time.Duration) func(*Source) {
	return func(s *Source) { s.options.StartTimeout = d }
}

// TestSourceOfPeer reads the services that a peer exports, also while the peering fails: Consul
// still has the last imported state.
func TestSourceOfPeer(t *testing.T) {
	f, url := newFakeServer(t)
	f.services["web"], f.peering.state = []string{"192.0.2.1"}, api.PeeringStateFailing
	_, await := readSource(t, url, ofPeer("west"))
	await("192.0.2.1", "the peer cannot be read: the peering is FAILING; the last known state stays in use")
	f.edit(func() { f.peering.state = api.PeeringStateActive })
	await("192.0.2.1")
	f.edit(func() { f.services["api"] = []string{"192.0.2.2"} })
	await("192.0.2.1 192.0.2.2")
	f.edit(func() { delete(f.services, "web") })
	await("192.0.2.2")
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.peering.mistaken) > 0 {
		t.Errorf("queries %v", f.peering.mistaken)
	}
}

// TestSourceWithoutPeering names a peering that does not exist.
func TestSourceWithoutPeering(t *testing.T) {
	f, url := newFakeServer(t)
	f.peering.state = api.PeeringStateActive
	_, await := readSource(t, url, ofPeer("north"), startTimeout(time.Millisecond))
	await("", `there is no peering "north"`)
}

// TestSourceStartsInTime has a datacenter and a peer that cannot be read at the start: they delay
// Synced for StartTimeout, and their services are added later. The datacenter of the settings has
// no such limit.
func TestSourceStartsInTime(t *testing.T) {
	for name, test := range map[string]struct {
		part       part
		begin, end func(*fakeServer)
		problem    string
	}{
		"datacenter": {
			part{datacenter: "west"}, func(f *fakeServer) { f.down = http.StatusInternalServerError }, func(f *fakeServer) { f.down = 0 },
			"No cluster leader; its services are added when it can be read",
		},
		"peer": {
			part{peer: "west"}, func(f *fakeServer) { f.peering.state = api.PeeringStatePending },
			func(f *fakeServer) { f.peering.state = api.PeeringStateActive }, "the peering is PENDING",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f, url := newFakeServer(t)
			f.services["web"] = []string{"192.0.2.1"}
			test.begin(f)
			source, await := readSource(t, url, func(s *Source) { s.part = test.part }, startTimeout(10*time.Millisecond))
			await("", test.problem)
			if status := source.Status(); status.Synced {
				t.Errorf("status %+v", status)
			}
			f.edit(func() { test.end(f) })
			await("192.0.2.1")
		})
	}
	r := run{Source: &Source{options: Options{StartTimeout: time.Millisecond}}}
	if r.startTimeout() != nil {
		t.Error("the datacenter of the settings has a limit")
	}
}

// TestPeers converts services of a peer, which have the HTTP ports and no virtual address.
func TestPeers(t *testing.T) {
	imported := func(name, entries string) *config.Config {
		spec := *config.Spec[*Service](object(t, name, entries))
		spec.Peer = "west"
		c, err := newObject("default", &spec)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	c := NewConverter(ConverterOptions{Cluster: "home", Peers: []string{"west"}})
	state := conform.Fold(c.Convert(mesh.Batch{
		{Config: object(t, "web", webEntries)}, {Config: imported("web", webEntries)}, {Config: imported("db", dbEntries)},
	}))
	got := map[string][]string{}
	for _, s := range state.Services {
		if !strings.Contains(string(s.Host), ".peer.") {
			continue
		}
		line := []string{string(s.RemoteHost), string(s.Cluster)}
		for _, p := range s.Ports {
			line = append(line, p.Name)
		}
		got[string(s.Host)] = append(line, s.Addresses...)
	}
	for _, s := range state.Shards {
		if strings.Contains(string(s.Service.Host), ".peer.") {
			for _, e := range s.Endpoints {
				got[string(s.Service.Host)] = append(got[string(s.Service.Host)], e.HostPort()+" "+string(e.Cluster)+" "+e.Locality.String())
			}
		}
	}
	want := map[string][]string{
		"web.service.west.peer.consul": {
			"web.service.consul", "west", "http-80", "192.0.2.1:8080 west r1/z1/s1", "192.0.2.20:9090 west west",
		},
		"v1.web.service.west.peer.consul": {"v1.web.service.consul", "west", "http-80", "192.0.2.1:8080 west r1/z1/s1"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if !hasProblems(state, []string{"no instance declares HTTP"}) || len(state.Problems) != 1 {
		t.Errorf("problems %v", state.Problems)
	}
}
