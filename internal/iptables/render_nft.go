package iptables

import (
	"fmt"
	"net/netip"
	"strings"
)

// nftTable is the name of our table, in each family. Istio calls its own so.
const nftTable = "istio-proxy-nat"

// RenderNft returns rs as input for nft -f. It is one transaction, which replaces our tables if they are there. The backend
// sends the same over netlink, and the tests hold the two to each other.
//
// Istio has one table of the family inet. Two tables are used here, so that IPv6 is left alone where only IPv4 is captured,
// as it is with the iptables backend.
func RenderNft(rs Ruleset) string {
	var b strings.Builder
	for _, t := range rs.Tables {
		// Adding first lets the deletion succeed where the table does not exist.
		name := nftFamily(t.Family) + " " + nftTable
		fmt.Fprintf(&b, "add table %s\ndelete table %s\ntable %s {\n", name, name, name)
		for _, c := range t.Chains {
			fmt.Fprintf(&b, "\tchain %s {\n", nftChain(c.Name))
			if c.builtin() {
				fmt.Fprintf(&b, "\t\ttype nat hook %s priority -100; policy accept;\n", nftChain(c.Name))
			}
			for _, r := range c.all() {
				fmt.Fprintf(&b, "\t\t%s\n", r.nft(t.Family))
			}
			b.WriteString("\t}\n")
		}
		b.WriteString("}\n")
	}
	return b.String()
}

func nftFamily(f Family) string {
	if f == IPv6 {
		return "ip6"
	}
	return "ip"
}

// nftChain is the nft name of a chain, as in Istio: ISTIO_IN_REDIRECT is istio-in-redirect, PREROUTING is prerouting.
func nftChain(name string) string {
	return strings.ReplaceAll(strings.ToLower(name), "_", "-")
}

// nft is the rule in the language of nft.
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
	switch {
	case r.DPort.Number != 0:
		match(string(r.Proto)+" dport", r.DPort.Not, fmt.Sprint(r.DPort.Number))
	case r.Proto != "":
		match("meta l4proto", false, string(r.Proto))
	}
	if r.Mark.Value != 0 {
		match("meta mark", r.Mark.Not, fmt.Sprintf("0x%08x", r.Mark.Value))
	}
	for _, o := range r.Owners {
		match("meta sk"+string(o.By), o.Not, fmt.Sprint(o.ID))
	}
	parts = append(parts, "counter")
	switch {
	case r.Then.RedirectTo != 0:
		parts = append(parts, fmt.Sprintf("redirect to :%d", r.Then.RedirectTo))
	case r.Then.Jump != "":
		parts = append(parts, "jump "+nftChain(r.Then.Jump))
	default:
		parts = append(parts, "return")
	}
	return strings.Join(parts, " ")
}

// nftInterface quotes an interface name; nft's wildcard is * where iptables has +.
func nftInterface(name string) string {
	if stem, wild := strings.CutSuffix(name, "+"); wild {
		name = stem + "*"
	}
	return `"` + name + `"`
}

// nftPrefix leaves out the length of a prefix that is one address, as nft does.
func nftPrefix(p netip.Prefix) string {
	if p.IsSingleIP() {
		return p.Addr().String()
	}
	return p.String()
}
