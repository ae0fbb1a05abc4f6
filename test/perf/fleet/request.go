package fleet

import (
	"bytes"

	"github.com/meshpilot/meshpilot/test/perf/wire"
)

// requestType sends the first request for a type on this stream.
func (p *proxy) requestType(t wire.Type) {
	first := !p.asked[wire.CDS]
	p.asked[t] = true
	if !p.f.options.Delta {
		p.sendRequest(t, first)
		return
	}
	var b []byte
	if first {
		b = wire.AppendBytes(b, 1, p.encodeNode())
	}
	b = wire.AppendString(b, 2, t.URL())
	if !t.Wildcard() {
		b = p.f.library.appendNames(b, 3, p.wanted[t].forEach)
	}
	p.sendMessage(p.f.library.appendHeld(b, p.held[t]))
}

// sendRequest sends a SotW request: an ACK, or another list of names.
func (p *proxy) sendRequest(t wire.Type, withNode bool) {
	b := wire.AppendString(nil, 1, p.version[t])
	if withNode {
		b = wire.AppendBytes(b, 2, p.encodeNode())
	}
	if !t.Wildcard() {
		b = p.f.library.appendNames(b, 3, p.wanted[t].forEach)
	}
	b = wire.AppendString(b, 4, t.URL())
	p.sendMessage(wire.AppendString(b, 5, p.nonce[t]))
}

// encodeNode returns the complete encoded node.
func (p *proxy) encodeNode() []byte { return bytes.Join([][]byte{p.node, p.f.build}, nil) }

// sendSubscription sends a change of the names followed (delta).
func (p *proxy) sendSubscription(t wire.Type, add, drop []int32) {
	if len(add)+len(drop) == 0 {
		return
	}
	b := wire.AppendString(nil, 2, t.URL())
	b = p.f.library.appendNames(b, 3, namesOf(add))
	b = p.f.library.appendNames(b, 4, namesOf(drop))
	p.asked[t] = true
	p.sendMessage(b)
}

func namesOf(ids []int32) func(func(int32)) {
	return func(yield func(int32)) {
		for _, id := range ids {
			yield(id)
		}
	}
}

// sendAck takes the response that was just handled.
func (p *proxy) sendAck(t wire.Type) {
	if p.f.options.Delta {
		p.sendMessage(wire.AppendString(wire.AppendString(nil, 2, t.URL()), 6, p.nonce[t]))
		return
	}
	p.sendRequest(t, false)
}

func (p *proxy) sendMessage(b []byte) { p.out <- b }
