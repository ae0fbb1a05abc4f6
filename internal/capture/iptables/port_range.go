package iptables

import (
	"fmt"
	"math"

	"github.com/meshpilot/meshpilot/internal/base/portrange"
)

// PortRange is a portrange.Range that is printed as iptables and nft do. Port 0 is valid: no
// connection has it.
type PortRange portrange.Range

// SinglePort returns the range of one port.
func SinglePort(number uint16) PortRange { return PortRange{number, number} }

// String returns the range as in flags and in iptables-save: "80" or "8000:8010".
func (r PortRange) String() string { return r.format(":") }

// nft returns the range in the syntax of nft: "80" or "8000-8010".
func (r PortRange) nft() string { return r.format("-") }

// format returns the number of a single port, otherwise both ends with separator between them.
func (r PortRange) format(separator string) string {
	if r.First == r.Last {
		return fmt.Sprint(r.First)
	}
	return fmt.Sprint(r.First) + separator + fmt.Sprint(r.Last)
}

// Ports matches destination ports in a list, or not in it with Not.
type Ports struct {
	Not  bool
	List []PortRange
}

// port returns a condition for a single port.
func port(number uint16) Ports { return portRange(SinglePort(number)) }

// portRange returns a condition for a range. For all ports it is none, because iptables leaves that
// out of its listing.
func portRange(r PortRange) Ports {
	if r.First == 0 && r.Last == math.MaxUint16 {
		return Ports{}
	}
	return Ports{List: []PortRange{r}}
}
