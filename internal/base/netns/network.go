package netns

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/vishvananda/netlink"
	vnetns "github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

const (
	bridgeName = "br0"
	nodeLink   = "eth0"
)

// Options describe a network.
type Options struct {
	// Prefixes are the ranges that nodes have their addresses from, at most one for each address
	// family. The first address of each belongs to the bridge and is the nodes' default gateway.
	// Default: 10.66.0.0/16.
	Prefixes []netip.Prefix
	// Dir is where each node gets a directory for its logs and its hosts file. It must exist; it is
	// left as it is.
	Dir string
}

// Network is a bridge in a namespace of its own, and the nodes joined to it. Its methods may be
// called concurrently.
type Network struct {
	prefixes []netip.Prefix
	dir      string
	home     *os.File // the network namespace of the program itself
	bridge   *os.File // the network namespace that holds the bridge
	links    *netlink.Handle

	mu     sync.Mutex
	nodes  map[string]*Node
	made   int // counts links, for their names
	closed bool
}

// New makes a network without nodes, by default with 10.66.0.0/16. It returns an error, with
// nothing left open, if the program is not in a sandbox (see Run) or the bridge cannot be made.
func New(opts Options) (*Network, error) {
	if err := Available(); err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(opts.Dir)
	if err != nil {
		return nil, fmt.Errorf("making a network: %w", err)
	}
	n := &Network{prefixes: opts.Prefixes, dir: dir, nodes: map[string]*Node{}}
	if len(n.prefixes) == 0 {
		n.prefixes = []netip.Prefix{netip.MustParsePrefix("10.66.0.0/16")}
	}
	if err := n.setUp(); err != nil {
		return nil, errors.Join(fmt.Errorf("making a network: %w", err), n.Close())
	}
	return n, nil
}

// setUp creates the bridge's namespace, opens netlink in it and adds the bridge. After an error the
// caller must call Close.
func (n *Network) setUp() (err error) {
	if n.home, err = os.Open("/proc/thread-self/ns/net"); err != nil {
		return err
	}
	err = onDisposableThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("making the bridge's namespace: %w", err)
		}
		n.bridge, err = os.Open("/proc/thread-self/ns/net")
		return err
	})
	if err != nil {
		return err
	}
	if n.links, err = netlink.NewHandleAt(vnetns.NsHandle(n.bridge.Fd())); err != nil {
		return fmt.Errorf("opening netlink in the bridge's namespace: %w", err)
	}
	return n.addBridge()
}

// addBridge adds the bridge, with the gateway's address of each prefix, and sets it up. It also
// adds the routes of refuseUnusedAddresses.
func (n *Network) addBridge() error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = bridgeName
	noSnooping := false // it would hold back IPv6 neighbour discovery until a querier is heard
	bridge := &netlink.Bridge{LinkAttrs: attrs, MulticastSnooping: &noSnooping}
	if err := n.links.LinkAdd(bridge); err != nil {
		return fmt.Errorf("adding the bridge: %w", err)
	}
	for _, p := range n.prefixes {
		if err := addAddr(n.links, bridge, netip.PrefixFrom(gatewayOf(p), p.Bits())); err != nil {
			return err
		}
	}
	lo, err := n.links.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("finding lo: %w", err)
	}
	for _, link := range []netlink.Link{lo, bridge} {
		if err := n.links.LinkSetUp(link); err != nil {
			return fmt.Errorf("setting %s up: %w", link.Attrs().Name, err)
		}
	}
	return n.refuseUnusedAddresses(lo)
}

// refuseUnusedAddresses routes every address outside the network to the bridge itself, where
// nothing listens. A connection to an unused address is then refused at once, instead of timing
// out.
func (n *Network) refuseUnusedAddresses(lo netlink.Link) error {
	for _, p := range n.prefixes {
		route := &netlink.Route{
			LinkIndex: lo.Attrs().Index,
			Dst:       defaultRoute(p.Addr()),
			Type:      unix.RTN_LOCAL,
			Scope:     netlink.SCOPE_HOST,
			Table:     unix.RT_TABLE_MAIN, // after the network's own, more specific route; not table local, which goes first
		}
		if err := n.links.RouteAdd(route); err != nil {
			return fmt.Errorf("adding the route for unused addresses: %w", err)
		}
	}
	return nil
}

// AddNode makes a node, see NodeOptions. It fails if the network is closed or has a node of this
// name. A node without an address, or with one outside of the network, is an error too.
func (n *Network) AddNode(opts NodeOptions) (*Node, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil, fmt.Errorf("adding node %q: the network is closed", opts.Name)
	}
	if _, taken := n.nodes[opts.Name]; taken {
		return nil, fmt.Errorf("adding node %q: there is one of that name", opts.Name)
	}
	n.made++
	node, err := newNode(n, opts, fmt.Sprintf("veth%d", n.made))
	if err != nil {
		return nil, fmt.Errorf("adding node %q: %w", opts.Name, err)
	}
	n.nodes[opts.Name] = node
	return node, nil
}

// Node returns the node of a name, nil if there is none.
func (n *Network) Node(name string) *Node {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.nodes[name]
}

// Nodes returns all nodes, ordered by name.
func (n *Network) Nodes() []*Node {
	n.mu.Lock()
	defer n.mu.Unlock()
	nodes := make([]*Node, 0, len(n.nodes))
	for _, node := range n.nodes {
		nodes = append(nodes, node)
	}
	slices.SortFunc(nodes, func(a, b *Node) int { return cmp.Compare(a.name, b.name) })
	return nodes
}

// Close kills every process in every node (for SIGTERM, call Process.Stop first) and removes the
// namespaces. It returns when the processes are gone, with all errors joined. A second call does
// nothing.
func (n *Network) Close() error {
	nodes := n.Nodes()
	n.mu.Lock()
	closed := n.closed
	n.closed = true
	n.mu.Unlock()
	if closed {
		return nil
	}
	var errs []error
	for _, node := range nodes {
		errs = append(errs, node.Close())
	}
	if n.links != nil {
		n.links.Close()
	}
	for _, f := range []*os.File{n.bridge, n.home} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}

// removeNode removes a node from the table and removes its veth pair. Removing one end removes the
// other, even if a process still holds the node's namespace. A missing pair is no error.
func (n *Network) removeNode(node *Node) error {
	n.mu.Lock()
	delete(n.nodes, node.name)
	n.mu.Unlock()
	link, err := n.links.LinkByName(node.bridgeEnd)
	if err != nil {
		var gone netlink.LinkNotFoundError
		if errors.As(err, &gone) {
			return nil
		}
		return fmt.Errorf("removing node %q: %w", node.name, err)
	}
	// It may go by itself just now, with the namespace at its other end.
	if err := n.links.LinkDel(link); err != nil && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("removing node %q: %w", node.name, err)
	}
	return nil
}
