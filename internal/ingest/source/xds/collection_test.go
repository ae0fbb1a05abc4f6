package xds

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	networking "istio.io/api/networking/v1alpha3"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	mcp "istio.io/api/mcp/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

func kindInfo(t testing.TB, kind api.Kind) api.KindInfo {
	t.Helper()
	info, ok := api.Info(kind)
	if !ok {
		t.Fatalf("no kind %s", kind)
	}
	return info
}

func marshal(t testing.TB, m proto.Message) []byte {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func fullState(t testing.TB, list ...*anypb.Any) response {
	t.Helper()
	r, err := readResponse(marshal(t, &discoveryv3.DiscoveryResponse{TypeUrl: serviceEntries, VersionInfo: "1", Nonce: "n", Resources: list}), false)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// described returns events in a form to compare.
func described(b mesh.Batch) []string {
	var list []string
	for _, e := range b {
		switch {
		case e.Problems != nil && len(e.Problems.List) == 0:
			list = append(list, "mended "+e.Problems.Scope)
		case e.Problems != nil:
			for _, p := range e.Problems.List {
				list = append(list, fmt.Sprintf("%s %s: %s %s", p.Severity, e.Problems.Scope, p.Field, p.Reason))
			}
		default:
			list = append(list, e.Op.String()+" "+e.Config.Name)
		}
	}
	return list
}

// altered returns an object with its wrapper changed.
func altered(t *testing.T, any *anypb.Any, change func(r *mcp.Resource)) *anypb.Any {
	t.Helper()
	var r mcp.Resource
	if err := any.UnmarshalTo(&r); err != nil {
		t.Fatal(err)
	}
	change(&r)
	again, err := anypb.New(&r)
	if err != nil {
		t.Fatal(err)
	}
	return again
}

// TestBadObjects sends good a and b, then a with a fault, then both good again.
func TestBadObjects(t *testing.T) {
	a, b := wrapped(t, "ns/a", "1", entry("a.example.com")), wrapped(t, "ns/b", "1", entry("b.example.com"))
	const scope, kept = "ServiceEntry/ns/a", "warning ServiceEntry/ns/a:  has errors now; it stays in use as it was before"
	for name, tt := range map[string]struct {
		bad    *anypb.Any
		want   []string
		mended []string
	}{
		"a spec that is not valid": {
			wrapped(t, "ns/a", "2", &networking.ServiceEntry{Ports: entry().Ports}),
			[]string{"error ServiceEntry/ns/a: spec.hosts at least one host is required", kept}, []string{"mended " + scope},
		},
		"a spec of another kind": {
			wrapped(t, "ns/a", "2", &networking.Sidecar{}),
			[]string{"error ServiceEntry/ns/a: spec is a istio.networking.v1alpha3.Sidecar, not a istio.networking.v1alpha3.ServiceEntry", kept}, []string{"mended " + scope},
		},
		"no spec": {
			altered(t, a, func(r *mcp.Resource) { r.Body = nil }),
			[]string{"error ServiceEntry/ns/a: spec is missing", kept}, []string{"mended " + scope},
		},
		"a spec that cannot be read": {
			altered(t, a, func(r *mcp.Resource) { r.Body.Value = []byte{0xff} }),
			[]string{"error ServiceEntry/ns/a: spec cannot be read: proto: cannot parse invalid wire-format data", kept}, []string{"mended " + scope},
		},
		"a field from the future": {
			altered(t, a, func(r *mcp.Resource) {
				port := protowire.AppendString(protowire.AppendTag(marshal(t, &networking.ServicePort{Number: 81, Name: "x"}), 999, protowire.BytesType), "new")
				r.Body.Value = protowire.AppendBytes(protowire.AppendTag(r.Body.Value, 3, protowire.BytesType), port)
			}),
			[]string{"error ServiceEntry/ns/a: spec.ports[1] has a field that this version of the control plane does not know", kept}, []string{"mended " + scope},
		},
		"a value from the future": {
			wrapped(t, "ns/a", "2", &networking.ServiceEntry{Hosts: []string{"a.example.com"}, Resolution: 99}),
			[]string{"error ServiceEntry/ns/a: spec.resolution has a value that this version of the control plane does not know: 99", kept}, []string{"mended " + scope},
		},
		"a time that is none": {
			altered(t, a, func(r *mcp.Resource) { r.Metadata.CreateTime.Nanos = -1 }),
			[]string{"error ServiceEntry/ns/a: metadata.creationTimestamp is not a time between the years 1 and 9999", kept}, []string{"mended " + scope},
		},
		"an object that cannot be told by name": {
			&anypb.Any{TypeUrl: anyPrefix + wrapperType, Value: []byte{0xff}},
			[]string{
				"error " + serviceEntries + ":  resource 1 of " + serviceEntries + " cannot be read: malformed protobuf message",
				"error " + serviceEntries + ":  1 objects of " + serviceEntries + " are missing and stay in use, for what cannot be read may be one of them",
			}, []string{"mended " + serviceEntries},
		},
		"something else than an object": {
			&anypb.Any{TypeUrl: "type.googleapis.com/other"},
			[]string{
				"error " + serviceEntries + `:  resource 1 of ` + serviceEntries + ` cannot be read: it is a "type.googleapis.com/other", not a istio.mcp.v1alpha1.Resource`,
				"error " + serviceEntries + ":  1 objects of " + serviceEntries + " are missing and stay in use, for what cannot be read may be one of them",
			}, []string{"mended " + serviceEntries},
		},
		"a name without a namespace": {
			wrapped(t, "a", "1", entry("a.example.com")),
			[]string{"delete a", "error " + serviceEntries + ":  resource 1 of " + serviceEntries + ` is not used: its name is "a", want namespace/name`},
			[]string{"upsert a", "mended " + serviceEntries},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCollection(kindInfo(t, api.ServiceEntry), "test")
			take := func(list ...*anypb.Any) []string {
				e := c.newEdit("test")
				e.applyFullState(fullState(t, list...))
				return described(e.batch)
			}
			if diff := cmp.Diff([]string{"upsert a", "upsert b"}, take(a, b)); diff != "" {
				t.Errorf("good (-want +got):\n%s", diff)
			}
			got := take(tt.bad, b)
			// protobuf randomly uses one of two spaces in its errors, so that they are not compared
			for i := range got {
				got[i] = strings.ReplaceAll(got[i], "\u00a0", " ")
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("bad (-want +got):\n%s", diff)
			}
			if got := take(tt.bad, b); len(got) > 0 {
				t.Errorf("the same again: %v", got)
			}
			if diff := cmp.Diff(tt.mended, take(a, b)); diff != "" {
				t.Errorf("good again (-want +got):\n%s", diff)
			}
		})
	}
}

func TestInvalidObjectIsDeleted(t *testing.T) {
	c := newCollection(kindInfo(t, api.ServiceEntry), "test")
	e := c.newEdit("test")
	e.applyFullState(fullState(t, wrapped(t, "ns/a", "1", entry())))
	e = c.newEdit("test")
	e.applyFullState(fullState(t))
	if diff := cmp.Diff([]string{"mended ServiceEntry/ns/a"}, described(e.batch)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestDuplicateObjectInFullState(t *testing.T) {
	c := newCollection(kindInfo(t, api.ServiceEntry), "test")
	e := c.newEdit("test")
	e.applyFullState(fullState(t, wrapped(t, "ns/a", "1", entry("first.example.com")), wrapped(t, "ns/a", "2", entry("second.example.com"))))
	want := []string{"upsert a", "error " + serviceEntries + ":  resource 2 of " + serviceEntries + ` is "ns/a" again, of which only the first is used`}
	if diff := cmp.Diff(want, described(e.batch)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if hosts := config.Spec[*networking.ServiceEntry](e.batch[0].Config).Hosts; hosts[0] != "first.example.com" {
		t.Errorf("hosts %v", hosts)
	}
}

// TestOlderVersionsOfAMessage takes specs of servers that were built when each version had a
// message of its own.
func TestOlderVersionsOfAMessage(t *testing.T) {
	a := altered(t, wrapped(t, "ns/a", "1", entry("a.example.com")), func(r *mcp.Resource) {
		r.Body.TypeUrl = "type.googleapis.com/istio.networking.v1beta1.ServiceEntry"
	})
	c := newCollection(kindInfo(t, api.ServiceEntry), "test")
	e := c.newEdit("test")
	e.applyFullState(fullState(t, a))
	if diff := cmp.Diff([]string{"upsert a"}, described(e.batch)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestDeltaResources(t *testing.T) {
	c := newCollection(kindInfo(t, api.ServiceEntry), "test")
	take := func(removed []string, list ...*discoveryv3.Resource) []string {
		r, err := readResponse(marshal(t, &discoveryv3.DeltaDiscoveryResponse{TypeUrl: serviceEntries, Resources: list, RemovedResources: removed}), true)
		if err != nil {
			t.Fatal(err)
		}
		e := c.newEdit("test")
		e.applyChanges(r)
		return described(e.batch)
	}
	a, b := wrapped(t, "ns/a", "1", entry("a.example.com")), wrapped(t, "ns/b", "1", entry("b.example.com"))
	for _, tt := range []struct {
		shows string
		got   []string
		want  []string
	}{
		{"two", take(nil, &discoveryv3.Resource{Name: "ns/a", Version: "x", Resource: a}, &discoveryv3.Resource{Name: "ns/b", Resource: b}), []string{"upsert a", "upsert b"}},
		{"a heartbeat", take(nil, &discoveryv3.Resource{Name: "ns/a", Version: "x"}), nil},
		{"removed, and one that is not known", take([]string{"ns/b", "ns/c"}), []string{"delete b"}},
		{"two names", take(nil, &discoveryv3.Resource{Name: "ns/z", Resource: b}), []string{
			"error " + serviceEntries + ":  resource 1 of " + serviceEntries + ` cannot be read: it is sent as "ns/z" and says to be "ns/b"`}},
		{"nothing", take(nil), []string{"mended " + serviceEntries}},
	} {
		if diff := cmp.Diff(tt.want, tt.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.shows, diff)
		}
	}
	if diff := cmp.Diff(map[string]string{"ns/a": "x"}, c.initialVersions()); diff != "" {
		t.Errorf("versions (-want +got):\n%s", diff)
	}
}

// FuzzFullState takes whatever bytes come: they do no harm, and what can be read is what protobuf
// reads.
func FuzzFullState(f *testing.F) {
	good := &discoveryv3.DiscoveryResponse{TypeUrl: serviceEntries, VersionInfo: "1", Nonce: "n", Resources: []*anypb.Any{wrapped(f, "ns/a", "1", entry("a.example.com"))}}
	f.Add(marshal(f, good))
	f.Add([]byte{0x12, 0x00})
	f.Add([]byte{0xff})
	info := kindInfo(f, api.ServiceEntry)
	f.Fuzz(func(t *testing.T, message []byte) {
		var want discoveryv3.DiscoveryResponse
		readable := proto.Unmarshal(message, &want) == nil
		r, err := readResponse(message, false)
		if err != nil {
			if readable {
				t.Fatalf("cannot be read, but protobuf can: %v", err)
			}
			return
		}
		if readable && (r.typeURL != want.TypeUrl || r.version != want.VersionInfo || r.nonce != want.Nonce) {
			t.Fatalf("read %q %q %q, want %v", r.typeURL, r.version, r.nonce, &want)
		}
		c := newCollection(info, "test")
		e := c.newEdit("test")
		e.applyFullState(r)
		if readable && e.kept > len(want.Resources) {
			t.Fatalf("%d objects of %d resources", e.kept, len(want.Resources))
		}
		again := c.newEdit("test")
		if again.applyFullState(r); len(again.batch) > 0 {
			t.Fatalf("the same again: %v", described(again.batch))
		}
		for _, name := range slices.Sorted(maps.Keys(c.held)) {
			if _, _, ok := splitName(name); !ok {
				t.Fatalf("held under the name %q", name)
			}
		}
	})
}

// BenchmarkFullState takes in a type of 4,000 ServiceEntries with ten endpoints, of which one has
// changed.
func BenchmarkFullState(b *testing.B) {
	const objects = 4000
	list := make([]*anypb.Any, objects)
	for i := range list {
		list[i] = wrapped(b, fmt.Sprintf("ns-%d/svc-%d", i%20, i), "1", tenEndpoints(i))
	}
	states := make([][]byte, 2)
	for i := range states {
		list[objects/2] = wrapped(b, "ns-0/svc-2000", fmt.Sprint(i), tenEndpoints(i))
		states[i] = marshal(b, &discoveryv3.DiscoveryResponse{TypeUrl: serviceEntries, VersionInfo: "1", Nonce: "n", Resources: list})
	}
	c := newCollection(kindInfo(b, api.ServiceEntry), "test")
	take := func(i int) mesh.Batch {
		r, err := readResponse(states[i%2], false)
		if err != nil {
			b.Fatal(err)
		}
		e := c.newEdit("test")
		e.applyFullState(r)
		return e.batch
	}
	take(1)
	b.SetBytes(int64(len(states[0])))
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if batch := take(i); len(batch) != 1 {
			b.Fatalf("%d events", len(batch))
		}
	}
}

func tenEndpoints(i int) *networking.ServiceEntry {
	e := entry(fmt.Sprintf("svc-%d.example.com", i))
	for n := range 10 {
		e.Endpoints = append(e.Endpoints, &networking.WorkloadEntry{Address: fmt.Sprintf("10.%d.%d.%d", i>>8&255, i&255, n), Labels: map[string]string{"version": "v1"}})
	}
	return e
}

// TestUnchangedObjectsCostNoAllocation checks that receiving a state without changes makes only a
// few allocations, whatever the number of objects.
func TestUnchangedObjectsCostNoAllocation(t *testing.T) {
	list := make([]*anypb.Any, 500)
	for i := range list {
		list[i] = wrapped(t, fmt.Sprintf("ns/svc-%d", i), "1", tenEndpoints(i))
	}
	r := fullState(t, list...)
	c := newCollection(kindInfo(t, api.ServiceEntry), "test")
	c.newEdit("test").applyFullState(r)
	if n := testing.AllocsPerRun(10, func() { c.newEdit("test").applyFullState(r) }); n > 10 {
		t.Errorf("%v allocations for 500 objects", n)
	}
}

// TestOrderMakesNoDifference: objects that come, go, change and move leave the same behind as they
// do where nothing was known.
func TestOrderMakesNoDifference(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	c := newCollection(kindInfo(t, api.ServiceEntry), "test")
	state := map[string]string{} // object -> version, from the events
	var order []int
	version := map[int]int{}
	for step := range 300 {
		switch random.IntN(5) {
		case 0:
			random.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		case 1:
			if len(order) > 0 {
				i := random.IntN(len(order))
				order = slices.Delete(order, i, i+1)
			}
		default:
			i := random.IntN(12)
			if !slices.Contains(order, i) {
				order = slices.Insert(order, random.IntN(len(order)+1), i)
			}
			version[i] = step
		}
		var list []*anypb.Any
		want := map[string]string{}
		for _, i := range order {
			v := fmt.Sprint(version[i])
			list = append(list, wrapped(t, fmt.Sprintf("ns/e%d", i), v, entry("v"+v+".example.com")))
			want[fmt.Sprint("e", i)] = "v" + v + ".example.com"
		}
		e := c.newEdit("test")
		e.applyFullState(fullState(t, list...))
		for _, ev := range e.batch {
			if ev.Op == mesh.Delete {
				delete(state, ev.Config.Name)
			} else {
				state[ev.Config.Name] = config.Spec[*networking.ServiceEntry](ev.Config).Hosts[0]
			}
		}
		if diff := cmp.Diff(want, state); diff != "" {
			t.Fatalf("step %d: -want +got:\n%s", step, diff)
		}
	}
}
