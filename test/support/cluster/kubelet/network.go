package kubelet

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	vnetns "github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/meshpilot/meshpilot/test/support/osthread"
)

// network wires Pods with routed addresses of their own, without a bridge: all traffic passes the
// node's namespace, in which this program runs, so that kube-proxy's rules apply to it.
type network struct {
	links   *netlink.Handle
	nodeIPs []netip.Addr
	ranges  []*addresses // one for each family
}

// podNetwork is that of one Pod.
type podNetwork struct {
	namespace *os.File // nil with hostNetwork
	addresses []netip.Addr
	link      netlink.Link // the node's end of the cable
}

// podLink is the name of a Pod's interface. The gateways are the node as Pods see it: unused
// addresses, at a hardware address that both ends know, so that no lookup is needed (no ARP, no
// neighbour discovery).
const podLink = "eth0"

func gatewayAddresses() []netip.Addr {
	return []netip.Addr{netip.MustParseAddr("169.254.1.1"), netip.MustParseAddr("fe80::1")}
}

func hardwareAddress(last byte) net.HardwareAddr {
	return net.HardwareAddr{0xee, 0xee, 0xee, 0xee, 0xee, last}
}

func newNetwork(nodeIPs []netip.Addr, ranges []netip.Prefix) (*network, error) {
	links, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open netlink: %w", err)
	}
	n := &network{links: links, nodeIPs: nodeIPs}
	for _, r := range ranges {
		n.ranges = append(n.ranges, newAddresses(r))
	}
	// IPv6 may be off; then no lookup is sent.
	err = os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0)
	if slices.ContainsFunc(ranges, func(r netip.Prefix) bool { return r.Addr().Is6() }) {
		err = errors.Join(err, os.WriteFile("/proc/sys/net/ipv6/conf/all/forwarding", []byte("1"), 0))
	}
	if err != nil {
		links.Close()
		return nil, fmt.Errorf("let the node forward packets: %w", err)
	}
	return n, nil
}

func (n *network) close() { n.links.Close() }

// addPod makes the network of a Pod. name is of the node's end of its cable, 15 bytes at most.
func (n *network) addPod(name string) (*podNetwork, error) {
	p := &podNetwork{}
	if err := n.wirePod(p, name); err != nil {
		n.removePod(p)
		return nil, fmt.Errorf("make the network of a pod: %w", err)
	}
	return p, nil
}

func (n *network) wirePod(p *podNetwork, name string) (err error) {
	for _, r := range n.ranges {
		a, err := r.allocate()
		if err != nil {
			return err
		}
		p.addresses = append(p.addresses, a)
	}
	if p.namespace, err = osthread.NewNetwork(); err != nil {
		return err
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.HardwareAddr = name, hardwareAddress(0xee)
	err = n.links.LinkAdd(&netlink.Veth{
		LinkAttrs:        attrs,
		PeerName:         podLink,
		PeerHardwareAddr: hardwareAddress(1),
		PeerNamespace:    netlink.NsFd(p.namespace.Fd()),
	})
	if err != nil {
		return fmt.Errorf("add a veth pair: %w", err)
	}
	if p.link, err = n.links.LinkByName(name); err != nil {
		return err
	}
	if err := n.links.LinkSetUp(p.link); err != nil {
		return err
	}
	if err := n.wirePodEnd(p); err != nil {
		return err
	}
	for _, a := range p.addresses {
		if err := addNeighbour(n.links, p.link, a, hardwareAddress(1)); err != nil {
			return err
		}
		route := &netlink.Route{
			LinkIndex: p.link.Attrs().Index,
			Scope:     netlink.SCOPE_LINK,
			Dst:       singleAddress(a),
			Src:       n.nodeIP(a).AsSlice(),
		}
		if err := n.links.RouteReplace(route); err != nil {
			return fmt.Errorf("route %s: %w", a, err)
		}
	}
	return nil
}

// wirePodEnd assigns the Pod's interface its addresses, and a default route for each family.
func (n *network) wirePodEnd(p *podNetwork) error {
	links, err := netlink.NewHandleAt(vnetns.NsHandle(p.namespace.Fd()), unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("open netlink in the pod: %w", err)
	}
	defer links.Close()
	var eth netlink.Link
	for _, name := range []string{"lo", podLink} {
		if eth, err = links.LinkByName(name); err != nil {
			return fmt.Errorf("find %s: %w", name, err)
		}
		if err := links.LinkSetUp(eth); err != nil {
			return fmt.Errorf("set %s up: %w", name, err)
		}
	}
	for _, a := range p.addresses {
		addr := &netlink.Addr{IPNet: singleAddress(a)}
		if a.Is6() {
			addr.Flags = unix.IFA_F_NODAD // usable at once: no other process uses it
		}
		if err := links.AddrAdd(eth, addr); err != nil {
			return fmt.Errorf("add address %s: %w", a, err)
		}
		gateway := gatewayAddresses()[0]
		if a.Is6() {
			gateway = gatewayAddresses()[1]
		}
		if err := addNeighbour(links, eth, gateway, hardwareAddress(0xee)); err != nil {
			return err
		}
		index := eth.Attrs().Index
		if a.Is4() {
			if err := links.RouteAdd(
				&netlink.Route{LinkIndex: index, Scope: netlink.SCOPE_LINK, Dst: singleAddress(gateway)},
			); err != nil {
				return fmt.Errorf("route to the gateway: %w", err)
			}
		}
		everything := &net.IPNet{IP: make(net.IP, a.BitLen()/8), Mask: net.CIDRMask(0, a.BitLen())}
		if err := links.RouteAdd(&netlink.Route{LinkIndex: index, Dst: everything, Gw: gateway.AsSlice()}); err != nil {
			return fmt.Errorf("add the default route: %w", err)
		}
	}
	return nil
}

// removePod reverts the completed steps of add.
func (n *network) removePod(p *podNetwork) {
	if p.link != nil {
		_ = n.links.LinkDel(p.link) // otherwise it is removed with the namespace
	}
	if p.namespace != nil {
		p.namespace.Close()
	}
	for i, a := range p.addresses {
		n.ranges[i].releaseAddress(a)
	}
}

// nodeIP returns the node's address of the family of another.
func (n *network) nodeIP(a netip.Addr) netip.Addr {
	for _, ip := range n.nodeIPs {
		if ip.Is4() == a.Is4() {
			return ip
		}
	}
	return netip.Addr{}
}

// setParameter sets a kernel parameter of a Pod's network namespace, such as
// net.ipv4.ip_unprivileged_port_start, and verifies the result.
func (p *podNetwork) setParameter(name, value string) error {
	return osthread.Inside(p.namespace, func() error {
		if err := os.WriteFile(parameterFile(name), []byte(value), 0); err != nil {
			return err
		}
		is, err := os.ReadFile(parameterFile(name))
		if err == nil && !slices.Equal(strings.Fields(string(is)), strings.Fields(value)) {
			err = fmt.Errorf("it was set to %q and is %q", value, strings.TrimSpace(string(is)))
		}
		return err
	})
}

func addNeighbour(links *netlink.Handle, link netlink.Link, ip netip.Addr, at net.HardwareAddr) error {
	err := links.NeighSet(&netlink.Neigh{
		LinkIndex: link.Attrs().Index, State: netlink.NUD_PERMANENT, IP: ip.AsSlice(), HardwareAddr: at,
	})
	if err != nil {
		return fmt.Errorf("make %s a neighbour: %w", ip, err)
	}
	return nil
}

// singleAddress is an address as a network of its own.
func singleAddress(a netip.Addr) *net.IPNet {
	return &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(a.BitLen(), a.BitLen())}
}
