package fleet

import "github.com/meshpilot/meshpilot/test/perf/wire"

// ask sends the first request for a type on this stream.
func (p *proxy) ask(t wire.Type) {
	first := !p.asked[wire.CDS]
	p.asked[t] = true
	if !p.f.options.Delta {
		p.request(t, first)
		return
	}
	var b []byte
	if first {
		b = wire.AppendBytes(b, 1, p.node)
	}
	b = wire.AppendString(b, 2, t.URL())
	if !t.Wildcard() {
		b = p.f.library.appendNames(b, 3, p.wanted[t].each)
	}
	p.send(p.f.library.appendHeld(b, p.held[t]))
}

// request sends a SotW request: an ACK, or another list of names.
func (p *proxy) request(t wire.Type, withNode bool) {
	b := wire.AppendString(nil, 1, p.version[t])
	if withNode {
		b = wire.AppendBytes(b, 2, p.node)
	}
	if !t.Wildcard() {
		b = p.f.library.appendNames(b, 3, p.wanted[t].each)
	}
	b = wire.AppendString(b, 4, t.URL())
	p.send(wire.AppendString(b, 5, p.nonce[t]))
}

// subscribe sends a change of the names followed (delta).
func (p *proxy) subscribe(t wire.Type, add, drop []int32) {
	if len(add)+len(drop) == 0 {
		return
	}
	b := wire.AppendString(nil, 2, t.URL())
	b = p.f.library.appendNames(b, 3, each(add))
	b = p.f.library.appendNames(b, 4, each(drop))
	p.asked[t] = true
	p.send(b)
}

func each(ids []int32) func(func(int32)) {
	return func(yield func(int32)) {
		for _, id := range ids {
			yield(id)
		}
	}
}

// acknowledge takes the response that was just handled.
func (p *proxy) acknowledge(t wire.Type) {
	if p.f.options.Delta {
		p.send(wire.AppendString(wire.AppendString(nil, 2, t.URL()), 6, p.nonce[t]))
		return
	}
	p.request(t, false)
}

func (p *proxy) send(b []byte) { p.out <- b }
