package snapshot

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	security "istio.io/api/security/v1beta1"
)

// Easing is the modes of a workload in words, "PERMISSIVE 8080=STRICT": what it takes while its callers are being told of other ones.
// "" is none.
type Easing string

// modes reads them.
func (e Easing) modes() PeerModes {
	var m PeerModes
	for i, word := range strings.Fields(string(e)) {
		if i == 0 {
			m.Mode = PeerMode(security.PeerAuthentication_MutualTLS_Mode_value[word])
			continue
		}
		port, mode, _ := strings.Cut(word, "=")
		n, err := strconv.ParseUint(port, 10, 32)
		if err != nil {
			continue // not of our writing
		}
		if m.Ports == nil {
			m.Ports = map[uint32]PeerMode{}
		}
		m.Ports[uint32(n)] = PeerMode(security.PeerAuthentication_MutualTLS_Mode_value[mode])
	}
	return m
}

// Easing gives the modes in words.
func (m PeerModes) Easing() Easing {
	words := []string{m.Mode.String()}
	for _, port := range slices.Sorted(maps.Keys(m.Ports)) {
		words = append(words, strconv.FormatUint(uint64(port), 10)+"="+m.Ports[port].String())
	}
	return Easing(strings.Join(words, " "))
}

// With gives the modes of an Easing in the place of these, if there is one. Who says so stays the same.
func (m PeerModes) With(e Easing) PeerModes {
	if e == "" {
		return m
	}
	eased := e.modes()
	eased.From = m.From
	return eased
}

// Between gives modes by which both those callers are served that go by these and those that go by others: where they differ a
// workload takes everything.
func (m PeerModes) Between(o PeerModes) PeerModes {
	between := func(a, b PeerMode) PeerMode {
		if a == b {
			return a
		}
		return security.PeerAuthentication_MutualTLS_PERMISSIVE
	}
	out := PeerModes{Mode: between(m.Mode, o.Mode), From: o.From}
	for port := range m.ports(o) {
		if mode := between(m.At(port), o.At(port)); mode != out.Mode {
			if out.Ports == nil {
				out.Ports = map[uint32]PeerMode{}
			}
			out.Ports[port] = mode
		}
	}
	return out
}

// Same says whether a workload takes the same by these modes as by others.
func (m PeerModes) Same(o PeerModes) bool {
	return !m.differ(o, func(a, b PeerMode) bool { return a != b })
}

// CalledAlike says whether callers call a workload in the same way by these modes as by others: in the clear where mutual TLS is
// switched off, and with it elsewhere.
func (m PeerModes) CalledAlike(o PeerModes) bool {
	const off = security.PeerAuthentication_MutualTLS_DISABLE
	return !m.differ(o, func(a, b PeerMode) bool { return (a == off) != (b == off) })
}

func (m PeerModes) differ(o PeerModes, differ func(a, b PeerMode) bool) bool {
	if differ(m.Mode, o.Mode) {
		return true
	}
	for port := range m.ports(o) {
		if differ(m.At(port), o.At(port)) {
			return true
		}
	}
	return false
}

// ports are those of which one of them says something.
func (m PeerModes) ports(o PeerModes) map[uint32]PeerMode {
	all := maps.Clone(m.Ports)
	if all == nil {
		return o.Ports
	}
	maps.Copy(all, o.Ports)
	return all
}
