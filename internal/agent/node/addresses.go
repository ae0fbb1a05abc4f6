package node

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/meshpilot/meshpilot/internal/agent/environment"
)

// Interface is a network interface with its addresses.
type Interface struct {
	Name      string
	Addresses []netip.Addr
}

// HostInterfaces returns the network interfaces of this network namespace with their addresses, in
// the system's order. IPv4-mapped IPv6 addresses are returned as IPv4. It fails if interfaces, or
// the addresses of one, cannot be listed.
func HostInterfaces() ([]Interface, error) {
	found, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("list network interfaces: %w", err)
	}
	list := make([]Interface, 0, len(found))
	for _, i := range found {
		addrs, err := i.Addrs()
		if err != nil {
			return nil, fmt.Errorf("list addresses of network interface %q: %w", i.Name, err)
		}
		one := Interface{Name: i.Name}
		for _, a := range addrs {
			if prefix, err := netip.ParsePrefix(a.String()); err == nil {
				one.Addresses = append(one.Addresses, prefix.Addr().Unmap())
			}
		}
		list = append(list, one)
	}
	return list, nil
}

// ProxyAddresses returns the proxy's addresses without duplicates: INSTANCE_IP first, then
// INSTANCE_IPS. If INSTANCE_IPS is empty, it adds the global unicast addresses of all interfaces
// whose names are not in excluded. If that leaves no address, it returns 127.0.0.1.
func ProxyAddresses(env environment.Environment, interfaces []Interface, excluded []string) []netip.Addr {
	var list []netip.Addr
	add := func(a netip.Addr) {
		if a.IsValid() && !slices.Contains(list, a) {
			list = append(list, a)
		}
	}
	add(env.InstanceIP)
	for _, a := range env.InstanceIPs {
		add(a)
	}
	if len(env.InstanceIPs) == 0 {
		for _, i := range interfaces {
			for _, a := range i.Addresses {
				if a.IsGlobalUnicast() && !slices.Contains(excluded, i.Name) {
					add(a)
				}
			}
		}
	}
	if len(list) == 0 {
		add(netip.AddrFrom4([4]byte{127, 0, 0, 1}))
	}
	return list
}

// ExcludedInterfaces returns the names in the comma-separated annotation
// traffic.sidecar.istio.io/excludeInterfaces, trimmed and without empty ones, or nil. Traffic of
// these interfaces is not captured, so their addresses are not the proxy's.
func ExcludedInterfaces(annotations map[string]string) []string {
	var names []string
	for name := range strings.SplitSeq(annotations["traffic.sidecar.istio.io/excludeInterfaces"], ",") {
		if name = strings.TrimSpace(name); name != "" {
			names = append(names, name)
		}
	}
	return names
}
