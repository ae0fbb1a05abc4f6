package explain

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
)

// criterion is one property that selects filter chains. Envoy checks the criteria in order. For
// each it keeps the chains with the most specific value that fits the connection, and drops all
// others. It never backtracks.
type criterion struct {
	name string
	// best ranks a match: 0 if it does not fit, 1 if it has no such condition, and more for a more
	// specific value.
	best func(m *listenerv3.FilterChainMatch) int
	// value is the connection's value.
	value string
}

// matchCriteria returns the criteria in the order that the documentation of FilterChainMatch
// defines. Each ranks a FilterChainMatch for this call: 0 is a mismatch, 1 a match without a
// condition, more is more specific.
func (w *walk) matchCriteria() []criterion {
	from := w.call.From.Addr()
	return []criterion{
		{"destination port", func(m *listenerv3.FilterChainMatch) int {
			return equalOrAny(
				m.GetDestinationPort() == nil,
				m.GetDestinationPort().GetValue() == uint32(w.call.To.Port()),
			)
		}, fmt.Sprint(w.call.To.Port())},
		{
			"destination address",
			func(m *listenerv3.FilterChainMatch) int { return longestPrefix(m.GetPrefixRanges(), w.call.To.Addr()) },
			w.call.To.Addr().String(),
		},
		{
			"server name",
			func(m *listenerv3.FilterChainMatch) int { return bestServerName(m.GetServerNames(), w.call.ServerName) },
			w.call.ServerName,
		},
		{"transport", func(m *listenerv3.FilterChainMatch) int {
			return equalOrAny(m.GetTransportProtocol() == "", m.GetTransportProtocol() == w.transport)
		}, w.transport},
		{"application protocol", func(m *listenerv3.FilterChainMatch) int {
			return firstProtocol(m.GetApplicationProtocols(), w.protocols)
		}, strings.Join(w.protocols, ",")},
		{
			"direct source",
			func(m *listenerv3.FilterChainMatch) int { return longestPrefix(m.GetDirectSourcePrefixRanges(), from) },
			from.String(),
		},
		{"source type", w.sourceType, ""},
		{
			"source",
			func(m *listenerv3.FilterChainMatch) int { return longestPrefix(m.GetSourcePrefixRanges(), from) },
			from.String(),
		},
		{"source port", func(m *listenerv3.FilterChainMatch) int {
			return equalOrAny(
				len(m.GetSourcePorts()) == 0,
				slices.Contains(m.GetSourcePorts(), uint32(w.call.From.Port())),
			)
		}, fmt.Sprint(w.call.From.Port())},
	}
}

// equalOrAny returns the rank of a criterion: 1 if the chain accepts any value, 2 if it names an
// equal one, and otherwise 0.
func equalOrAny(any, equal bool) int {
	switch {
	case any:
		return 1
	case equal:
		return 2
	default:
		return 0
	}
}

// longestPrefix returns 1 plus the length of the longest range that contains a, or 0 if none does.
// An empty list matches every address and returns 1. Invalid ranges are ignored. The longest
// counts, whatever the order.
func longestPrefix(ranges []*corev3.CidrRange, a netip.Addr) int {
	if len(ranges) == 0 {
		return 1
	}
	best := 0
	for _, r := range ranges {
		base, err := netip.ParseAddr(r.GetAddressPrefix())
		if err != nil {
			continue
		}
		p, err := base.Prefix(int(r.GetPrefixLen().GetValue()))
		if err == nil && p.Contains(a) {
			best = max(best, 1+p.Bits())
		}
	}
	return best
}

// bestServerName returns the rank of a chain's server names for sni, which it compares
// case-sensitively. An exact name ranks above the longest wildcard ("*.a"), and a wildcard above an
// empty list (1). It returns 0 if nothing matches.
func bestServerName(names []string, sni string) int {
	if len(names) == 0 {
		return 1
	}
	best := 0
	for _, n := range names {
		switch suffix, wildcard := strings.CutPrefix(n, "*"); {
		case !wildcard && n == sni && sni != "":
			return 1 << 20 // longer than any name
		case wildcard && len(sni) > len(suffix) && strings.HasSuffix(sni, suffix):
			best = max(best, 1+len(suffix))
		}
	}
	return best
}

// firstProtocol returns the rank of a chain that accepts the protocols in have. It is higher the
// earlier the client's list offered names one of them, 1 if have is empty, and 0 if none fits.
func firstProtocol(have, offered []string) int {
	if len(have) == 0 {
		return 1
	}
	for i, p := range offered {
		if slices.Contains(have, p) {
			return 1 + len(offered) - i
		}
	}
	return 0
}

// sourceType returns the rank of a chain's source type for this call: 1 for any type, 2 for the
// caller's, and 0 for a mismatch. Callers on loopback, or with the destination's address, are
// local.
func (w *walk) sourceType(m *listenerv3.FilterChainMatch) int {
	local := w.call.From.Addr().IsLoopback() || w.call.From.Addr() == w.call.To.Addr()
	switch m.GetSourceType() {
	case listenerv3.FilterChainMatch_SAME_IP_OR_LOOPBACK:
		return equalOrAny(false, local)
	case listenerv3.FilterChainMatch_EXTERNAL:
		return equalOrAny(false, !local)
	default:
		return 1
	}
}

// filterChain returns the filter chain that accepts the connection, the first of equal ones, or the
// default chain, and adds a step. Criterion by criterion, only the chains with the best rank
// remain. It returns a Closed ending if no chain remains and there is no default. It then
// terminates TLS and returns the endings of that.
func (w *walk) filterChain(l decoded[*listenerv3.Listener]) (*listenerv3.FilterChain, []Ending) {
	left := slices.Clone(l.message.GetFilterChains())
	var matched []string
	for _, c := range w.matchCriteria() {
		best := 0
		for _, chain := range left {
			best = max(best, c.best(chain.GetFilterChainMatch()))
		}
		left = slices.DeleteFunc(
			left,
			func(f *listenerv3.FilterChain) bool { return best == 0 || c.best(f.GetFilterChainMatch()) != best },
		)
		if best > 1 {
			matched = append(matched, strings.TrimSpace(c.name+" "+c.value))
		}
		if best == 0 && len(l.message.GetFilterChains()) > 0 {
			matched = append(matched, fmt.Sprintf("no chain for %s %q", c.name, c.value))
			break
		}
	}
	chain := l.message.GetDefaultFilterChain()
	what := "is the default"
	if len(left) > 0 {
		chain, what = left[0], "handles the connection"
	}
	if chain == nil {
		w.addStep(
			Step{
				Stage:    StageFilterChain,
				Resource: l.message.GetName(),
				Matched:  strings.Join(matched, "; "),
				Decided:  "no filter chain matches and there is no default filter chain, so the connection is closed",
			},
		)
		return nil, []Ending{{Share: 1, Kind: Closed, Reason: "no filter chain matches", Flags: flagNoRoute}}
	}
	w.addStep(
		Step{Stage: StageFilterChain, Resource: chain.GetName(), Matched: strings.Join(matched, "; "), Decided: what},
	)
	return chain, w.terminateTLS(chain)
}

// terminateTLS terminates TLS if the chain has a TLS transport socket, sets w.secured and adds a
// step. It returns nil if the connection continues, and does nothing without TLS in the chain. It
// returns a Closed ending if the client sends no TLS, lacks a required certificate or has an
// identity that the chain rejects. Another transport socket is unsupported.
func (w *walk) terminateTLS(chain *listenerv3.FilterChain) []Ending {
	s := chain.GetTransportSocket()
	if s == nil || filterKind(s.GetName()) == rawBuffer {
		return nil
	}
	t, ok := unpackAny(s.GetTypedConfig(), new(tlsv3.DownstreamTlsContext))
	if !ok {
		return w.endUnsupported(chain.GetName(), "its transport %s is not supported", s.GetName())
	}
	if w.call.carriedProtocol() != TLS {
		w.addNote(
			StageFilterChain,
			chain.GetName(),
			"requires TLS, which the client does not send, so the connection is closed",
		)
		return singleEnding(Closed, "no TLS")
	}
	if t.GetRequireClientCertificate().GetValue() && !w.call.Certificate && w.call.Identity == "" {
		w.addNote(
			StageFilterChain,
			chain.GetName(),
			"terminates TLS and requires a client certificate, which the client does not have, so the connection is closed",
		)
		return singleEnding(Closed, "no client certificate")
	}
	w.secured = true
	if w.call.Identity == "" {
		w.addNote(StageFilterChain, chain.GetName(), "ends TLS")
		return nil
	}
	if !acceptsIdentity(t.GetCommonTlsContext(), w.call.Identity) {
		w.addNote(
			StageFilterChain,
			chain.GetName(),
			"terminates TLS and rejects the identity %s, so the connection is closed",
			w.call.Identity,
		)
		return singleEnding(Closed, "identity of another trust domain")
	}
	w.addNote(StageFilterChain, chain.GetName(), "terminates mutual TLS: the caller is %s", w.call.Identity)
	return nil
}

// acceptsIdentity reports whether the subject alternative name matchers of a chain accept an
// identity. Without matchers, every identity that the roots sign is accepted. Matchers of other
// names than URIs accept none. An invalid matcher accepts none.
func acceptsIdentity(t *tlsv3.CommonTlsContext, identity string) bool {
	v := t.GetCombinedValidationContext().GetDefaultValidationContext()
	if v == nil {
		v = t.GetValidationContext()
	}
	names := v.GetMatchTypedSubjectAltNames()
	return len(names) == 0 || slices.ContainsFunc(names, func(m *tlsv3.SubjectAltNameMatcher) bool {
		ok, err := stringMatches(m.GetMatcher(), identity)
		return m.GetSanType() == tlsv3.SubjectAltNameMatcher_URI && ok && err == nil
	})
}
