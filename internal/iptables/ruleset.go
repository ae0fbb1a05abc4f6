package iptables

import (
	"net/netip"
	"slices"
)

// Family is an IP version.
type Family int

// The two families.
const (
	IPv4 Family = 4
	IPv6 Family = 6
)

// String is "IPv4" or "IPv6".
func (f Family) String() string {
	if f == IPv6 {
		return "IPv6"
	}
	return "IPv4"
}

// The chains of the nat table: two of the kernel's, four of ours.
const (
	chainPrerouting = "PREROUTING"
	chainOutput     = "OUTPUT"

	chainIstioInbound    = "ISTIO_INBOUND"
	chainIstioInRedirect = "ISTIO_IN_REDIRECT"
	chainIstioOutput     = "ISTIO_OUTPUT"
	chainIstioRedirect   = "ISTIO_REDIRECT"

	// ownPrefix is what the names of all our chains, also those of later and earlier versions, start with.
	ownPrefix = "ISTIO_"
)

const tableNAT = "nat"

// Ruleset is everything that capture adds to a network namespace: one nat table for each family, IPv4 first.
// It is plain data, and the same Options give an equal Ruleset.
type Ruleset struct {
	Tables []Table
}

// Table returns the table of a family, which is empty if capture has no rules for it.
func (rs Ruleset) Table(f Family) Table {
	for _, t := range rs.Tables {
		if t.Family == f {
			return t
		}
	}
	return Table{Family: f, Name: tableNAT}
}

// Table is what capture adds to one table. Chains stand in the order of iptables-save: the kernel's first, ours by name.
type Table struct {
	Family Family
	Name   string
	Chains []Chain
}

// Chain is what capture adds to one chain.
type Chain struct {
	Name string
	// First goes before the rules that others have in the chain; only chains of the kernel have such.
	First []Rule
	// Rules goes behind them.
	Rules []Rule
}

// builtin reports whether the chain is one of the kernel's rather than ours.
func (c Chain) builtin() bool { return c.Name == chainPrerouting || c.Name == chainOutput }

// all returns the rules in the order in which a packet meets them.
func (c Chain) all() []Rule { return slices.Concat(c.First, c.Rules) }

// Rule is a list of conditions, all of which must hold, and a verdict. A condition with its zero value is not asked.
type Rule struct {
	In, Out  string // interface names; a final + stands for any ending
	Src, Dst Net
	Proto    Proto
	DPort    Port // needs Proto
	Owners   []Owner
	Mark     Mark
	Then     Verdict
}

// Proto is a transport protocol.
type Proto string

// The protocols that rules ask for.
const (
	TCP Proto = "tcp"
	UDP Proto = "udp"
)

// Net asks for an address to be in (or, with Not, outside) a range.
type Net struct {
	Not    bool
	Prefix netip.Prefix
}

// Port asks for a port number.
type Port struct {
	Not    bool
	Number uint16
}

// OwnerKind says which id of the process that opened the socket is meant: its fsuid or fsgid.
type OwnerKind string

// The kinds of owner.
const (
	UID OwnerKind = "uid"
	GID OwnerKind = "gid"
)

// Owner asks for the owner of the socket that sends the packet. A packet without a local socket has no owner; no condition
// on owners holds for it, not even a negated one.
type Owner struct {
	Not bool
	By  OwnerKind
	ID  uint32
}

// Mark asks for the packet mark (SO_MARK, fwmark), all 32 bits of it.
type Mark struct {
	Not   bool
	Value uint32
}

// Verdict is what happens to a packet for which a rule holds. The zero value is RETURN: go on with the calling chain, and
// at the end of that, uncaptured.
type Verdict struct {
	Jump       string // to this chain
	RedirectTo uint16 // to this port of the machine itself
}
