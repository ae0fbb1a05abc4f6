package diff_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/meshpilot/meshpilot/internal/diagnostics/debug"
	"github.com/meshpilot/meshpilot/internal/diagnostics/diff"
	"github.com/meshpilot/meshpilot/internal/diagnostics/diff/offline"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/translate"
	"github.com/meshpilot/meshpilot/internal/xds/push"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
	"github.com/meshpilot/meshpilot/test/support/fixture"
	"github.com/meshpilot/meshpilot/test/support/longtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestPrediction makes random edits of a mesh with connected proxies. Before each push, Compare
// predicts which resources of which proxies are added, changed and removed. That must equal the
// resources that the proxies are really sent.
func TestPrediction(t *testing.T) {
	meshes, edits := longtest.Rounds(2, 25), longtest.Rounds(8, 40)
	total := tally{}
	for seed := range uint64(meshes) {
		n, err := predict(t, seed, edits, nil)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		total.add(n)
	}
	t.Logf("%d edits, %d of them changed a proxy; %d resources were added, changed or removed, of types %v",
		meshes*edits, total.effective, total.resources, total.types)
	if total.effective < meshes*edits/3 || len(total.types) < 5 {
		t.Error("too few edits have an effect: the test is not effective")
	}
}

// TestPredictionCanFail leaves a generator out of the prediction, or lets it know only the state
// before the edit. The comparison of TestPrediction must notice each.
func TestPredictionCanFail(t *testing.T) {
	for name, falsify := range map[string]func(*diff.Input){
		"endpoints are forgotten": func(in *diff.Input) {
			in.Generators = slices.DeleteFunc(slices.Clone(in.Generators), func(g view.Generator) bool {
				return g.TypeURL == api.EndpointType
			})
		},
		"extension configs are forgotten": func(in *diff.Input) {
			in.Generators = slices.DeleteFunc(slices.Clone(in.Generators), func(g view.Generator) bool {
				return g.TypeURL == api.ExtensionType
			})
		},
		"the scope of clusters lacks the namespace": func(in *diff.Input) {
			in.Generators = slices.Clone(in.Generators)
			for i, g := range in.Generators {
				if g.TypeURL == api.ClusterType && g.Scope != nil {
					in.Generators[i].Scope = func(k view.Key) view.Key {
						k = g.Scope(k)
						k.Namespace = "default"
						return k
					}
				}
			}
		},
		"a proxy is forgotten": func(in *diff.Input) { in.Proxies = in.Proxies[1:] },
	} {
		noticed := false
		for seed := range uint64(10) {
			if _, err := predict(t, seed, 8, falsify); err != nil {
				noticed = true
				break
			}
		}
		if !noticed {
			t.Errorf("%s: no edit shows it", name)
		}
	}
}

// tally are the edits with an effect and the resources that differed.
type tally struct {
	effective, resources int
	types                map[string]int
}

func (x *tally) add(y tally) {
	x.effective += y.effective
	x.resources += y.resources
	if x.types == nil {
		x.types = map[string]int{}
	}
	for k, n := range y.types {
		x.types[k] += n
	}
}

// predict makes random edits of one mesh and returns the first difference between the prediction and
// the responses as an error. falsify changes the input of the prediction, if it is set.
func predict(t *testing.T, seed uint64, edits int, falsify func(*diff.Input)) (n tally, failure error) {
	t.Helper()
	base, err := os.ReadFile("testdata/mesh.yaml")
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(seed, 1))
		m := fixture.New(t, base, nil)
		p := push.New(push.Options{Generators: translate.NewTable(translate.Options{}).Generators})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { p.Run(ctx); close(done) }()
		defer func() { cancel(); <-done }()
		p.Publish(m.Snapshot(), snapshot.Delta{All: true})
		fleet := connectFleet(t, p, m.Snapshot())
		settle(fleet)
		var log []string
		for range edits {
			before := m.Snapshot()
			text := randomEdit(t, random)
			s, d := applyEdit(t, m, random, text)
			log = append(log, text)
			want := predicted(t, before, s, fleet, falsify)
			for _, x := range fleet {
				x.startRecord()
			}
			p.Publish(s, d)
			settle(fleet)
			got := map[string]bool{}
			for _, x := range fleet {
				x.addChanges(got)
			}
			if d := cmp.Diff(want, got); d != "" {
				failure = fmt.Errorf("the prediction differs from the responses (-predicted +sent):\n%s\nafter\n%s", d, strings.Join(log, "\n---\n"))
				return
			}
			n.record(got)
		}
	})
	return n, failure
}

func (x *tally) record(changes map[string]bool) {
	if len(changes) > 0 {
		x.effective++
	}
	if x.types == nil {
		x.types = map[string]int{}
	}
	for c := range changes {
		x.resources++
		x.types[strings.Fields(c)[1]]++
	}
}

// applyEdit applies the object in text, or deletes it.
func applyEdit(t *testing.T, m *fixture.Mesh, r *rand.Rand, text string) (*snapshot.Snapshot, snapshot.Delta) {
	t.Helper()
	if r.IntN(4) == 0 {
		return m.Delete(t, text)
	}
	return m.Apply(t, text)
}

// randomEdit returns a random object of testdata/edits.yaml.
func randomEdit(t *testing.T, r *rand.Rand) string {
	t.Helper()
	templates, err := os.ReadFile("testdata/edits.yaml")
	if err != nil {
		t.Fatal(err)
	}
	list := strings.Split(string(templates), "\n---\n")
	text := strings.ReplaceAll(list[r.IntN(len(list))], "META", "name: «a|b», namespace: «default|default|other|istio-system»")
	for {
		before, rest, found := strings.Cut(text, "«")
		if !found {
			return text
		}
		choice, after, _ := strings.Cut(rest, "»")
		alternatives := strings.Split(choice, "|")
		text = before + alternatives[r.IntN(len(alternatives))] + after
	}
}

// predicted returns the changes that Compare predicts: "PROXY TYPE OPERATION NAME".
func predicted(t *testing.T, before, after *snapshot.Snapshot, fleet []*proxy, falsify func(*diff.Input)) map[string]bool {
	t.Helper()
	in := diff.Input{Before: before, After: after, Generators: translate.NewTable(translate.Options{}).Generators}
	for _, x := range fleet {
		in.Proxies = append(in.Proxies, x.who)
	}
	if falsify != nil {
		falsify(&in)
	}
	r, err := diff.Compare(in)
	if err != nil {
		t.Fatal(err)
	}
	set := map[string]bool{}
	for _, g := range r.Groups {
		for _, name := range g.Proxies {
			for _, c := range g.Changes {
				set[fmt.Sprintf("%s %s %s %s", name, c.Type, c.Operation, c.Name)] = true
			}
		}
	}
	return set
}

// proxy is a delta client that subscribes as Envoy does and acknowledges everything.
type proxy struct {
	t   *testing.T
	who *mesh.Proxy
	c   *push.Client
	// held are the resources that it has, by type URL and name; before are those at the last call of
	// startRecord.
	held, before map[string]map[string]string
	// sent are the resources and removals that it was sent since then.
	sent       map[string]bool
	subscribed map[string]map[string]bool
}

// connectFleet connects the proxies that the mesh implies, and one without a workload.
func connectFleet(t *testing.T, p *push.Pusher, s *snapshot.Snapshot) []*proxy {
	t.Helper()
	list := offline.Proxies(s)
	list["guest.other"] = fixture.Proxy(t, []byte("{name: guest, namespace: other, addresses: [10.1.0.9], dnsCapture: true, locality: r/z}"))
	var fleet []*proxy
	for _, who := range list {
		x := &proxy{
			t: t, who: who, c: p.Connect(who, stream.Delta, "test"),
			held: map[string]map[string]string{}, subscribed: map[string]map[string]bool{},
		}
		t.Cleanup(x.c.Close)
		x.c.Request(stream.Request{TypeURL: api.ClusterType})
		x.c.Request(stream.Request{TypeURL: api.ListenerType})
		fleet = append(fleet, x)
	}
	slices.SortFunc(fleet, func(a, b *proxy) int { return strings.Compare(a.who.ID, b.who.ID) })
	return fleet
}

// settle lets a minute of synthetic time pass, so that barriers, transitions and lingering resources
// end, and lets all proxies read.
func settle(fleet []*proxy) {
	for range 60 {
		synctest.Wait()
		for _, x := range fleet {
			x.read()
		}
		time.Sleep(time.Second)
	}
}

// read receives all responses that wait, acknowledges them and changes its subscriptions.
func (x *proxy) read() {
	now, cancel := context.WithCancel(context.Background())
	cancel()
	for {
		synctest.Wait()
		s, err := x.c.Next(now)
		if errors.Is(err, context.Canceled) {
			return
		}
		if err != nil {
			x.t.Fatal(err)
		}
		x.c.Sent(s, 1, 0)
		x.accept(s)
		x.c.Request(stream.Request{TypeURL: s.TypeURL, Nonce: s.Nonce})
		x.subscribe()
	}
}

func (x *proxy) accept(s *stream.Send) {
	if x.held[s.TypeURL] == nil {
		x.held[s.TypeURL] = map[string]string{}
	}
	for _, part := range s.Parts {
		for _, r := range part.Resources() {
			x.recordSent(s.TypeURL, r.Name)
			if stream.IsWildcard(s.TypeURL) || x.subscribed[s.TypeURL][r.Name] { // Envoy ignores others
				x.held[s.TypeURL][r.Name] = string(r.Body)
			}
		}
	}
	for _, name := range s.Removed {
		delete(x.held[s.TypeURL], name)
		x.recordSent(s.TypeURL, name)
	}
}

func (x *proxy) recordSent(typeURL, name string) {
	if x.sent != nil {
		x.sent[api.ShortType(typeURL)+" "+name] = true
	}
}

// startRecord clears the record of sent resources, and stores the resources that the proxy has.
func (x *proxy) startRecord() {
	x.sent, x.before = map[string]bool{}, map[string]map[string]string{}
	for typeURL, list := range x.held {
		x.before[typeURL] = map[string]string{}
		for name, body := range list {
			x.before[typeURL][name] = body
		}
	}
}

// addChanges adds the resources that changed since startRecord. A resource that was sent and is the
// same as before has the operation "resent", which the prediction never has. Only the endpoints of
// changed clusters may be sent again.
func (x *proxy) addChanges(set map[string]bool) {
	name := debug.DisplayName(x.who)
	changed := map[string]bool{}
	add := func(typeURL, resource string, op diff.Operation) {
		set[fmt.Sprintf("%s %s %s %s", name, api.ShortType(typeURL), op, resource)] = true
		changed[api.ShortType(typeURL)+" "+resource] = true
		if op != diff.Removed && !x.sent[api.ShortType(typeURL)+" "+resource] {
			x.t.Errorf("%s has another %s %s, which it was not sent", name, api.ShortType(typeURL), resource)
		}
	}
	for typeURL, list := range x.held {
		for resource, body := range list {
			switch old, had := x.before[typeURL][resource]; {
			case !had:
				add(typeURL, resource, diff.Added)
			case old != body:
				add(typeURL, resource, diff.Changed)
			}
		}
	}
	for typeURL, list := range x.before {
		for resource := range list {
			if _, has := x.held[typeURL][resource]; !has {
				add(typeURL, resource, diff.Removed)
			}
		}
	}
	for resource := range x.sent {
		// A changed cluster warms until its endpoints are sent again.
		cluster, isAssignment := strings.CutPrefix(resource, "EDS ")
		if !changed[resource] && !(isAssignment && changed["CDS "+cluster]) {
			set[name+" "+strings.Replace(resource, " ", " resent ", 1)] = true
		}
	}
}
