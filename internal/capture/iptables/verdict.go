package iptables

// Action is the kind of a verdict.
type Action int

const (
	// Return goes on with the calling chain, and at the end of that, uncaptured.
	Return Action = iota
	// Jump goes on with another chain of the same table.
	Jump
	// RedirectTo sends the connection to a port of the machine itself, and sends its answers back under the first destination.
	RedirectTo
	// TProxyTo gives the packet to the socket that listens at a port, with both of its addresses as they are, and marks it.
	TProxyTo
	// Accept ends the table.
	Accept
	// Drop ends the packet.
	Drop
	// SetMark marks the packet and goes on.
	SetMark
	// SaveMark gives the packet's mark to its connection and goes on.
	SaveMark
	// RestoreMark gives the connection's mark to the packet and goes on.
	RestoreMark
	// SetZone has the packet's connection looked for among those of a zone only, and goes on. What is in two zones cannot be
	// mistaken for one connection, though all addresses and ports are alike.
	SetZone
)

// Verdict is what happens to a packet for which a rule holds. The zero value is Return.
type Verdict struct {
	Action Action
	Chain  string // of Jump
	Port   uint16 // of RedirectTo, TProxyTo
	Mark   uint32 // of TProxyTo, SetMark
	Zone   uint16 // of SetZone
}

func jump(chain string) Verdict { return Verdict{Action: Jump, Chain: chain} }

func redirect(port uint16) Verdict { return Verdict{Action: RedirectTo, Port: port} }
