package localmesh

import (
	"fmt"
	"net/netip"
)

// The addresses of a mesh. They exist in its sandbox only.
var (
	// controlPlaneAddr is the address of the control plane.
	controlPlaneAddr = netip.MustParseAddr("10.66.0.2")      //nolint:gochecknoglobals // a constant
	workloadRange    = netip.MustParsePrefix("10.66.0.0/16") //nolint:gochecknoglobals // a constant
	serviceRange     = netip.MustParsePrefix("10.96.0.0/16") //nolint:gochecknoglobals // a constant
	// nameserver is where programs send DNS requests: the agent beside a program answers them,
	// because DNS is captured. Nothing listens at the address itself, so that the agent's own
	// requests for names outside of the mesh fail at once.
	nameserver = netip.MustParseAddr("127.0.0.53") //nolint:gochecknoglobals // a constant
)

// addressPool assigns the addresses of a range to names. A name keeps its address, unless that is
// reserved later.
type addressPool struct {
	prefix   netip.Prefix
	next     netip.Addr
	assigned map[string]netip.Addr
	reserved map[netip.Addr]bool
}

// newAddressPool returns a pool of a range whose first address is assigned after first.
func newAddressPool(prefix netip.Prefix, first netip.Addr) *addressPool {
	return &addressPool{prefix: prefix, next: first, assigned: map[string]netip.Addr{}, reserved: map[netip.Addr]bool{}}
}

// reserve excludes an address from later assignments.
func (p *addressPool) reserve(addr netip.Addr) { p.reserved[addr] = true }

// assign returns the address of a name. If the name has none, or its address is reserved by now, it
// assigns the next free one. It returns an error if the range is exhausted; addresses are not
// assigned again.
func (p *addressPool) assign(name string) (netip.Addr, error) {
	if addr, ok := p.assigned[name]; ok && !p.reserved[addr] {
		return addr, nil
	}
	for {
		p.next = p.next.Next()
		if !p.prefix.Contains(p.next) {
			return netip.Addr{}, fmt.Errorf("the addresses of %s are exhausted", p.prefix)
		}
		if !p.reserved[p.next] {
			p.assigned[name] = p.next
			return p.next, nil
		}
	}
}
