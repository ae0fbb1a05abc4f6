package rollout_test

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/xds/push/pushtest"
	"github.com/meshpilot/meshpilot/internal/xds/rollout"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// harness is the shell of a Rollout in tests: it runs its generators and answers its queries.
type harness struct {
	t       testing.TB
	mesh    *pushtest.Mesh
	r       *rollout.Rollout
	now     time.Time
	clients map[string]*client
	jobs    []*rollout.Job
	// If manual, jobs run only on request of the script. Generators of the failing types panic.
	manual  bool
	failing map[string]bool
	// If order is set, jobs finish in random order, each in its own Step. Otherwise they
	// finish together, sorted by type.
	order *rand.Rand
	lines []string
	// due are the types of the pending jobs. verbose prints them.
	due     map[string]bool
	verbose bool
	turns   int
}

// client is a proxy that acknowledges what it was offered when the script requests it.
type client struct {
	rollout.Client
	offered, acked *stream.ResourceSnapshot
	accepted       map[string]bool // TYPE NAME VERSION
	asked          map[string][]string
	closed         bool
}

func startTime() time.Time { return time.Unix(1_000_000, 0).UTC() }

// inbound returns a generator of a listener that describes what a proxy serves and the mutual TLS
// modes that it accepts.
func inbound() view.Generator {
	return view.Generator{TypeURL: api.ListenerType, Inbound: true, All: func(v *view.View) []*resource.Resource {
		body := fmt.Sprint(v.Key.Inbound, " ", v.Key.PeerModes(v.Snapshot).Text())
		return []*resource.Resource{resource.FromBytes("virtualInbound", api.ListenerType, []byte(body))}
	}}
}

// newHarness returns a harness whose Rollout has been published a mesh of n services. By default it
// has the generators of pushtest and one of inbound listeners.
func newHarness(t testing.TB, n int, o rollout.Options) *harness {
	h := &harness{
		t:       t,
		mesh:    pushtest.New(t, n),
		now:     startTime(),
		clients: map[string]*client{},
		failing: map[string]bool{},
		due:     map[string]bool{},
	}
	if o.Generators == nil {
		o.Generators = append(new(pushtest.Generators).Table(), inbound())
	}
	h.r = rollout.New(o)
	h.mesh.Publish = func(s *snapshot.Snapshot, d snapshot.Delta) {
		h.step(rollout.Published{Snapshot: s, Delta: d, First: h.now, Last: h.now})
	}
	h.mesh.Publish(h.mesh.Current(), snapshot.Delta{All: true})
	return h
}

func (h *harness) client(name string) *client {
	c := h.clients[name]
	if c == nil {
		h.t.Fatalf("no client %q", name)
	}
	return c
}

// connect adds a client "pN" or "pN-more". anonymous ones have no identity.
func (h *harness) connect(name, namespace string, anonymous bool) *client {
	digits, _, _ := strings.Cut(name[1:], "-")
	i, err := strconv.Atoi(digits)
	if err != nil {
		h.t.Fatal(err)
	}
	who := pushtest.Proxy(i, namespace)
	who.Metadata.IstioVersion = "1.31.0"
	if anonymous {
		who.Identity = ""
	}
	c := &client{
		Client:   rollout.Client{ID: name, Proxy: who},
		accepted: map[string]bool{},
		asked:    map[string][]string{},
	}
	h.clients[name] = c
	h.step(rollout.Connected{Client: &c.Client})
	return c
}

func (h *harness) subscribe(c *client, typeURL string, names ...string) {
	c.asked[typeURL] = slices.Compact(slices.Sorted(slices.Values(append(c.asked[typeURL], names...))))
	h.step(rollout.Subscribed{Client: &c.Client, TypeURL: typeURL, Names: c.asked[typeURL]},
		rollout.NamesWanted{Client: &c.Client, TypeURL: typeURL, Names: slices.Sorted(slices.Values(names))})
}

func types() []string {
	return []string{api.ClusterType, api.EndpointType, api.ListenerType, api.RouteType}
}

// acknowledge makes a client accept everything that it was offered.
func (h *harness) acknowledge(c *client) {
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
	h.step(append(events, rollout.Acknowledged{Client: &c.Client, Resources: w})...)
}

// refuse makes a client refuse a resource that it was offered.
func (h *harness) refuse(c *client, typeURL, name string) {
	for _, group := range c.offered.Groups(typeURL) {
		if r := group.Set().Get(name); r != nil && !c.accepted[key(r)] {
			h.step(rollout.Refused{Client: &c.Client, TypeURL: typeURL, Resources: []rollout.RefusedResource{{
				Name: name, Version: r.Version, Message: "no " + name, From: r.From,
			}}})
		}
	}
}

func (h *harness) disconnect(c *client) {
	c.closed = true
	delete(h.clients, c.ID)
	h.step(rollout.Disconnected{Client: &c.Client})
}

func key(r *resource.Resource) string { return r.TypeURL + " " + r.Name + " " + r.Version }

// wait advances the clock by d, with a Tick at each time that the Rollout requests.
func (h *harness) wait(d time.Duration) {
	end := h.now.Add(d)
	for {
		next := h.r.Next()
		if !next.After(h.now) {
			next = h.now.Add(time.Millisecond)
		}
		if next.After(end) {
			break
		}
		h.now = next
		h.step(rollout.Tick{})
	}
	h.now = end
	h.step(rollout.Tick{})
}

// step applies events and executes the resulting actions until there are no more.
func (h *harness) step(events ...rollout.Event) {
	for {
		actions := slices.Clone(h.r.Step(h.now, events...))
		if err := h.r.CheckIndex(); err != nil {
			h.t.Fatal(err)
		}
		events = nil
		var lines []string
		for _, a := range actions {
			line, follow := h.carryOut(a)
			if line != "" {
				lines = append(lines, line)
			}
			events = append(events, follow...)
		}
		slices.Sort(lines)
		if h.verbose && len(h.due) > 0 {
			lines = append(lines, "generate "+strings.Join(slices.Sorted(maps.Keys(h.due)), " "))
		}
		clear(h.due)
		h.lines = append(h.lines, lines...)
		if len(events) == 0 && !h.manual {
			events = h.generate()
		}
		if len(events) == 0 {
			return
		}
	}
}

// generate runs the jobs that are due, or a random one of them if order is set and manual is not.
func (h *harness) generate() (events []rollout.Event) {
	if h.order != nil && !h.manual && len(h.jobs) > 0 {
		i := h.order.IntN(len(h.jobs))
		j := h.jobs[i]
		h.jobs = slices.Delete(h.jobs, i, i+1)
		return []rollout.Event{h.finish(j)}
	}
	slices.SortStableFunc(h.jobs, func(a, b *rollout.Job) int { return cmp.Compare(a.TypeURL(), b.TypeURL()) })
	for _, j := range h.jobs {
		events = append(events, h.finish(j))
	}
	h.jobs = nil
	return events
}

// finish runs a job. Generators of the failing types panic.
func (h *harness) finish(j *rollout.Job) rollout.Event {
	if h.failing[api.ShortType(j.TypeURL())] {
		return rollout.GeneratorFailed{Job: j}
	}
	return rollout.Generated{Job: j, Product: j.Run().Product}
}

func (h *harness) carryOut(a rollout.Action) (line string, follow []rollout.Event) {
	switch a := a.(type) {
	case rollout.Generate:
		h.jobs = append(h.jobs, a.Job)
		h.due[api.ShortType(a.Job.TypeURL())] = true
		return "", nil
	case rollout.Offer:
		return h.offer(a), nil
	case rollout.FindAcknowledged:
		answer := rollout.Answered{Question: a.Question}
		for _, x := range a.Candidates {
			if c := h.clients[x.Client.ID]; c != nil && c.accepted[key(x.Resource)] {
				answer.By = x.Client
			}
		}
		line = "ask voters: none has acknowledged it"
		if answer.By != nil {
			line = "ask voters: one has acknowledged it"
		}
		return line, []rollout.Event{answer}
	case rollout.ReportProgress:
		var behind []string
		for _, handle := range a.Clients {
			switch c := h.clients[handle.ID]; {
			case c != nil && c.acked == c.offered:
				follow = append(follow, rollout.Acknowledged{Client: handle, Resources: c.acked})
			default:
				behind = append(behind, handle.ID)
			}
		}
		slices.Sort(behind)
		return fmt.Sprintf("update clients: %d are behind", len(behind)), follow
	case rollout.TurnBegan:
		return "", nil
	case rollout.TurnEnded:
		h.turns++
		return fmt.Sprintf("turn ended: %s", strings.Join(a.Triggers, " ")), nil
	default:
		return describeRecord(a), nil
	}
}

func describeRecord(a rollout.Action) string {
	switch a := a.(type) {
	case rollout.BarrierTimedOut:
		return fmt.Sprintf("barrier timed out: %d servers", a.Servers)
	case rollout.TransitionTimedOut:
		return fmt.Sprintf("transition timed out: %d clients", a.Clients)
	case rollout.QuarantineBegan:
		q := a.Quarantined
		what := api.ShortType(q.TypeURL) + " " + q.Name
		if q.Suspended.Name != "" {
			what = "EnvoyFilter " + q.Suspended.Name + " in " + what
		}
		return fmt.Sprintf("quarantine %s: refused by %d, replaced %t, withheld %t, for %v",
			what, q.Connections, q.Replaced, q.Withheld, q.Until.Sub(q.Since))
	case rollout.QuarantineEnded:
		return fmt.Sprintf("quarantine ended: %s %s, %s", api.ShortType(a.TypeURL), a.Name, a.Reason)
	case rollout.QuarantineCounted:
		return fmt.Sprintf("quarantined: %d", a.Quarantined)
	}
	return fmt.Sprintf("unknown action %T", a)
}

// offer records a ResourceSnapshot at its clients and describes how it differs from what the first
// of them was offered before.
func (h *harness) offer(a rollout.Offer) string {
	var names, differs []string
	for _, handle := range a.Clients {
		names = append(names, handle.ID)
	}
	slices.Sort(names)
	before := h.client(names[0]).offered
	for _, typeURL := range types() {
		if version(before, typeURL) != version(a.Resources, typeURL) {
			differs = append(differs, api.ShortType(typeURL))
		}
	}
	for _, name := range names {
		h.client(name).offered = a.Resources
	}
	if len(differs) == 0 {
		differs = []string{"nothing new"}
	}
	return "offer " + strings.Join(names, " ") + ": " + strings.Join(differs, " ")
}

func version(w *stream.ResourceSnapshot, typeURL string) string {
	var list []string
	for _, s := range w.Groups(typeURL) {
		list = append(list, s.Set().Version())
	}
	return strings.Join(list, " ")
}
