package iptables

import (
	"net/netip"
	"slices"
	"strings"
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

// The chains of the kernel that we have rules in, and ours. A name may stand in several tables, with rules of its own in each.
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

	// ownPrefix is what the names of all our chains, also those of later and earlier versions, start with.
	ownPrefix = "ISTIO_"
)

// The tables that capture may have rules in.
const (
	tableRaw    = "raw"
	tableMangle = "mangle"
	tableNAT    = "nat"
)

// tableNames are in the order in which rules come into force: nat is what sends connections to the proxy, and must find the
// rest in place. Rules are removed in the opposite order.
func tableNames() []string { return []string{tableRaw, tableMangle, tableNAT} }

// Ruleset is everything that capture adds to a network namespace, the tables of IPv4 first, and those of a family in the order in
// which they come into force. It is plain data, and the same Options give an equal Ruleset.
type Ruleset struct {
	Tables []Table
	// Diverts are the routing that goes with TPROXY, one for each family.
	Diverts []Divert
}

// Table returns one table of a family, which is empty if capture has no rules for it.
func (rs Ruleset) Table(f Family, name string) Table {
	for _, t := range rs.Tables {
		if t.Family == f && t.Name == name {
			return t
		}
	}
	return Table{Family: f, Name: name}
}

// Divert routes packets with a mark to this machine itself, whatever their destination: a socket that TPROXY found for them, or
// that is bound to somebody else's address, gets them only so.
type Divert struct {
	Family Family
	Mark   uint32 // ip rule add fwmark MARK lookup TABLE
	Table  uint32 // ip route add local default dev lo table TABLE
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
func (c Chain) builtin() bool { return !strings.HasPrefix(c.Name, ownPrefix) }

// all returns the rules in the order in which a packet meets them.
func (c Chain) all() []Rule { return slices.Concat(c.First, c.Rules) }

// Rule is a list of conditions, all of which must hold, and a verdict. A condition with its zero value is not asked.
type Rule struct {
	In, Out  string // interface names; a final + stands for any ending
	Src, Dst Net
	Proto    Proto
	SPort    uint16      // needs Proto
	DPort    Ports       // needs Proto
	States   []ConnState // one of them
	Mark     Mark
	ConnMark Mark // the mark of the connection, see SaveMark
	Owners   []Owner
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

// Ports asks for a destination port to be one (or, with Not, none) of some numbers.
type Ports struct {
	Not     bool
	Numbers []uint16
}

// port asks for one number.
func port(number uint16) Ports { return Ports{Numbers: []uint16{number}} }

// ConnState is what connection tracking says of a packet.
type ConnState string

// The states that rules ask for, as iptables names them.
const (
	Invalid     ConnState = "INVALID"
	Related     ConnState = "RELATED"
	Established ConnState = "ESTABLISHED"
)

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

// Mark asks for the packet mark (SO_MARK, fwmark), all 32 bits of it. 0 is not asked.
type Mark struct {
	Not   bool
	Value uint32
}
