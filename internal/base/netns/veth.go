package netns

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink"
	vnetns "github.com/vishvananda/netns"
)

// carrierWait bounds the wait for the carrier of a new veth pair; it takes milliseconds.
const carrierWait = 5 * time.Second

// connectVeth joins the node to the bridge by a veth pair, assigns its addresses and routes, and
// sets n.inode. It waits until both ends of the pair are up. It returns an error if a step fails or
// an end is not up after carrierWait.
func (n *Node) connectVeth() error {
	stat, err := n.net.Stat()
	if err != nil {
		return err
	}
	n.inode = inodeOf(stat)
	links, err := netlink.NewHandleAt(vnetns.NsHandle(n.net.Fd()))
	if err != nil {
		return fmt.Errorf("opening netlink: %w", err)
	}
	defer links.Close()

	attrs := netlink.NewLinkAttrs()
	attrs.Name = nodeLink
	veth := &netlink.Veth{
		LinkAttrs: attrs, PeerName: n.bridgeEnd, PeerNamespace: netlink.NsFd(n.network.bridge.Fd()),
	}
	if err := links.LinkAdd(veth); err != nil {
		return fmt.Errorf("adding a veth pair: %w", err)
	}
	if err := n.addBridgeEnd(); err != nil {
		return err
	}
	lo, err := links.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("finding lo: %w", err)
	}
	for _, link := range []netlink.Link{lo, veth} {
		if err := links.LinkSetUp(link); err != nil {
			return fmt.Errorf("setting %s up: %w", link.Attrs().Name, err)
		}
	}
	if err := n.assignAddresses(links, veth); err != nil {
		return err
	}
	return errors.Join(awaitCarrier(links, nodeLink), awaitCarrier(n.network.links, n.bridgeEnd))
}

// awaitCarrier waits until the kernel's link watcher has seen a link's carrier, a moment after it
// was set up. Until then the bridge forwards nothing to it: a first packet would be lost, and sent
// again only a second later. It returns an error after carrierWait.
func awaitCarrier(links *netlink.Handle, name string) error {
	ctx, cancel := context.WithTimeout(context.Background(), carrierWait)
	defer cancel()
	for {
		link, err := links.LinkByName(name)
		if err != nil {
			return fmt.Errorf("finding %s: %w", name, err)
		}
		if link.Attrs().OperState == netlink.OperUp {
			return nil
		}
		if !sleepFor(ctx, time.Millisecond) {
			return fmt.Errorf("%s is still %s after %s", name, link.Attrs().OperState, carrierWait)
		}
	}
}

// addBridgeEnd attaches the bridge's end of the veth pair to the bridge, and then sets that end up.
// It returns an error if one of both does not exist or a step fails.
func (n *Node) addBridgeEnd() error {
	link, err := n.network.links.LinkByName(n.bridgeEnd)
	if err != nil {
		return fmt.Errorf("finding %s: %w", n.bridgeEnd, err)
	}
	bridge, err := n.network.links.LinkByName(bridgeName)
	if err != nil {
		return fmt.Errorf("finding the bridge: %w", err)
	}
	if err := n.network.links.LinkSetMaster(link, bridge); err != nil {
		return fmt.Errorf("adding %s to the bridge: %w", n.bridgeEnd, err)
	}
	if err := n.network.links.LinkSetUp(link); err != nil {
		return fmt.Errorf("setting %s up: %w", n.bridgeEnd, err)
	}
	return nil
}

// assignAddresses assigns the interface its addresses, and for each of their prefixes a default
// route by its gateway. It returns an error if an address is in none of the network's prefixes.
func (n *Node) assignAddresses(links *netlink.Handle, link netlink.Link) error {
	routed := map[netip.Prefix]bool{}
	for _, addr := range n.addrs {
		prefix, ok := n.network.prefixOf(addr)
		if !ok {
			return fmt.Errorf("address %s is in none of %v", addr, n.network.prefixes)
		}
		if err := addAddr(links, link, netip.PrefixFrom(addr, prefix.Bits())); err != nil {
			return err
		}
		if routed[prefix] {
			continue
		}
		routed[prefix] = true
		route := &netlink.Route{
			LinkIndex: link.Attrs().Index, Dst: defaultRoute(addr), Gw: gatewayOf(prefix).AsSlice(),
		}
		if err := links.RouteAdd(route); err != nil {
			return fmt.Errorf("adding the default route: %w", err)
		}
	}
	return nil
}

// prefixOf returns the prefix of the network that contains an address, and false if none does. The
// first of several is returned.
func (n *Network) prefixOf(addr netip.Addr) (netip.Prefix, bool) {
	for _, p := range n.prefixes {
		if p.Contains(addr) {
			return p, true
		}
	}
	return netip.Prefix{}, false
}
