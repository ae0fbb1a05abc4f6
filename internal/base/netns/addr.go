package netns

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// gatewayOf returns the bridge's address in a range: the first after the range's own address.
func gatewayOf(p netip.Prefix) netip.Addr { return p.Masked().Addr().Next() }

// defaultRoute returns the destination of the default route in the family of an address: 0.0.0.0/0
// or ::/0.
func defaultRoute(a netip.Addr) *net.IPNet {
	bits := a.BitLen()
	return &net.IPNet{IP: make(net.IP, bits/8), Mask: net.CIDRMask(0, bits)}
}

// addAddr adds an address, with the length of its prefix, to a link. An IPv6 address can be used at
// once.
func addAddr(links *netlink.Handle, link netlink.Link, p netip.Prefix) error {
	addr := &netlink.Addr{IPNet: &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}}
	if p.Addr().Is6() {
		addr.Flags = unix.IFA_F_NODAD // usable at once; addresses are known to be unique
	}
	if err := links.AddrAdd(link, addr); err != nil {
		return fmt.Errorf("adding address %s to %s: %w", p, link.Attrs().Name, err)
	}
	return nil
}
