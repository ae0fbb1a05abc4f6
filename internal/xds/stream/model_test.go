package stream

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/meshpilot/meshpilot/test/support/scorecard"
)

var modelSteps = flag.Int(
	"model.steps",
	scorecard.BySize(60_000, 2_000_000, 10_000_000),
	"how many random steps TestModel makes in each mode",
)

// TestModel drives a Machine and a client that follows the protocol with random steps, in both
// modes: changes, crossing and delayed messages, refusals, hanging clusters, slow and broken
// streams, and time. At every step the client's configuration must be consistent, and no unchanged
// resource may be sent without a request. When idle, it must equal the server's view, byte for
// byte.
func TestModel(t *testing.T) {
	scorecard.Check(t, 16, scorecard.Size("random steps of each mode", *modelSteps))
	for _, mode := range []Mode{SotW, Delta} {
		check := scorecard.Check(
			t,
			map[Mode]int{SotW: 17, Delta: 18}[mode],
			scorecard.Size("random steps", *modelSteps),
		)
		t.Run(mode.String(), func(t *testing.T) {
			steps := 0
			for steps < *modelSteps && !t.Failed() {
				rapid.Check(t, func(rt *rapid.T) { steps += newModel(rt, mode, false).run() }) // a hundred runs
			}
			check.Measured("steps made", steps)
		})
	}
}

type model struct {
	*rapid.T
	mode    Mode
	m       *Machine
	c       *modelClient
	mesh    *modelMesh
	writing bool
	down    []Send // in transit to the client
	wants   []Want // not looked up yet
	book    book
	log     []string
	// fetching is set with clusters that the client fetches on demand, else nil.
	fetching *modelFetching
}

// newModel returns a model whose client has connected. With onDemand, it fetches clusters on demand.
func newModel(t *rapid.T, mode Mode, onDemand bool) *model {
	m := &model{T: t, mode: mode, c: newModelClient(mode), mesh: newModelMesh()}
	if onDemand {
		m.c.onDemand, m.mesh.onDemand, m.fetching = true, true, &modelFetching{}
	}
	m.connect()
	return m
}

func (m *model) run() int {
	steps := rapid.IntRange(5, 120).Draw(m.T, "steps")
	for range steps {
		switch rapid.IntRange(0, 16).Draw(m.T, "what") {
		case 0, 1, 2:
			m.mesh.change(m.T, m.mode)
			m.publish()
		case 3:
			if rapid.IntRange(0, 4).Draw(m.T, "reconnect") == 0 {
				m.logStep("reconnect")
				m.connect()
			}
		case 4:
			if len(m.c.toServer) == 0 { // no request is in transit for a second
				m.overdue()
			}
		case 5:
			m.resubscribe()
		case 6:
			m.lookUpNames()
		case 7, 8, 9:
			m.deliverRequest()
		case 10, 11, 12:
			m.written()
		case 13:
			if m.fetching != nil && rapid.Bool().Draw(m.T, "call") {
				m.callCluster()
			} else if len(m.c.hanging) > 0 && rapid.IntRange(0, 9).Draw(m.T, "unhang") == 0 {
				m.logStep("unhang")
				m.c.unhang()
			}
		default:
			m.deliverResponse()
		}
	}
	m.checkIdle()
	return steps
}

func (m *model) logStep(format string, args ...any) {
	m.log = append(m.log, fmt.Sprintf(format, args...))
}

func (m *model) fail(format string, args ...any) {
	m.Helper()
	m.Fatalf("%s\n%s", fmt.Sprintf(format, args...), strings.Join(m.log, "\n"))
}

func (m *model) connect() {
	m.m = New(Options{Mode: m.mode})
	m.down, m.wants, m.writing = nil, nil, false
	m.c.connect()
	m.keepOnlyUnknownBrought()
	m.book = newBook()
	if m.fetching != nil {
		m.fetching.startStream(m.mesh.pinned())
	}
	if m.mesh.resources != nil {
		m.step(Ready{Resources: m.mesh.resources})
	}
}

// keepOnlyUnknownBrought removes from brought the endpoints of clusters that have existed since the
// client connected. The generator decides about these when their clusters are deleted.
func (m *model) keepOnlyUnknownBrought() {
	for name := range m.mesh.bodies[cds] {
		delete(m.c.brought, name)
	}
}

func (m *model) publish() {
	w := m.mesh.publish()
	m.keepOnlyUnknownBrought()
	if m.fetching != nil {
		m.fetching.pin(m.mesh.pinned())
		for _, c := range m.mesh.pinned() { // if the client only reported it, its version is not retained
			m.book.reason[key(cds, c)] = true
		}
	}
	m.logStep("resources %v", m.mesh.bodies)
	m.step(Ready{Resources: w})
}

// step applies an event to the Machine and executes the returned actions.
func (m *model) step(e Event) {
	m.logStep("> %T%+v", e, brief(e))
	for _, a := range m.m.Step(e) {
		m.logStep("< %s", describe(a))
		switch a := a.(type) {
		case Send:
			if m.writing {
				m.fail("sent while writing")
			}
			m.writing = true
			if err := m.book.sent(a, m.mode); err != "" {
				m.fail("%s", err)
			}
			if err := m.fetching.checkRemovals(a); err != "" {
				m.fail("%s", err)
			}
			m.down = append(m.down, a)
		case Want:
			m.wants = append(m.wants, a)
		case Late:
			for _, c := range a.Clusters {
				if m.book.asked[cds] && !m.m.stuck && m.book.seconds-m.book.born[c] < deadline {
					m.fail("%s is late after %d seconds", c, m.book.seconds-m.book.born[c])
				}
			}
		case Unknown, EndStream:
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

func (m *model) overdue() {
	if !m.writing {
		m.book.seconds++
	}
	m.step(Tick{})
}

// lookUpNames answers the Wants so far.
func (m *model) lookUpNames() {
	if len(m.wants) == 0 {
		return
	}
	for _, w := range m.wants {
		for _, n := range w.Names {
			m.mesh.asked[envoyTypes.positionOf(w.TypeURL)][n] = true
		}
	}
	m.wants = nil
	m.publish()
}

// deliverRequest delivers the client's next request to the server.
func (m *model) deliverRequest() {
	if len(m.c.toServer) == 0 {
		return
	}
	r := m.c.toServer[0]
	m.c.toServer = m.c.toServer[1:]
	m.book.request(r, m.mode)
	m.fetching.recordRequest(r)
	if l := m.mesh.setList(r.TypeURL); r.Held.equalSets(l) && rapid.Bool().Draw(m.T, "known") {
		r.Held = HoldingsOfSets(l) // as a server that knows what the client reports
	}
	m.step(r)
}

func (m *model) written() {
	if m.writing {
		m.writing = false
		m.step(Sent{})
	}
}

// deliverResponse delivers the server's next response to the client.
func (m *model) deliverResponse() {
	if len(m.down) == 0 {
		return
	}
	s := m.down[0]
	m.down = m.down[1:]
	before := m.c.dangling()
	m.c.receive(s)
	m.logStep("client has %s %s; warming %v", s.TypeURL[strings.LastIndex(s.TypeURL, ".")+1:], s.Nonce, names(m.c.warming))
	if m.c.broken != "" {
		m.fail("%s", m.c.broken)
	}
	for _, cluster := range SubtractNames(m.c.dangling(), before) {
		if !m.excused(cluster) {
			m.fail("something refers to %s, which is not there or not warm", cluster)
		}
	}
}

// excused reports whether requests to a cluster may fail: the server has waited for it as long as
// it may, it hangs among others that hang, so that the server cannot see it, or it cannot be
// avoided.
func (m *model) excused(cluster string) bool {
	born, sent := m.book.born[cluster]
	switch {
	case m.book.asked[cds] && sent && m.book.seconds-born >= deadline:
		return true
	case m.c.refused[cluster], m.mode == SotW && m.c.emptied[cluster]:
		return true
	case m.c.blank && m.c.nonce[cds] == "":
		return true // the server cannot distinguish the client from one that wants no clusters
	case m.c.nonce[cds] == "": // connected while a cluster was warming
		return m.book.seconds >= deadline
	case m.m.stuck && m.c.hanging[cluster]:
		return len(m.c.held) > 0
	default:
		return m.mode == SotW && m.c.taken[cluster]
	}
}

// resubscribe requests a name again, as a client does that dropped a response.
func (m *model) resubscribe() {
	at := rapid.SampledFrom([]int{eds, rds, ecds}).Draw(m.T, "type")
	if m.mode != Delta || !m.c.asked[at] || len(m.c.want[at]) == 0 {
		return
	}
	name := rapid.SampledFrom(names(m.c.want[at])).Draw(m.T, "again")
	delete(m.c.brought, name) // if these are endpoints, the client reports that it has none
	m.c.toServer = append(m.c.toServer, Request{TypeURL: pushOrder[at].URL, Subscribe: []string{name}})
}

// settle delivers all messages in transit.
func (m *model) settle() {
	for m.writing || len(m.down) > 0 || len(m.c.toServer) > 0 || len(m.wants) > 0 {
		m.written()
		m.deliverRequest()
		m.deliverResponse()
		m.lookUpNames()
	}
}

// checkIdle delivers everything until client and server are idle, and compares them.
func (m *model) checkIdle() {
	m.settle()
	m.checkNoDelay()
	if rapid.Bool().Draw(m.T, "warm at last") {
		m.c.unhang()
		m.settle()
	}
	for range patience + 2 {
		m.overdue()
		m.settle()
	}
	if m.writing || len(m.c.warming) > len(m.c.hanging) {
		m.fail("not at rest: warming %v", m.c.warming)
	}
	if m.mesh.resources == nil {
		return
	}
	for _, at := range []int{cds, eds, ecds, lds, rds, nds} {
		if m.c.asked[at] {
			m.compare(at)
		}
	}
	if !m.m.IsIdle() {
		m.fail("not idle at rest")
	}
	if len(m.m.arrivals) > 0 {
		m.fail("something is waited for at rest: %+v", m.m.arrivals)
	}
	before := len(m.log)
	m.publish() // the same state again, in new sets for the named types
	if sent := slices.IndexFunc(
		m.log[before:],
		func(l string) bool { return strings.HasPrefix(l, "< send") },
	); sent >= 0 {
		m.fail("sent though nothing changed")
	}
}

// checkNoDelay checks that no client that has answered everything waits for a timer.
func (m *model) checkNoDelay() {
	if m.mesh.resources == nil || !m.c.started || !m.c.asked[cds] || len(m.c.warming) > 0 ||
		len(m.m.clusters().refused) > 0 {
		return
	}
	for _, at := range []int{ecds, lds, rds, nds} {
		if m.c.asked[at] {
			m.compare(at)
		}
	}
}

func (m *model) compare(at int) {
	for _, group := range m.mesh.resources.lists[at].groups {
		for r := range group.set.All() {
			if !pushOrder[at].Wildcard && !m.c.want[at][r.Name] || strings.Contains(string(r.Body), "bad") {
				continue
			}
			if at == eds && (m.lingers(r.Name) || r.Placeholder) {
				continue // and keeps its endpoints
			}
			if at == cds && m.fetching != nil && !m.mustHave(r.Name) {
				continue
			}
			if have := m.c.cache[at][r.Name]; have == nil || have.Version != r.Version {
				m.fail("%s: client has %v, server %s=%s", pushOrder[at].URL, have, r.Name, r.Body)
			}
		}
	}
	if !pushOrder[at].Removable || m.mode == SotW && !pushOrder[at].Wildcard {
		return // SotW cannot express removals of this type
	}
	for name := range m.c.cache[at] {
		if m.fetching != nil && at == cds {
			m.checkKept(name)
		} else if m.mesh.resources.findResource(at, name) == nil && (at != cds || !m.lingers(name)) {
			m.fail("%s: client still has %s", pushOrder[at].URL, name)
		}
	}
}

// lingers reports whether the client may still have a removed cluster: a resource is refused, so
// the client uses an older version that refers to it.
func (m *model) lingers(name string) bool {
	s := m.m.clusters()
	if s == nil {
		return false
	}
	_, gone := s.gone[name]
	return gone &&
		slices.ContainsFunc(
			m.m.subs,
			func(s *subscription) bool { return s != nil && s.refersToClusters() && len(s.refused) > 0 },
		)
}
