package stream

import (
	"fmt"
	"maps"
	"testing"

	"pgregory.net/rapid"

	"github.com/meshpilot/meshpilot/internal/model/resource"
)

// TestModelOfConfig drives a Machine for a table of unrelated wildcard types, and a client that
// accepts all of them, with random steps. When idle, the client has what the server has. In delta
// no unchanged resource is sent again.
func TestModelOfConfig(t *testing.T) {
	for _, mode := range []Mode{SotW, Delta} {
		t.Run(mode.String(), func(t *testing.T) {
			for steps := 0; steps < *modelSteps/4 && !t.Failed(); {
				rapid.Check(t, func(rt *rapid.T) {
					m := &configModel{T: rt, mode: mode}
					m.connect()
					steps += m.run()
				})
			}
		})
	}
}

type configModel struct {
	*rapid.T
	mode      Mode
	m         *Machine
	resources *ResourceSnapshot
	truth     [2]map[string]string
	cache     [2]map[string]string // name to version
	tick      int
	writing   bool
	up        []Request
	down      []Send
}

func (m *configModel) connect() {
	m.m = New(Options{Mode: m.mode, Types: configTypes})
	m.up, m.down, m.writing = nil, nil, false
	for i, url := range configTypes.URLs() {
		r := Request{TypeURL: url}
		if m.mode == Delta {
			r.Held = HoldingsOf(m.cache[i])
		}
		m.up = append(m.up, r)
	}
	if m.resources != nil {
		m.step(Ready{Resources: m.resources})
	}
}

func (m *configModel) run() int {
	steps := rapid.IntRange(5, 60).Draw(m.T, "steps")
	for range steps {
		switch rapid.IntRange(0, 9).Draw(m.T, "what") {
		case 0, 1:
			m.change()
		case 2:
			if rapid.IntRange(0, 4).Draw(m.T, "reconnect") == 0 {
				m.connect()
			}
		case 3, 4:
			m.request()
		case 5, 6:
			m.written()
		case 7:
			m.step(Tick{})
		default:
			m.deliverResponse()
		}
	}
	m.rest()
	return steps
}

func (m *configModel) change() {
	m.tick++
	groups := map[string][]*ResourceGroup{}
	at := rapid.IntRange(0, 1).Draw(m.T, "type")
	for i, url := range configTypes.URLs() {
		if m.truth[i] == nil {
			m.truth[i] = map[string]string{}
		}
		if i == at {
			name := pickName(m.T, "ns/", 5)
			if delete(m.truth[i], name); rapid.Bool().Draw(m.T, "stays") {
				m.truth[i][name] = fmt.Sprint(m.tick)
			}
		}
		var list []*resource.Resource
		for name, body := range m.truth[i] {
			list = append(list, resource.FromBytes(name, url, []byte(body)))
		}
		groups[url] = []*ResourceGroup{NewResourceGroup(setOf(list))}
	}
	m.resources = BuildResourceSnapshot(Contents{Types: configTypes, Groups: groups})
	m.step(Ready{Resources: m.resources})
}

func (m *configModel) step(e Event) {
	for _, a := range m.m.Step(e) {
		if s, ok := a.(Send); ok {
			if m.writing {
				m.Fatal("sent while writing")
			}
			m.writing = true
			m.down = append(m.down, s)
		}
	}
}

func (m *configModel) request() {
	if len(m.up) > 0 {
		r := m.up[0]
		m.up = m.up[1:]
		m.step(r)
	}
}

func (m *configModel) written() {
	if m.writing {
		m.writing = false
		m.step(Sent{})
	}
}

func (m *configModel) deliverResponse() {
	if len(m.down) == 0 {
		return
	}
	s := m.down[0]
	m.down = m.down[1:]
	at := configTypes.positionOf(s.TypeURL)
	if m.cache[at] == nil || m.mode == SotW {
		m.cache[at] = map[string]string{}
	}
	for _, p := range s.Parts {
		for _, r := range p.Resources() {
			if m.cache[at][r.Name] == r.Version {
				m.Fatalf("%s sent again unchanged", r.Name)
			}
			m.cache[at][r.Name] = r.Version
		}
	}
	for _, n := range s.Removed {
		delete(m.cache[at], n)
	}
	m.up = append(m.up, Request{TypeURL: s.TypeURL, Nonce: s.Nonce, Version: s.Version})
}

func (m *configModel) rest() {
	for len(m.up)+len(m.down) > 0 || m.writing {
		m.request()
		m.written()
		m.deliverResponse()
	}
	if m.resources == nil {
		return
	}
	if !m.m.IsIdle() || !m.m.HasConverged() {
		m.Fatal("the machine is not idle")
	}
	for i := range m.cache {
		want := map[string]string{}
		for _, r := range m.resources.lists[i].groups[0].set.List() {
			want[r.Name] = r.Version
		}
		if !maps.Equal(want, m.cache[i]) {
			m.Fatalf("the client has %v of type %d, want %v", m.cache[i], i, want)
		}
	}
}
