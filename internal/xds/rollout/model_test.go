package rollout_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	security "istio.io/api/security/v1beta1"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/xds/push/pushtest"
	"github.com/meshpilot/meshpilot/internal/xds/rollout"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
	"github.com/meshpilot/meshpilot/test/support/longtest"
)

const maxJobs = 4

// model generates random events, with generators that finish in any order and proxies that answer
// late, refuse or disconnect.
type model struct {
	*harness
	random   *rand.Rand
	jobs     []*rollout.Job
	progress []rollout.ReportProgress
	ids      int
}

// TestRandomEvents checks the invariants of doc.go under random events. In the end every client
// must have been offered exactly what a new Rollout generates from the last snapshot.
func TestRandomEvents(t *testing.T) {
	for seed := range uint64(longtest.Rounds(60, 3000)) {
		h := newHarness(t, 3, rollout.Options{MaxJobs: maxJobs})
		h.manual = true
		m := &model{harness: h, random: rand.New(rand.NewPCG(seed, 7))}
		h.mesh.Publish = func(s *snapshot.Snapshot, d snapshot.Delta) {
			m.play(rollout.Published{Snapshot: s, Delta: d, First: m.now, Last: m.now})
		}
		for range 150 {
			m.randomEvent()
			m.checkBounds(seed)
		}
		m.calm()
		m.checkComplete(seed)
		if t.Failed() {
			return
		}
	}
}

// play applies events. Jobs are stored for later; queries are answered at once.
func (m *model) play(events ...rollout.Event) {
	for {
		actions := slices.Clone(m.r.Step(m.now, events...))
		events = nil
		for _, a := range actions {
			switch a := a.(type) {
			case rollout.Generate:
				for _, other := range m.jobs {
					if other.SameProducer(a.Job) {
						m.t.Errorf("two jobs of one producer of %s at the same time", api.ShortType(a.Job.TypeURL()))
					}
				}
				m.jobs = append(m.jobs, a.Job)
			case rollout.ReportProgress:
				m.progress = append(m.progress, a)
			case rollout.Offer:
				m.checkOffer(a)
				_, _ = m.carryOut(a)
			default:
				_, follow := m.carryOut(a)
				events = append(events, follow...)
			}
		}
		if len(events) == 0 {
			return
		}
	}
}

// checkOffer fails if an offer is for a client that has disconnected, or lacks the resources of a
// type.
func (m *model) checkOffer(a rollout.Offer) {
	for _, handle := range a.Clients {
		if m.clients[handle.ID] == nil {
			m.t.Fatalf("an offer for %s, which has disconnected", handle.ID)
		}
	}
	for _, typeURL := range []string{api.ClusterType, api.ListenerType} {
		if len(a.Resources.Groups(typeURL)) == 0 {
			m.t.Errorf("a ResourceSnapshot without %s is offered", api.ShortType(typeURL))
		}
	}
}

// checkBounds fails if more jobs are without a result than are allowed, or a time that was
// announced has passed.
func (m *model) checkBounds(seed uint64) {
	if len(m.jobs) > maxJobs {
		m.t.Errorf("seed %d: %d jobs are without a result", seed, len(m.jobs))
	}
	if next := m.r.Next(); next.IsZero() {
		m.t.Errorf("seed %d: no next tick", seed)
	}
}

func (m *model) randomClient() *client {
	names := slices.Sorted(maps.Keys(m.clients))
	if len(names) == 0 {
		return nil
	}
	return m.clients[names[m.random.IntN(len(names))]]
}

func (m *model) randomEvent() {
	switch n := m.random.IntN(20); {
	case n < 6:
		m.finishJob()
	case n < 9:
		m.now = m.now.Add(time.Duration(m.random.IntN(400)) * time.Millisecond)
		m.play(rollout.Tick{})
	case n < 10:
		m.now = m.now.Add(time.Duration(m.random.IntN(100)) * time.Second)
		m.play()
	case n < 15:
		m.randomAnswer()
	case n < 17:
		m.randomStream()
	default:
		m.randomChange()
	}
}

// finishJob finishes a random job, sometimes by a panic.
func (m *model) finishJob() {
	if len(m.jobs) == 0 {
		return
	}
	i := m.random.IntN(len(m.jobs))
	j := m.jobs[i]
	m.jobs = slices.Delete(m.jobs, i, i+1)
	if m.random.IntN(20) == 0 {
		m.play(rollout.GeneratorFailed{Job: j})
		return
	}
	m.play(rollout.Generated{Job: j, Product: j.Run().Product})
}

// randomStream connects, disconnects or subscribes a client.
func (m *model) randomStream() {
	c := m.randomClient()
	switch n := m.random.IntN(3); {
	case c == nil || n == 0 && len(m.clients) < 6:
		m.ids++
		i := m.random.IntN(4)
		who := pushtest.Proxy(i, []string{"default", "other"}[m.random.IntN(2)])
		who.Metadata.IstioVersion = "1.31.0"
		if m.random.IntN(4) == 0 {
			who.Identity = ""
		}
		c = &client{
			Client:   rollout.Client{ID: fmt.Sprintf("p%d-%d", i, m.ids), Proxy: who},
			accepted: map[string]bool{}, asked: map[string][]string{},
		}
		m.clients[c.ID] = c
		m.play(rollout.Connected{Client: &c.Client})
		m.want(c, "80")
	case n == 1:
		c.closed = true
		delete(m.clients, c.ID)
		m.play(rollout.Disconnected{Client: &c.Client}, rollout.Acknowledged{Client: &c.Client, Resources: c.offered})
	default:
		m.want(c, fmt.Sprint("route-", m.random.IntN(3)))
	}
}

func (m *model) want(c *client, names ...string) {
	c.asked[api.RouteType] = slices.Compact(
		slices.Sorted(slices.Values(append(slices.Clone(c.asked[api.RouteType]), names...))),
	)
	m.play(rollout.Subscribed{Client: &c.Client, TypeURL: api.RouteType, Names: c.asked[api.RouteType]},
		rollout.NamesWanted{Client: &c.Client, TypeURL: api.RouteType, Names: names})
}

// randomAnswer makes a client acknowledge or refuse an offer, or answers a query for progress. A
// client that was offered nothing has nothing to acknowledge, and may report that.
func (m *model) randomAnswer() {
	c := m.randomClient()
	if c == nil {
		return
	}
	switch n := m.random.IntN(5); {
	case c.offered == nil:
		m.play(rollout.Acknowledged{Client: &c.Client})
	case n == 0:
		typeURL := []string{api.RouteType, api.ListenerType}[m.random.IntN(2)]
		for _, group := range c.offered.Groups(typeURL) {
			for _, r := range group.Set().List() {
				if c.accepted[key(r)] || m.random.IntN(2) == 0 {
					continue
				}
				m.play(rollout.Refused{Client: &c.Client, TypeURL: typeURL, Resources: []rollout.RefusedResource{{
					Name: r.Name, Version: r.Version, Message: "no", From: r.From,
				}}})
			}
		}
	case n == 1:
		for _, p := range m.progress {
			_, follow := m.carryOut(p)
			m.play(follow...)
		}
		m.progress = nil
	default:
		m.accept(c)
	}
}

// accept has a client acknowledge everything that it was offered.
func (m *model) accept(c *client) {
	w := c.offered
	if w == nil {
		return
	}
	var events []rollout.Event
	for _, typeURL := range types() {
		for _, group := range w.Groups(typeURL) {
			for _, r := range group.Set().List() {
				c.accepted[key(r)] = true
			}
			events = append(events, rollout.Accepted{
				Client: &c.Client, TypeURL: typeURL, Resources: w, Everything: true,
				Parts: []*stream.Payload{stream.NewPayload(group.Set().List())},
			})
		}
	}
	c.acked = w
	m.play(append(events, rollout.Acknowledged{Client: &c.Client, Resources: w})...)
}

// randomChange changes the mesh.
func (m *model) randomChange() {
	service := fmt.Sprint("s", m.random.IntN(5))
	address := fmt.Sprint("10.3.0.", m.random.IntN(200))
	if m.random.IntN(2) == 0 { // changes what a proxy serves
		address = pushtest.Proxy(m.random.IntN(4), "").Addresses[0].String()
	}
	switch m.random.IntN(8) {
	case 0:
		m.mesh.AddService(service)
	case 1:
		m.mesh.RemoveService(service)
	case 2:
		m.mesh.SetEndpoints(service, address)
	case 3:
		m.mesh.SetMutualTLS(service, address)
	case 4:
		m.mesh.EditRoutes()
	case 5:
		m.mesh.SetPeers([]security.PeerAuthentication_MutualTLS_Mode{
			security.PeerAuthentication_MutualTLS_DISABLE, security.PeerAuthentication_MutualTLS_PERMISSIVE,
			security.PeerAuthentication_MutualTLS_STRICT,
		}[m.random.IntN(3)])
	case 6:
		m.mesh.SetSidecar(map[string]string{"i": fmt.Sprint(m.random.IntN(4))})
	default:
		m.mesh.SetEnvoyFilter(pushtest.EnvoyFilter{
			Name: "filter", Edit: m.random.IntN(100), Protects: m.random.IntN(2) == 0, Routes: m.random.IntN(2) == 0,
		})
	}
}

// calm ends the random events with a change of everything. All generators finish, all clients
// accept everything, and all barriers, phases and quarantines expire.
func (m *model) calm() {
	m.mesh.Publish(m.mesh.Current(), snapshot.Delta{All: true})
	for range 100 {
		for len(m.jobs) > 0 {
			j := m.jobs[0]
			m.jobs = m.jobs[1:]
			m.play(rollout.Generated{Job: j, Product: j.Run().Product})
		}
		for _, name := range slices.Sorted(maps.Keys(m.clients)) {
			m.accept(m.clients[name])
		}
		m.progress = nil
		m.now = m.now.Add(10 * time.Second)
		m.play(rollout.Tick{})
	}
}

// checkComplete compares the last offer of each client with the offer of a new Rollout to an
// identical proxy.
func (m *model) checkComplete(seed uint64) {
	if q := m.r.Quarantined(); len(q) != 0 {
		m.t.Errorf("seed %d: %d resources are quarantined that all have accepted", seed, len(q))
	}
	if m.r.NeedsProgress() {
		m.t.Errorf("seed %d: the barrier or a transition does not end", seed)
	}
	fresh := newHarness(m.t, 0, rollout.Options{MaxJobs: 100})
	fresh.mesh = m.mesh
	fresh.wait(5 * time.Second)
	fresh.step(rollout.Published{
		Snapshot: m.mesh.Current(), Delta: snapshot.Delta{All: true}, First: fresh.now, Last: fresh.now,
	})
	fresh.wait(5 * time.Second)
	for _, name := range slices.Sorted(maps.Keys(m.clients)) {
		c := m.clients[name]
		x := &client{
			Client:   rollout.Client{ID: name, Proxy: c.Proxy},
			asked:    map[string][]string{},
			accepted: map[string]bool{},
		}
		fresh.clients[name] = x
		fresh.step(rollout.Connected{Client: &x.Client})
		fresh.subscribe(x, api.RouteType, c.asked[api.RouteType]...)
		if c.offered == nil {
			m.t.Errorf("seed %d: %s was offered nothing", seed, name)
			continue
		}
		for _, typeURL := range types() {
			if want, got := contents(x, typeURL), contents(c, typeURL); want != got {
				m.t.Errorf("seed %d: %s was offered other %s than a new proxy:\n%s\nwant\n%s", seed,
					name, api.ShortType(typeURL), got, want)
			}
		}
	}
}

// contents returns the resources of a type that a client was offered: of routes the subscribed
// ones, of endpoints those of its clusters.
func contents(c *client, typeURL string) string {
	var list []string
	for _, group := range c.offered.Groups(typeURL) {
		for _, r := range group.Set().List() {
			if typeURL == api.RouteType && !slices.Contains(c.asked[typeURL], r.Name) {
				continue
			}
			if typeURL == api.EndpointType && !strings.Contains(contents(c, api.ClusterType), r.Name+" ") {
				continue
			}
			list = append(list, r.Name+" "+r.Version)
		}
	}
	slices.Sort(list)
	return strings.Join(list, "\n")
}
