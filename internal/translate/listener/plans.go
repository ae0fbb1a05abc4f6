package listener

import (
	"runtime"
	"sync"
	"sync/atomic"
	"weak"

	"github.com/meshpilot/meshpilot/internal/config"
	"github.com/meshpilot/meshpilot/internal/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/view"
)

// outbound is the outbound listeners of a class, planned and made. Of the plan only that is kept which is still needed: there
// may be as many classes as namespaces.
type outbound struct {
	input     *outboundInput
	resources []*resource.Resource // sorted by name
	// extensions are what chains of them wait for, by name.
	extensions map[string]*resource.Resource
	conflicts  []Conflict
	problems   []config.Problem
}

type outboundKey struct {
	g     *Generator
	class class
}

// outbound gives the outbound listeners of a View's class: once for a state of the mesh, and not anew if what they are
// made of is as it was.
func (g *Generator) outbound(v *view.View) *outbound {
	return snapshot.Derive(v.Snapshot.Derived, outboundKey{g, classOf(v.Key)}, func() *outbound {
		in := inputFor(v)
		if o := g.plans.find(in); o != nil {
			return o
		}
		p := planOutbound(v, in)
		o := &outbound{input: in, resources: g.resources(p.specs, v.Settings), extensions: g.extensionsOf(p.specs, v.Settings), conflicts: p.conflicts, problems: p.problems}
		g.plans.keep(o)
		return o
	})
}

// plans finds the outbound listeners of an earlier state of the mesh again. They are held as long as that state is.
type plans struct {
	mu     sync.Mutex
	newest map[class]weak.Pointer[outbound]
	made   atomic.Uint64
}

// find gives the newest of the class if it was made of the same.
func (p *plans) find(in *outboundInput) *outbound {
	p.mu.Lock()
	o := p.newest[in.class].Value()
	p.mu.Unlock()
	if o == nil || !o.input.equal(in) {
		return nil
	}
	return o
}

func (p *plans) keep(o *outbound) {
	p.made.Add(1)
	c := o.input.class
	w := weak.Make(o)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.newest == nil {
		p.newest = map[class]weak.Pointer[outbound]{}
	}
	p.newest[c] = w
	runtime.AddCleanup(o, func(c class) { p.forget(c, w) }, c)
}

func (p *plans) forget(c class, w weak.Pointer[outbound]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.newest[c] == w {
		delete(p.newest, c)
	}
}
