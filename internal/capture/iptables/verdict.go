package iptables

// Action is the kind of a verdict.
type Action int

const (
	// Return returns to the calling chain. At the end of the outermost chain the packet passes
	// uncaptured.
	Return Action = iota
	// Jump continues with another chain of the same table.
	Jump
	// RedirectTo redirects the connection to a local port. Replies are sent from the original
	// destination.
	RedirectTo
	// TProxyTo delivers the packet to the socket that listens at a port, with its addresses
	// unchanged, and marks it.
	TProxyTo
	// Accept accepts the packet in this table.
	Accept
	// Drop drops the packet.
	Drop
	// SetMark sets the packet's mark and continues.
	SetMark
	// SaveMark copies the packet's mark to its connection and continues.
	SaveMark
	// RestoreMark copies the connection's mark to the packet and continues.
	RestoreMark
	// SetZone assigns the packet to a conntrack zone and continues. Packets in different zones
	// never belong to the same connection, even if all addresses and ports are equal.
	SetZone
)

// Verdict is what happens to a packet that matches a rule. The zero value is Return.
type Verdict struct {
	Action Action
	Chain  string // of Jump
	Port   uint16 // of RedirectTo, TProxyTo
	Mark   uint32 // of TProxyTo, SetMark
	Zone   uint16 // of SetZone
}

// jump returns the verdict that continues in a chain.
func jump(chain string) Verdict { return Verdict{Action: Jump, Chain: chain} }

// redirect returns the verdict that redirects to a port of this host.
func redirect(port uint16) Verdict { return Verdict{Action: RedirectTo, Port: port} }
