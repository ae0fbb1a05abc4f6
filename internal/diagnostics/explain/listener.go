package explain

import (
	"net/netip"
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// Names of the listeners that accept captured connections.
const (
	virtualOutbound = "virtualOutbound"
	virtualInbound  = "virtualInbound"
)

// selectListener selects the listener that handles the connection, and adds steps. A captured
// connection starts at virtualOutbound or virtualInbound, which may hand it off to the listener of
// its original destination. It returns a Refused ending if that first listener is missing, or
// nothing is bound to the address of a Direct call.
func (w *walk) selectListener() (taken decoded[*listenerv3.Listener], end []Ending) {
	all, err := w.decodeListeners()
	if err != nil {
		return taken, w.failWith(err)
	}
	if w.call.Direction == Direct {
		return w.boundListener(all)
	}
	name := virtualOutbound
	if w.call.Direction == Inbound {
		name = virtualInbound
	}
	first := byName(all, name)
	if first.message == nil {
		w.addNote(StageListener, name, "the listener does not exist, so captured connections are refused")
		return first, singleEnding(Refused, "no listener "+name)
	}
	step := Step{Stage: StageListener, Resource: name, Matched: "captured " + string(w.call.Direction)}
	if !first.message.GetUseOriginalDst().GetValue() {
		step.Decided = "handles the connection itself; its original destination is " + w.call.To.String()
		w.addStep(step)
		return first, nil
	}
	step.Decided = "hands the connection off to the listener of its original destination " + w.call.To.String()
	w.addStep(step)
	return w.originalDestination(all, first), nil
}

// originalDestination returns the listener of the connection's original destination, to which the
// listener first hands it off, and adds a step. It returns first, with a note, if there is no other
// one.
func (w *walk) originalDestination(
	all []decoded[*listenerv3.Listener],
	first decoded[*listenerv3.Listener],
) decoded[*listenerv3.Listener] {
	name := first.message.GetName()
	next, matched := listenerAt(all, w.call.To, false)
	switch {
	case next.message == nil:
		w.addNote(
			StageListener,
			name,
			"no listener for %s, nor for its port on all addresses, so %s keeps it",
			w.call.To,
			name,
		)
		return first
	case next.message.GetName() == name:
		w.addNote(StageListener, name, "%s is its own port, so it handles the connection itself", w.call.To)
		return first
	}
	w.addStep(
		Step{
			Stage:    StageListener,
			Resource: next.message.GetName(),
			Matched:  matched,
			Decided:  "handles the connection",
			By:       w.listenerObjects(next),
		},
	)
	return next
}

// boundListener selects the listener that is bound to the destination address or socket of a Direct
// call, and adds a step. It returns a Refused ending if there is none.
func (w *walk) boundListener(all []decoded[*listenerv3.Listener]) (decoded[*listenerv3.Listener], []Ending) {
	where := w.call.To.String()
	var l decoded[*listenerv3.Listener]
	matched := "the address that it listens at"
	if w.call.Socket != "" {
		where = w.call.Socket
		for _, d := range all {
			if d.message.GetAddress().GetPipe().GetPath() == w.call.Socket {
				l = d
			}
		}
	} else {
		l, matched = listenerAt(all, w.call.To, true)
	}
	if l.message == nil {
		w.addNote(
			StageListener,
			"",
			"the proxy does not listen at %s, so the connection is refused or reaches another process",
			where,
		)
		return l, singleEnding(Refused, "nothing listens at "+where)
	}
	w.addStep(
		Step{
			Stage:    StageListener,
			Resource: l.message.GetName(),
			Matched:  matched,
			Decided:  "handles the connection",
			By:       w.listenerObjects(l),
		},
	)
	return l, nil
}

// listenerObjects returns the source objects of a listener, or nil if there are more than
// maxObjects. For a wildcard address it omits Services and ServiceEntries, because every service of
// the port contributes to that listener.
func (w *walk) listenerObjects(l decoded[*listenerv3.Listener]) []Object {
	keys := l.from
	if at, ok := socketAddress(l.message.GetAddress()); ok && at.Addr().IsUnspecified() {
		keys = slices.DeleteFunc(
			slices.Clone(keys),
			func(k config.Key) bool { return k.Kind == api.Service || k.Kind == api.ServiceEntry },
		)
	}
	return w.fewObjects(keys)
}

// byName returns the listener with a name, or a zero value, whose message is nil, if there is none.
func byName(all []decoded[*listenerv3.Listener], name string) (l decoded[*listenerv3.Listener]) {
	for _, d := range all {
		if d.message.GetName() == name {
			return d
		}
	}
	return l
}

// listenerAt selects a listener like Envoy's connection handler. It is the first with the address
// and port, else the last at the port of the family's wildcard address. [::] with ipv4_compat also
// serves IPv4. If really is set, listeners that are not bound to their port are skipped. matched
// describes the address that matched; without any, it has no meaning and the message of l is nil.
func listenerAt(
	all []decoded[*listenerv3.Listener],
	to netip.AddrPort,
	really bool,
) (l decoded[*listenerv3.Listener], matched string) {
	any4, any6 := netip.IPv4Unspecified(), netip.IPv6Unspecified()
	wildcard := any6
	if to.Addr().Is4() {
		wildcard = any4
	}
	var wild decoded[*listenerv3.Listener]
	for _, d := range all {
		if really && d.message.GetBindToPort() != nil && !d.message.GetBindToPort().GetValue() {
			continue
		}
		for _, a := range listenerAddresses(d.message) {
			at, ok := socketAddress(a)
			switch {
			case !ok || at.Port() != to.Port():
			case at.Addr() == to.Addr():
				return d, "address and port " + to.String()
			case at.Addr() == wildcard, at.Addr() == any6 && a.GetSocketAddress().GetIpv4Compat():
				wild = d
			}
		}
	}
	return wild, "port " + netip.AddrPortFrom(wildcard, to.Port()).
		String() +
		", because no listener has the address itself"
}

// listenerAddresses returns the main and the additional addresses of a listener.
func listenerAddresses(l *listenerv3.Listener) []*corev3.Address {
	list := []*corev3.Address{l.GetAddress()}
	for _, a := range l.GetAdditionalAddresses() {
		list = append(list, a.GetAddress())
	}
	return list
}

// socketAddress parses an IP address with its port. The second result is false for other kinds of
// addresses.
func socketAddress(a *corev3.Address) (netip.AddrPort, bool) {
	s := a.GetSocketAddress()
	ip, err := netip.ParseAddr(s.GetAddress())
	if err != nil {
		return netip.AddrPort{}, false
	}
	return netip.AddrPortFrom(ip.Unmap(), uint16(s.GetPortValue())), true
}
