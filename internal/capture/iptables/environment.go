package iptables

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/google/nftables"
	"github.com/mdlayher/netlink"
)

// Environment is all access to the system that Run needs. System returns the real one.
type Environment struct {
	Log *slog.Logger
	// Out is where a dry run prints the rules.
	Out io.Writer
	// Tools runs the iptables programs.
	Tools Tools
	// Netlink opens a connection to nf_tables in the network namespace of the calling thread.
	Netlink func() (Netlink, error)
	// Loopback changes the addresses of lo in the network namespace of the calling thread.
	Loopback LoopbackAddresses
	// Routing changes the routing of marked packets in the network namespace of the calling thread.
	Routing Routing
	// Nameservers returns the name servers of the host's resolver.
	Nameservers func() ([]netip.Addr, error)
	// Addresses returns the interface addresses in the network namespace of the calling thread,
	// IPv4 first.
	Addresses func() ([]netip.Addr, error)
	// UIDMapped and GIDMapped report whether this user namespace maps the ID, so that a process can
	// have it.
	UIDMapped, GIDMapped func(id uint32) bool
}

// Tools finds and runs programs.
type Tools interface {
	// Find returns the path of a program, or an error that names it.
	Find(name string) (string, error)
	// Run returns the program's standard output. The error contains its standard error.
	Run(ctx context.Context, call Call) (string, error)
}

// Call is one run of a program.
type Call struct {
	Path  string
	Args  []string
	Env   []string // added to the environment of this process
	Stdin string
}

// Netlink is the used part of *nftables.Conn. Changes are queued until Flush, which applies all of
// them or none.
type Netlink interface {
	ListTables() ([]*nftables.Table, error)
	AddTable(*nftables.Table) *nftables.Table
	DelTable(*nftables.Table)
	AddChain(*nftables.Chain) *nftables.Chain
	AddRule(*nftables.Rule) *nftables.Rule
	Flush() error
}

var _ Netlink = (*nftables.Conn)(nil)

// System returns the real environment: installed programs, the kernel's interfaces,
// /etc/resolv.conf and the ID maps of this process. out receives the output of a dry run.
func System(log *slog.Logger, out io.Writer) Environment {
	return Environment{
		Log:      log,
		Out:      out,
		Tools:    systemTools{},
		Netlink:  openNetlink,
		Loopback: systemLoopback{},
		Routing:  systemRouting{},
		Nameservers: func() ([]netip.Addr, error) {
			return readNameservers("/etc/resolv.conf")
		},
		Addresses: interfaceAddresses,
		UIDMapped: func(id uint32) bool { return isIDMapped("/proc/self/uid_map", id) },
		GIDMapped: func(id uint32) bool { return isIDMapped("/proc/self/gid_map", id) },
	}
}

// netlinkDeadline bounds the wait for the kernel's replies to one transaction.
const netlinkDeadline = 10 * time.Second

// openNetlink returns a connection to nf_tables in the network namespace of the calling thread.
// Reads fail once netlinkDeadline has passed since the call.
func openNetlink() (Netlink, error) {
	return nftables.New(nftables.WithSockOptions(func(c *netlink.Conn) error {
		return c.SetReadDeadline(time.Now().Add(netlinkDeadline))
	}))
}

// interfaceAddresses returns the addresses of all interfaces in the network namespace. IPv4
// addresses mapped to IPv6 are returned as IPv4.
func interfaceAddresses() ([]netip.Addr, error) {
	nets, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("list addresses of the network namespace: %w", err)
	}
	var addrs []netip.Addr
	for _, n := range nets {
		if ipNet, ok := n.(*net.IPNet); ok {
			if addr, ok := netip.AddrFromSlice(ipNet.IP); ok {
				addrs = append(addrs, addr.Unmap())
			}
		}
	}
	return addrs, nil
}

// isIDMapped reports whether a map file contains an ID inside the namespace (user_namespaces(7)).
// If the file cannot be read, it returns true.
func isIDMapped(file string, id uint32) bool {
	text, err := os.ReadFile(file)
	if err != nil {
		return true
	}
	for line := range strings.Lines(string(text)) {
		var inside, outside, count uint64
		_, err := fmt.Sscan(line, &inside, &outside, &count)
		if err == nil && uint64(id) >= inside && uint64(id)-inside < count {
			return true
		}
	}
	return false
}
