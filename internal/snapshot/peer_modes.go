package snapshot

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	security "istio.io/api/security/v1beta1"
)

// TransitionModes encodes modes of a workload as text, "PERMISSIVE 8080=STRICT". It overrides the
// modes of its PeerAuthentications while a change of them is rolled out to the callers. "" is no
// override.
type TransitionModes string

// modes parses the text form of PeerModes.Text: the default mode, then PORT=MODE for each port with
// its own mode. Entries whose port is no number are skipped. An unknown or missing mode is UNSET.
func (e TransitionModes) modes() PeerModes {
	var m PeerModes
	for i, word := range strings.Fields(string(e)) {
		if i == 0 {
			m.Mode = PeerMode(security.PeerAuthentication_MutualTLS_Mode_value[word])
			continue
		}
		port, mode, _ := strings.Cut(word, "=")
		n, err := strconv.ParseUint(port, 10, 32)
		if err != nil {
			continue // not written by PeerModes.Text
		}
		if m.Ports == nil {
			m.Ports = map[uint32]PeerMode{}
		}
		m.Ports[uint32(n)] = PeerMode(security.PeerAuthentication_MutualTLS_Mode_value[mode])
	}
	return m
}

// Text returns the modes as text, "PERMISSIVE 8080=STRICT", with ports in ascending order and
// without From.
func (m PeerModes) Text() TransitionModes {
	words := []string{m.Mode.String()}
	for _, port := range slices.Sorted(maps.Keys(m.Ports)) {
		words = append(words, strconv.FormatUint(uint64(port), 10)+"="+m.Ports[port].String())
	}
	return TransitionModes(strings.Join(words, " "))
}

// With returns the modes of e, with the From of m. It returns m itself if e is "".
func (m PeerModes) With(e TransitionModes) PeerModes {
	if e == "" {
		return m
	}
	modes := e.modes()
	modes.From = m.From
	return modes
}

// Between returns modes that accept the callers that use m and the callers that use o: PERMISSIVE
// wherever the modes differ. Ports with the resulting default mode are not listed. From is that of
// o.
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

// Same reports whether both have the same mode for all ports. From is not compared.
func (m PeerModes) Same(o PeerModes) bool {
	return !m.differ(o, func(a, b PeerMode) bool { return a != b })
}

// CalledAlike reports whether callers connect to the workload in the same way under both: in plain
// text where the mode is DISABLE, with mutual TLS elsewhere.
func (m PeerModes) CalledAlike(o PeerModes) bool {
	const off = security.PeerAuthentication_MutualTLS_DISABLE
	return !m.differ(o, func(a, b PeerMode) bool { return (a == off) != (b == off) })
}

// differ reports whether the function differ returns true for the modes of m and o of some port, or
// for the default modes.
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

// ports returns the ports that have their own mode in m or o as keys; the values are not
// meaningful. The map may be o.Ports itself.
func (m PeerModes) ports(o PeerModes) map[uint32]PeerMode {
	all := maps.Clone(m.Ports)
	if all == nil {
		return o.Ports
	}
	maps.Copy(all, o.Ports)
	return all
}
