package iptables

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/google/nftables"
)

// nftTablePrefix is the name prefix of our tables in each family, before the name of the
// corresponding iptables table. Istio uses the same.
const nftTablePrefix = "istio-proxy-"

// nftTable returns the nft name of an iptables table: "istio-proxy-nat" for nat.
func nftTable(name string) string { return nftTablePrefix + name }

// RenderNft returns rs as input for nft -f. It is one transaction, which replaces our tables if
// they exist. The native backend sends the same over netlink, which the tests verify.
//
// Istio uses tables of family inet. Here each family has its own tables, so that IPv6 is not
// touched if only IPv4 is captured, as with the iptables backend.
func RenderNft(rs Ruleset) string {
	var b strings.Builder
	b.WriteString(rs.routingComment())
	for _, t := range rs.Tables {
		// Adding the table first makes the deletion succeed if it does not exist.
		name := nftFamily(t.Family) + " " + nftTable(t.Name)
		fmt.Fprintf(&b, "add table %s\ndelete table %s\ntable %s {\n", name, name, name)
		for _, c := range t.Chains {
			fmt.Fprintf(&b, "\tchain %s {\n", nftChain(c.Name))
			if c.isBuiltin() {
				h := newHook(t.Name, c.Name)
				fmt.Fprintf(&b, "\t\ttype %s hook %s priority %d; policy accept;\n",
					h.kind, nftChain(c.Name), h.priority)
			}
			for _, r := range c.allRules() {
				fmt.Fprintf(&b, "\t\t%s\n", r.nft(t.Family))
			}
			b.WriteString("\t}\n")
		}
		b.WriteString("}\n")
	}
	return b.String()
}

// hook is the nftables equivalent of a built-in chain of iptables.
type hook struct {
	kind     nftables.ChainType
	priority nftables.ChainPriority
	number   nftables.ChainHook
}

// newHook returns the hook of a builtin chain. Chains other than OUTPUT are in prerouting. The type
// is filter for the tables raw and mangle, but route for OUTPUT in mangle. Any other table is NAT.
func newHook(table, chain string) hook {
	h := hook{kind: nftables.ChainTypeFilter, number: *nftables.ChainHookPrerouting}
	if chain == chainOutput {
		h.number = *nftables.ChainHookOutput
	}
	switch table {
	case tableRaw:
		h.priority = *nftables.ChainPriorityRaw
	case tableMangle:
		h.priority = *nftables.ChainPriorityMangle
		if chain == chainOutput {
			h.kind = nftables.ChainTypeRoute // packets whose mark changes here are rerouted
		}
	default:
		h.kind, h.priority = nftables.ChainTypeNAT, *nftables.ChainPriorityNATDest
	}
	return h
}

// nftFamily returns the name of an address family in nft commands.
func nftFamily(f Family) string {
	if f == IPv6 {
		return "ip6"
	}
	return "ip"
}

// nftChain returns the nft name of a chain, as in Istio: ISTIO_IN_REDIRECT is istio-in-redirect,
// PREROUTING is prerouting.
func nftChain(name string) string {
	return strings.ReplaceAll(strings.ToLower(name), "_", "-")
}

// nft returns the rule in the syntax of nft: the conditions, a counter and the verdict. Each
// destination port is a condition of its own; the protocol is one only if there is no port. It
// panics for an unknown verdict.
func (r Rule) nft(f Family) string {
	var parts []string
	match := func(key string, not bool, value string) {
		if not {
			key += " !="
		}
		parts = append(parts, key+" "+value)
	}
	if r.In != "" {
		match("iifname", false, nftInterface(r.In))
	}
	if r.Out != "" {
		match("oifname", false, nftInterface(r.Out))
	}
	for _, a := range []struct {
		key string
		net Net
	}{{"saddr", r.Src}, {"daddr", r.Dst}} {
		if a.net.Prefix.IsValid() && a.net.Prefix.Bits() > 0 {
			match(nftFamily(f)+" "+a.key, a.net.Not, nftPrefix(a.net.Prefix))
		}
	}
	if r.SPort != 0 {
		match(string(r.Proto)+" sport", false, fmt.Sprint(r.SPort))
	}
	for _, ports := range r.DPort.List { // one condition each, equivalent to a set
		match(string(r.Proto)+" dport", r.DPort.Not, ports.nft())
	}
	if r.Proto != "" && r.SPort == 0 && len(r.DPort.List) == 0 {
		match("meta l4proto", false, string(r.Proto))
	}
	if len(r.States) > 0 {
		match("ct state", false, nftStates(r.States))
	}
	for _, m := range []struct {
		key string
		Mark
	}{{"meta mark", r.Mark}, {"ct mark", r.ConnMark}} {
		if m.Value != 0 {
			match(m.key, m.Not, nftMark(m.Value))
		}
	}
	for _, o := range r.Owners {
		match("meta sk"+string(o.By), o.Not, fmt.Sprint(o.ID))
	}
	return strings.Join(append(parts, "counter", r.Then.nft()), " ")
}

// nft returns the verdict in the syntax of nft. It panics for an unknown one.
func (v Verdict) nft() string {
	switch v.Action {
	case Return:
		return "return"
	case Jump:
		return "jump " + nftChain(v.Chain)
	case RedirectTo:
		return fmt.Sprintf("redirect to :%d", v.Port)
	case TProxyTo:
		return fmt.Sprintf("tproxy to :%d meta mark set %s accept", v.Port, nftMark(v.Mark))
	case Accept:
		return "accept"
	case Drop:
		return "drop"
	case SetMark:
		return "meta mark set " + nftMark(v.Mark)
	case SaveMark:
		return "ct mark set meta mark"
	case RestoreMark:
		return "meta mark set ct mark"
	case SetZone:
		return fmt.Sprintf("ct zone set %d", v.Zone)
	}
	panic(fmt.Sprintf("no verdict %d", v.Action))
}

// nftMark returns a mark in the form that nft prints, 0x and eight hexadecimal digits.
func nftMark(value uint32) string { return fmt.Sprintf("0x%08x", value) }

// nftStates returns connection states in the syntax of nft.
func nftStates(states []ConnState) string {
	return strings.ToLower(joinComma(states))
}

// nftInterface returns a quoted interface name with iptables' wildcard + replaced by nft's *.
func nftInterface(name string) string {
	if stem, wild := strings.CutSuffix(name, "+"); wild {
		name = stem + "*"
	}
	return `"` + name + `"`
}

// nftPrefix returns a prefix without the length if it is a single address, as nft prints it.
func nftPrefix(p netip.Prefix) string {
	if p.IsSingleIP() {
		return p.Addr().String()
	}
	return p.String()
}
