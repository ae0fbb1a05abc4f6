package netns

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"sync"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// NodeOptions describe a node.
type NodeOptions struct {
	// Name is the node's name in its network, its host name, and the name of its directory.
	// Required.
	Name string
	// Addrs are the node's addresses, each from one of the network's prefixes. At least one.
	Addrs []netip.Addr
	// Hosts are names that processes and Dial resolve, besides localhost and the node's own. See
	// Node.SetHosts.
	Hosts map[string]netip.Addr
	// ResolvConf is the content of the node's /etc/resolv.conf. If empty, it has the machine's
	// content.
	ResolvConf string
}

// Node is a network namespace with one interface (eth0, and lo), a default route to the bridge for
// every other address, and a host name, an /etc/hosts and a /dev/shm of its own. Its methods may be
// called concurrently.
type Node struct {
	name      string
	addrs     []netip.Addr
	network   *Network
	dir       string
	bridgeEnd string // name of the bridge's end of the node's veth pair
	inode     uint64 // identifies the network namespace

	mu     sync.RWMutex
	net    *os.File
	uts    *os.File
	mnt    *os.File
	hosts  map[string]netip.Addr
	closed bool
}

// newNode returns a new node with its directory and namespaces, connected to the network's bridge.
// bridgeEnd is the name of the bridge's end of its veth pair. It returns an error for a node
// without an address. After an error the directory stays.
func newNode(network *Network, opts NodeOptions, bridgeEnd string) (*Node, error) {
	if len(opts.Addrs) == 0 {
		return nil, errors.New("it has no address")
	}
	n := &Node{
		name: opts.Name, addrs: opts.Addrs, network: network, bridgeEnd: bridgeEnd,
		dir: filepath.Join(network.dir, opts.Name),
	}
	if err := os.MkdirAll(n.dir, 0o755); err != nil {
		return nil, err
	}
	if err := n.SetHosts(opts.Hosts); err != nil {
		return nil, err
	}
	if opts.ResolvConf != "" {
		if err := os.WriteFile(n.resolvConfPath(), []byte(opts.ResolvConf), 0o644); err != nil {
			return nil, err
		}
	}
	err := n.openNamespaces(opts.ResolvConf != "")
	if err == nil {
		err = n.connectVeth()
	}
	if err != nil {
		return nil, errors.Join(err, n.closeFiles())
	}
	return n, nil
}

// openNamespaces makes the namespaces on a thread that ends right after, and sets n.net, n.uts and
// n.mnt, which keep them. It sets the host name, and mounts /etc/hosts, an empty /dev/shm and, with
// resolvConf, /etc/resolv.conf. After an error the caller must close the files that were set.
func (n *Node) openNamespaces(resolvConf bool) error {
	return onDisposableThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET | unix.CLONE_NEWNS | unix.CLONE_NEWUTS); err != nil {
			return fmt.Errorf("making namespaces: %w", err)
		}
		if err := unix.Sethostname([]byte(n.name)); err != nil {
			return fmt.Errorf("setting the host name: %w", err)
		}
		// A slave: what Expose mounts in the sandbox arrives here, nothing goes back.
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
			return fmt.Errorf("detaching mounts: %w", err)
		}
		if err := unix.Mount(n.hostsPath(), "/etc/hosts", "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("mounting /etc/hosts: %w", err)
		}
		if resolvConf {
			if err := mountResolvConf(n.resolvConfPath()); err != nil {
				return fmt.Errorf("mounting /etc/resolv.conf: %w", err)
			}
		}
		// Envoys share memory under a fixed name there.
		if err := unix.Mount("tmpfs", "/dev/shm", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777"); err != nil {
			return fmt.Errorf("mounting an empty /dev/shm: %w", err)
		}
		for _, ns := range []struct {
			kind string
			file **os.File
		}{{"net", &n.net}, {"uts", &n.uts}, {"mnt", &n.mnt}} {
			f, err := os.Open("/proc/thread-self/ns/" + ns.kind)
			if err != nil {
				return err
			}
			*ns.file = f
		}
		return nil
	})
}

// Name returns the node's name.
func (n *Node) Name() string { return n.name }

// Addr returns the node's first address.
func (n *Node) Addr() netip.Addr { return n.addrs[0] }

// Dir returns the node's directory, which contains the logs of its processes.
func (n *Node) Dir() string { return n.dir }

// Traffic counts what passed a node's eth0 since it was made.
type Traffic struct {
	RxPackets, TxPackets uint64
	RxBytes, TxBytes     uint64
}

// Traffic returns the packets and bytes that eth0 has received and sent. It returns an error if the
// node is closed.
func (n *Node) Traffic() (Traffic, error) {
	var t Traffic
	err := n.Do(func() error {
		link, err := netlink.LinkByName(nodeLink)
		if err != nil {
			return fmt.Errorf("reading the counters of node %q: %w", n.name, err)
		}
		s := link.Attrs().Statistics
		t = Traffic{RxPackets: s.RxPackets, TxPackets: s.TxPackets, RxBytes: s.RxBytes, TxBytes: s.TxBytes}
		return nil
	})
	return t, err
}

// Close kills every process in the node and removes the node from its network. It returns when the
// processes are gone, with all errors joined. A second call does nothing.
func (n *Node) Close() error {
	n.mu.Lock()
	closed := n.closed
	n.closed = true
	n.mu.Unlock()
	if closed {
		return nil
	}
	err := killAll(n.inode)
	if err != nil {
		err = fmt.Errorf("closing node %q: %w", n.name, err)
	}
	return errors.Join(err, n.closeFiles(), n.network.removeNode(n))
}

// closeFiles closes the open descriptors of the node's namespaces and sets them to nil, which makes
// the node closed. It tries all and joins their errors.
func (n *Node) closeFiles() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	var errs []error
	for _, f := range []**os.File{&n.net, &n.uts, &n.mnt} {
		if *f != nil {
			errs = append(errs, (*f).Close())
			*f = nil
		}
	}
	return errors.Join(errs...)
}
