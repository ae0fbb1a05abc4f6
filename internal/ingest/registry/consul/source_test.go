package consul

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/obs"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/conform"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// fakeServer answers as a Consul server does. test/integration/consul repeats these cases with real
// servers; the fake one also has faults that those do not have on request.
type fakeServer struct {
	mu       sync.Mutex
	index    uint64
	node     string              // the ID of the server's node
	services map[string][]string // addresses of instances
	denied   map[string]bool     // services that answer 403
	down     int                 // a status for all requests
	empty    bool                // all lists are empty, that of the servers too
	hold     chan struct{}       // if not nil, queries of the servers are answered when it is closed
	lists    int                 // answered queries of the list of services
	restores int                 // of snapshots
	blocked  int                 // queries that wait for a change
	// streaming answers blocking queries of instances as an agent does, from a copy: after restore
	// with the restored data and a higher index. Queries of the list still block.
	streaming bool
	created   map[string]uint64 // the indexes at which addresses were registered
	peering   fakePeering
	changed   chan struct{}
}

func newFakeServer(t *testing.T) (*fakeServer, string) {
	f := &fakeServer{index: 100, node: "a", services: map[string][]string{}, denied: map[string]bool{}, changed: make(chan struct{})}
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	return f, server.URL
}

// edit changes the data and wakes all queries.
func (f *fakeServer) edit(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.index++
	change()
	close(f.changed)
	f.changed = make(chan struct{})
}

// restore replaces the data by those of a snapshot, with its index, when this number of queries
// blocks. They end with the answer that they had before, and later ones with a higher index wait
// until that is reached, as in Consul.
func (f *fakeServer) restore(blocked int, index uint64, services map[string][]string) {
	for ready := false; !ready; time.Sleep(5 * time.Millisecond) {
		f.mu.Lock()
		ready = f.blocked == blocked
		f.mu.Unlock()
	}
	f.edit(func() {
		f.restores++
		f.index, f.services = index, services
	})
}

// await waits for a change if the query is blocking, and returns the data for the answer. f.mu is
// locked.
func (f *fakeServer) await(w http.ResponseWriter, r *http.Request) (index uint64, services map[string][]string) {
	since, _ := strconv.ParseUint(r.URL.Query().Get("index"), 10, 64)
	if since == 0 || since < f.index || since > f.index && f.restores == 0 || f.down != 0 {
		return f.index, f.services
	}
	index, services, restores := f.index, maps.Clone(f.services), f.restores
	f.block(r, f.changed)
	switch isList := r.URL.Path == "/v1/catalog/services"; {
	case f.restores == restores:
		return f.index, f.services
	case f.streaming && isList:
		f.block(r, nil)
	case f.streaming:
		w.Header().Set("X-Consul-Query-Backend", "streaming")
		return index + 5, f.services
	}
	return index, services
}

// block unlocks f.mu until the channel is closed or the client has disconnected.
func (f *fakeServer) block(r *http.Request, until chan struct{}) {
	f.blocked++
	f.mu.Unlock()
	select {
	case <-until:
	case <-r.Context().Done():
	}
	f.mu.Lock()
	f.blocked--
}

func (f *fakeServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	index, services := f.await(w, r)
	name, ofService := strings.CutPrefix(r.URL.Path, "/v1/health/service/")
	if hold := f.hold; hold != nil && name == serverService {
		f.mu.Unlock()
		<-hold
		f.mu.Lock()
	}
	switch {
	case f.down != 0:
		http.Error(w, "No cluster leader", f.down)
		return
	case f.denied[name]:
		http.Error(w, "Permission denied", http.StatusForbidden)
		return
	}
	w.Header().Set("X-Consul-Index", fmt.Sprint(index))
	if f.empty {
		_, _ = w.Write([]byte(map[bool]string{true: "[]", false: "{}"}[ofService]))
		return
	}
	if f.peering.answer(w, r, services) {
		return
	}
	if !ofService {
		f.lists++
		list := map[string][]string{"consul": {}}
		for s, addresses := range services {
			if len(addresses) > 0 {
				list[s] = []string{}
			}
		}
		_ = json.NewEncoder(w).Encode(list)
		return
	}
	addresses := services[name]
	if name == "consul" {
		addresses = []string{"127.0.0.1"}
	}
	entries := []any{}
	for _, a := range addresses {
		entries = append(entries, map[string]any{
			"Node":    map[string]any{"ID": f.node, "Node": "node-" + a, "Address": a},
			"Service": map[string]any{"ID": name, "Service": name, "Port": 80, "Meta": httpMeta, "CreateIndex": f.created[a]},
		})
	}
	_ = json.NewEncoder(w).Encode(entries)
}

// read runs a Source until the test ends. It returns a function that waits until the addresses of
// all services and the Problems are as wanted: a Problem for each text, and no other.
func read(t *testing.T, url string) func(addresses string, problems ...string) {
	_, await := readSource(t, url)
	return await
}

// readSource is read, and also returns the Source, to which edits are applied before it runs.
func readSource(t *testing.T, url string, edits ...func(*Source)) (*Source, func(addresses string, problems ...string)) {
	settings := DefaultSettings()
	settings.URL, settings.Interval = url, 10*time.Millisecond
	source, err := New(Options{Settings: settings, Metrics: &obs.NewMetrics().Consul})
	if err != nil {
		t.Fatal(err)
	}
	for _, edit := range edits {
		edit(source)
	}
	ctx, cancel := context.WithCancel(t.Context())
	out, done := make(chan mesh.Batch, 1000), make(chan error, 1)
	go func() { done <- source.Run(ctx, out) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	state, converter := conform.NewState(), NewConverter(ConverterOptions{})
	return source, func(addresses string, problems ...string) {
		t.Helper()
		deadline := time.After(30 * time.Second)
		for {
			got := describe(state)
			if state.Synced && got == addresses && hasProblems(state, problems) {
				return
			}
			select {
			case batch := <-out:
				if err := state.Apply(converter.Convert(batch)); err != nil {
					t.Fatal(err)
				}
			case <-deadline:
				t.Fatalf("%q, problems %v, synced %v; want %q with %q", got, state.Problems, state.Synced, addresses, problems)
			}
		}
	}
}

func describe(state *conform.State) string {
	var list []string
	for _, s := range state.Shards {
		for _, e := range s.Endpoints {
			list = append(list, e.Address)
		}
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}

func hasProblems(state *conform.State, texts []string) bool {
	var reasons []string
	for _, list := range state.Problems {
		for _, p := range list {
			reasons = append(reasons, p.Reason)
		}
	}
	all := strings.Join(reasons, "\n")
	return (len(texts) > 0) == (len(reasons) > 0) &&
		!slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(all, text) })
}

func TestSource(t *testing.T) {
	f, url := newFakeServer(t)
	f.services = map[string][]string{"web": {"192.0.2.1", "192.0.2.2"}, "api": {"192.0.2.3"}, "secret": {"192.0.2.4"}}
	f.denied["secret"] = true
	await := read(t, url)
	await("192.0.2.1 192.0.2.2 192.0.2.3", "cannot be read: status 403")
	f.edit(func() { delete(f.denied, "secret") })
	await("192.0.2.1 192.0.2.2 192.0.2.3 192.0.2.4")
	f.edit(func() { f.services["web"], f.services["api"] = []string{"192.0.2.2"}, nil })
	await("192.0.2.2 192.0.2.4")
	f.edit(func() { f.services["api"] = []string{"192.0.2.5"} })
	await("192.0.2.2 192.0.2.4 192.0.2.5")
	f.edit(func() { f.down = http.StatusInternalServerError })
	await("192.0.2.2 192.0.2.4 192.0.2.5", "No cluster leader")
	f.edit(func() { f.down, f.services["secret"] = 0, nil }) // deregistered during the outage
	await("192.0.2.2 192.0.2.5")
}

// TestSourceHoldsInstancesOfLostData: instances are kept if the servers have lost their data, which
// shows in a lower index, or in a higher one with another node ID, without any failed query.
func TestSourceHoldsInstancesOfLostData(t *testing.T) {
	for name, lose := range map[string]func(*fakeServer){
		"lower index":     func(f *fakeServer) { f.index = 7 },
		"another node ID": func(f *fakeServer) { f.node = "b" },
	} {
		t.Run(name, func(t *testing.T) {
			f, url := newFakeServer(t)
			f.services["web"] = []string{"192.0.2.1", "192.0.2.2"}
			await := read(t, url)
			await("192.0.2.1 192.0.2.2")
			f.edit(func() { lose(f); f.services["web"] = nil })
			await("192.0.2.1 192.0.2.2", "lost their data and do not list 2 of the instances")
			f.edit(func() { f.services["web"] = []string{"192.0.2.2"} })
			await("192.0.2.1 192.0.2.2", "do not list 1 of the instances")
			f.edit(func() { f.services["web"] = []string{"192.0.2.1"} }) // 192.0.2.2 is deregistered
			await("192.0.2.1")
		})
	}
}

// TestSourceHoldsInstancesOfRestoredSnapshot restores a snapshot without the newest instance, and
// then writes, so that the index is soon higher than ever. Only the query that ended early showed
// it.
func TestSourceHoldsInstancesOfRestoredSnapshot(t *testing.T) {
	f, url := newFakeServer(t)
	f.services["web"] = []string{"192.0.2.1"}
	await := read(t, url)
	await("192.0.2.1")
	f.edit(func() { f.services["web"] = []string{"192.0.2.1", "192.0.2.2"} })
	await("192.0.2.1 192.0.2.2")
	f.restore(3, 100, map[string][]string{"web": {"192.0.2.1"}})
	await("192.0.2.1 192.0.2.2", "do not list 1 of the instances")
	f.edit(func() { f.index, f.services["web"] = 200, []string{"192.0.2.3"} }) // 192.0.2.1 is deregistered
	await("192.0.2.2 192.0.2.3", "do not list 1 of the instances")
	f.edit(func() { f.services["web"] = []string{"192.0.2.2", "192.0.2.3"} })
	await("192.0.2.2 192.0.2.3")
}

// TestSourceHoldsInstancesNewerThanTheServers restores a snapshot that only an answer from an
// agent's copy shows, with an index that cannot be compared.
func TestSourceHoldsInstancesNewerThanTheServers(t *testing.T) {
	f, url := newFakeServer(t)
	f.services["web"] = []string{"192.0.2.1"}
	f.streaming, f.created = true, map[string]uint64{"192.0.2.1": 90, "192.0.2.2": 101}
	await := read(t, url)
	await("192.0.2.1")
	f.edit(func() { f.services["web"] = []string{"192.0.2.1", "192.0.2.2"} })
	await("192.0.2.1 192.0.2.2")
	f.restore(3, 100, map[string][]string{"web": {"192.0.2.1"}})
	await("192.0.2.1 192.0.2.2", "do not list 1 of the instances")
}

// TestSourceHoldsInstancesOfEmptyAnswers: instances are kept if a proxy answers every query with an
// empty list. Answers are the same if the anonymous token loses all rights. Running servers always
// list themselves.
func TestSourceHoldsInstancesOfEmptyAnswers(t *testing.T) {
	f, url := newFakeServer(t)
	f.services["web"], f.services["api"] = []string{"192.0.2.1", "192.0.2.2"}, []string{"192.0.2.3"}
	await := read(t, url)
	await("192.0.2.1 192.0.2.2 192.0.2.3")
	f.edit(func() { f.empty = true })
	await("192.0.2.1 192.0.2.2 192.0.2.3", "lists no servers")
	f.edit(func() { f.empty, f.services["web"] = false, []string{"192.0.2.2"} })
	await("192.0.2.2 192.0.2.3")
}

// TestSourceSyncsWithKnownServers: without the identity of the servers, their replacement could not
// be recognized, and instances would be removed with their data. So Synced waits for it.
func TestSourceSyncsWithKnownServers(t *testing.T) {
	f, url := newFakeServer(t)
	f.services["web"], f.hold = []string{"192.0.2.1"}, make(chan struct{})
	await := read(t, url)
	var released atomic.Bool
	go func() {
		for lists := 0; lists < 3 && t.Context().Err() == nil; { // the first answers were handled
			f.edit(func() { lists = f.lists })
			time.Sleep(5 * time.Millisecond)
		}
		released.Store(true)
		close(f.hold)
	}()
	await("192.0.2.1")
	if !released.Load() {
		t.Error("the source is in sync before the servers are known")
	}
}
