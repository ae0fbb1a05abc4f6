package stream

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/meshpilot/meshpilot/internal/resource"
)

// TestModel drives a Machine and a client by the book with random steps, in both modes: changes, crossing and delayed
// messages, refusals, slow streams, broken streams, time. At every step the client's configuration must hang together, and
// nothing unchanged may be sent unasked; at rest it must equal the server's view, byte for byte.
func TestModel(t *testing.T) {
	for _, mode := range []Mode{SotW, Delta} {
		t.Run(mode.String(), func(t *testing.T) {
			for range 5 { // a hundred runs each
				rapid.Check(t, func(rt *rapid.T) { newModel(rt, mode).run() })
			}
		})
	}
}

type model struct {
	*rapid.T
	mode    Mode
	m       *Machine
	c       *modelClient
	mesh    modelMesh
	world   *World
	asked   [len(pushOrder)]map[string]bool // by this client and others of its class
	writing bool
	down    []Send // on the wire to the client
	wants   []Want // not looked up yet
	book    book
	log     []string
}

// modelMesh is the truth: bodies by name.
type modelMesh struct {
	clusters, endpoints, listeners, routes map[string]string
	tick                                   int
}

func newModel(t *rapid.T, mode Mode) *model {
	m := &model{T: t, mode: mode, c: newModelClient(mode)}
	m.mesh = modelMesh{map[string]string{}, map[string]string{}, map[string]string{}, map[string]string{}, 0}
	for i := range m.asked {
		m.asked[i] = map[string]bool{}
	}
	m.connect()
	return m
}

func (m *model) run() {
	steps := rapid.IntRange(5, 120).Draw(m.T, "steps")
	for range steps {
		switch rapid.IntRange(0, 15).Draw(m.T, "what") {
		case 0, 1, 2:
			m.change()
		case 3:
			if rapid.IntRange(0, 4).Draw(m.T, "reconnect") == 0 && m.restartable() {
				m.note("reconnect")
				m.connect()
			}
		case 4:
			if len(m.c.toServer) == 0 { // a request is not under way for a second
				m.step(Overdue{})
			}
		case 5:
			m.resubscribe()
		case 6:
			m.look()
		case 7, 8, 9:
			m.up()
		case 10, 11, 12:
			m.written()
		default:
			m.deliver()
		}
	}
	m.rest()
}

// restartable says that a new stream can be told apart by the rules: in SotW a client cannot say what it has, so a full
// answer may take clusters from it before its routes are brought up to date.
func (m *model) restartable() bool { return m.mode == Delta }

func (m *model) note(format string, args ...any) { m.log = append(m.log, fmt.Sprintf(format, args...)) }

func (m *model) fail(format string, args ...any) {
	m.Helper()
	m.Fatalf("%s\n%s", fmt.Sprintf(format, args...), strings.Join(m.log, "\n"))
}

func (m *model) connect() {
	m.m = New(Options{Mode: m.mode})
	m.down, m.wants, m.writing = nil, nil, false
	m.c.connect()
	m.book = newBook()
	if m.world != nil {
		m.step(Ready{World: m.world})
	}
}

// change makes a new consistent World: routes refer to clusters that exist, listeners to routes.
func (m *model) change() {
	h := &m.mesh
	for range rapid.IntRange(1, 4).Draw(m.T, "edits") {
		h.tick++
		v := fmt.Sprint(h.tick)
		switch rapid.IntRange(0, 6).Draw(m.T, "edit") {
		case 0, 1:
			h.clusters[m.pick("c", 6)] = v
		case 2:
			delete(h.clusters, m.pick("c", 6))
		case 3:
			h.endpoints[m.pick("c", 6)] = v
		case 4:
			l := m.pick("l", 3)
			if delete(h.listeners, l); rapid.IntRange(0, 3).Draw(m.T, "gone") > 0 {
				h.listeners[l] = v + ";" + strings.Join(m.some("r", 4), ",")
			}
		case 5:
			r := m.pick("r", 4)
			if gone := rapid.IntRange(0, 4).Draw(m.T, "gone") == 0; gone && m.mode == Delta { // SotW could not say so
				delete(h.routes, r)
			} else {
				h.routes[r] = v + ";" + strings.Join(m.some("c", 6), ",")
			}
		case 6:
			if rapid.IntRange(0, 3).Draw(m.T, "bad") == 0 {
				h.routes[m.pick("r", 4)] = v + "bad;"
			}
		}
	}
	for name, body := range h.routes { // no route to a cluster that is not there
		head, list, _ := strings.Cut(body, ";")
		kept := slices.DeleteFunc(strings.Split(list, ","), func(c string) bool { return h.clusters[c] == "" })
		if strings.Join(kept, ",") != list {
			h.routes[name] = fmt.Sprintf("%s.%d;%s", head, h.tick, strings.Join(kept, ","))
		}
	}
	if rapid.IntRange(0, 9).Draw(m.T, "others") == 0 {
		m.asked[eds][m.pick("c", 6)] = true
		m.asked[rds][m.pick("r", 4)] = true
	}
	if rapid.IntRange(0, 9).Draw(m.T, "forgotten") == 0 { // a name is not looked up any more, though somebody may want it
		delete(m.asked[eds], m.pick("c", 6))
		delete(m.asked[rds], m.pick("r", 4))
	}
	m.publish()
}

func (m *model) pick(prefix string, n int) string {
	return fmt.Sprint(prefix, rapid.IntRange(0, n-1).Draw(m.T, prefix))
}

func (m *model) some(prefix string, n int) []string {
	var list []string
	for i := range n {
		if rapid.Bool().Draw(m.T, prefix) {
			list = append(list, fmt.Sprint(prefix, i))
		}
	}
	return list
}

// publish makes a World of the mesh: clusters on two Shelves, endpoints for all clusters and for every name asked for.
func (m *model) publish() {
	h := &m.mesh
	for c := range h.clusters {
		m.asked[eds][c] = true
	}
	endpoints := map[string]string{}
	for c := range m.asked[eds] {
		endpoints[c] = "empty"
		if h.clusters[c] != "" {
			endpoints[c] = "e" + h.endpoints[c]
		}
	}
	routes := maps.Clone(h.routes)
	maps.DeleteFunc(routes, func(r, _ string) bool { return !m.asked[rds][r] })
	low, high := map[string]string{"static": "0"}, map[string]string{}
	for c, v := range h.clusters {
		if c < "c3" {
			low[c] = v
		} else {
			high[c] = v
		}
	}
	old := m.world
	m.world = NewWorld(map[string][]*Shelf{
		pushOrder[cds].url: {m.shelf(old, cds, 0, low), m.shelf(old, cds, 1, high)},
		pushOrder[eds].url: {m.shelf(old, eds, 0, endpoints)},
		pushOrder[lds].url: {m.shelf(old, lds, 0, h.listeners)},
		pushOrder[rds].url: {m.shelf(old, rds, 0, routes)},
	}, ownEndpoints)
	m.note("world c=%v e=%v l=%v r=%v", h.clusters, endpoints, h.listeners, routes)
	m.step(Ready{World: m.world})
}

// shelf gives the old Shelf if nothing differs.
func (m *model) shelf(old *World, at, i int, bodies map[string]string) *Shelf {
	var list []*resource.Resource
	for name, body := range bodies {
		list = append(list, resource.FromBytes(name, pushOrder[at].url, []byte(body)))
	}
	set, err := resource.NewSet(list)
	if err != nil {
		m.fail("%v", err)
	}
	if pushOrder[at].whole {
		if old != nil && old.shelves[at][i].set.Version() == set.Version() {
			return old.shelves[at][i]
		}
		return NewShelf(set)
	}
	return NewNamedShelf(set, names(m.asked[at]))
}

// step feeds the Machine and takes what it wants done.
func (m *model) step(e Event) {
	m.note("> %T%+v", e, brief(e))
	for _, a := range m.m.Step(e) {
		m.note("< %s", describe(a))
		switch a := a.(type) {
		case Send:
			if m.writing {
				m.fail("sent while writing")
			}
			m.writing = true
			if err := m.book.sent(a, m.mode); err != "" {
				m.fail("%s", err)
			}
			m.down = append(m.down, a)
		case Want:
			m.wants = append(m.wants, a)
		case Unknown, Shut:
			m.fail("unexpected %s", describe(a))
		}
	}
}

func brief(e Event) any {
	if r, ok := e.(Request); ok {
		return r
	}
	return ""
}

// look has the names looked up that were wanted so far.
func (m *model) look() {
	if len(m.wants) == 0 {
		return
	}
	for _, w := range m.wants {
		for _, n := range w.Names {
			m.asked[place(w.TypeURL)][n] = true
		}
	}
	m.wants = nil
	m.publish()
}

// up brings the client's next request to the server.
func (m *model) up() {
	if len(m.c.toServer) == 0 {
		return
	}
	r := m.c.toServer[0]
	m.c.toServer = m.c.toServer[1:]
	m.book.request(r, m.mode)
	m.step(r)
}

func (m *model) written() {
	if m.writing {
		m.writing = false
		m.step(Sent{})
	}
}

// deliver brings the server's next response to the client.
func (m *model) deliver() {
	if len(m.down) == 0 {
		return
	}
	s := m.down[0]
	m.down = m.down[1:]
	m.c.receive(s)
	m.note("client has %s %s", s.TypeURL[strings.LastIndex(s.TypeURL, ".")+1:], s.Nonce)
	if err := m.c.check(); err != "" {
		m.fail("%s", err)
	}
}

// resubscribe asks for a name again, as a client that dropped an answer does.
func (m *model) resubscribe() {
	if m.mode != Delta || !m.c.asked[eds] || len(m.c.want[eds]) == 0 {
		return
	}
	name := rapid.SampledFrom(names(m.c.want[eds])).Draw(m.T, "again")
	m.c.toServer = append(m.c.toServer, Request{TypeURL: pushOrder[eds].url, Subscribe: []string{name}})
}

// rest lets everything come to rest, and compares.
func (m *model) rest() {
	for range patience + 2 {
		for m.writing || len(m.down) > 0 || len(m.c.toServer) > 0 || len(m.wants) > 0 {
			m.written()
			m.up()
			m.deliver()
			m.look()
		}
		m.step(Overdue{})
	}
	if m.writing || len(m.c.warming) > 0 {
		m.fail("not at rest: warming %v", m.c.warming)
	}
	if m.world == nil {
		return
	}
	for _, at := range []int{cds, eds, lds, rds} {
		if !m.c.asked[at] {
			continue
		}
		m.compare(at)
	}
	if !m.m.Idle() {
		m.fail("not idle at rest")
	}
	before := len(m.log)
	m.publish() // the same again, in new sets for the named types
	if sent := slices.IndexFunc(m.log[before:], func(l string) bool { return strings.HasPrefix(l, "< send") }); sent >= 0 {
		m.fail("sent though nothing changed")
	}
}

func (m *model) compare(at int) {
	for _, shelf := range m.world.shelves[at] {
		for _, r := range shelf.set.List() {
			if !pushOrder[at].whole && !m.c.want[at][r.Name] || strings.Contains(string(r.Body), "bad") {
				continue
			}
			if at == eds && m.lingers(cds, r.Name) {
				continue // and keeps its endpoints
			}
			if have := m.c.cache[at][r.Name]; have == nil || have.Version != r.Version {
				m.fail("%s: client has %v, server %s=%s", pushOrder[at].url, have, r.Name, r.Body)
			}
		}
	}
	if m.mode == SotW && !pushOrder[at].whole {
		return // cannot be told that something is gone
	}
	for name := range m.c.cache[at] {
		if m.world.get(at, name) == nil && !m.lingers(at, name) {
			m.fail("%s: client still has %s", pushOrder[at].url, name)
		}
	}
}

// lingers says that a cluster may rightly be there still: a route is refused, so the client uses an older one.
func (m *model) lingers(at int, name string) bool {
	s := m.m.subs[at]
	_, gone := s.gone[name]
	r := m.m.subs[rds]
	return gone && r != nil && len(r.refused) > 0
}
