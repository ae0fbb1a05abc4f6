package iptables

import (
	"net/netip"
	"slices"
	"strings"
)

// Family is an IP version.
type Family int

// The IP versions.
const (
	IPv4 Family = 4
	IPv6 Family = 6
)

// String returns "IPv4" or "IPv6".
func (f Family) String() string {
	if f == IPv6 {
		return "IPv6"
	}
	return "IPv4"
}

// The kernel's chains in which we have rules, and our own. The same name may exist in several
// tables.
const (
	chainPrerouting = "PREROUTING"
	chainOutput     = "OUTPUT"

	chainIstioDivert     = "ISTIO_DIVERT"
	chainIstioDrop       = "ISTIO_DROP"
	chainIstioInbound    = "ISTIO_INBOUND"
	chainIstioInRedirect = "ISTIO_IN_REDIRECT"
	chainIstioOutput     = "ISTIO_OUTPUT"
	chainIstioOutputDNS  = "ISTIO_OUTPUT_DNS"
	chainIstioRedirect   = "ISTIO_REDIRECT"
	chainIstioTProxy     = "ISTIO_TPROXY"

	// chainPrefix is the name prefix of all our chains, in earlier and later versions too.
	chainPrefix = "ISTIO_"
)

// The tables in which capture has rules.
const (
	tableRaw    = "raw"
	tableMangle = "mangle"
	tableNAT    = "nat"
)

// tableNames returns the tables in the order in which rules are applied: nat redirects connections
// to the proxy, and requires the others. Rules are removed in the opposite order.
func tableNames() []string { return []string{tableRaw, tableMangle, tableNAT} }

// Ruleset is everything that capture adds to a network namespace. IPv4 tables come first, and
// within a family in the order of tableNames. It is plain data; equal Options result in an equal
// Ruleset.
type Ruleset struct {
	Tables []Table
	// Diverts are the routing for TPROXY, one per family.
	Diverts []Divert
}

// Table returns a table of a family, an empty one if capture has no rules in it.
func (rs Ruleset) Table(f Family, name string) Table {
	for _, t := range rs.Tables {
		if t.Family == f && t.Name == name {
			return t
		}
	}
	return Table{Family: f, Name: name}
}

// Divert routes packets with a mark to this host whatever their destination. Sockets found by
// TPROXY, or bound to a foreign address, receive packets only this way.
type Divert struct {
	Family Family
	Mark   uint32 // ip rule add fwmark MARK lookup TABLE
	Table  uint32 // ip route add local default dev lo table TABLE
}

// Table is what capture adds to one table. Chains are in the order of iptables-save: the kernel's
// first, ours sorted by name.
type Table struct {
	Family Family
	Name   string
	Chains []Chain
}

// Chain is what capture adds to one chain.
type Chain struct {
	Name string
	// First are inserted before existing rules. Only the kernel's chains have such rules.
	First []Rule
	// Rules are appended after existing rules.
	Rules []Rule
}

// isBuiltin reports whether the chain is one of the kernel's.
func (c Chain) isBuiltin() bool { return !strings.HasPrefix(c.Name, chainPrefix) }

// allRules returns the rules in the order of evaluation.
func (c Chain) allRules() []Rule { return slices.Concat(c.First, c.Rules) }

// Rule is a conjunction of conditions and a verdict. A zero condition matches
// everything.
type Rule struct {
	In, Out  string // interface names; a final + matches any suffix
	Src, Dst Net
	Proto    Proto
	SPort    uint16      // requires Proto
	DPort    Ports       // requires Proto
	States   []ConnState // matches one of them
	Mark     Mark
	ConnMark Mark // mark of the connection, see SaveMark
	Owners   []Owner
	Then     Verdict
}

// Proto is a transport protocol.
type Proto string

// The protocols that rules match.
const (
	TCP Proto = "tcp"
	UDP Proto = "udp"
)

// Net matches addresses in a range, or outside of it with Not.
type Net struct {
	Not    bool
	Prefix netip.Prefix
}

// ConnState is a conntrack state.
type ConnState string

// The states that rules match, as in iptables.
const (
	Invalid     ConnState = "INVALID"
	Related     ConnState = "RELATED"
	Established ConnState = "ESTABLISHED"
)

// OwnerKind selects the fsuid or fsgid of the process that opened a socket.
type OwnerKind string

// The kinds of owner.
const (
	UID OwnerKind = "uid"
	GID OwnerKind = "gid"
)

// Owner matches the owner of the socket that sends the packet. A packet without a local socket has
// no owner and matches no condition on owners, not even a negated one.
type Owner struct {
	Not bool
	By  OwnerKind
	ID  uint32
}

// Mark matches all 32 bits of the packet mark (SO_MARK, fwmark). A zero Value matches everything.
type Mark struct {
	Not   bool
	Value uint32
}
