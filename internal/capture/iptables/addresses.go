package iptables

import (
	"errors"
	"net/netip"
	"slices"
)

// podAddresses leaves out the addresses that say nothing about the families in which the pod is reached: also that which an
// earlier run, or a CNI plugin, gave to lo.
func podAddresses(addrs []netip.Addr) []netip.Addr {
	return slices.DeleteFunc(slices.Clone(addrs), func(a netip.Addr) bool {
		return !a.IsValid() || a.IsLoopback() || a.IsLinkLocalUnicast() || a.IsLinkLocalMulticast() || a == passthroughSource(IPv6).Addr()
	})
}

// wantIPv6 decides from the pod's addresses whether there are to be rules for IPv6: in a pod that has no IPv4 address, and
// with dualStack in every pod that has an IPv6 address. A pod without any address is an error rather than a guess, for
// traffic of a family without rules goes around the proxy.
func wantIPv6(pod []netip.Addr, dualStack bool) (bool, error) {
	if len(pod) == 0 {
		return false, errors.New("no valid local IP address found: the network namespace has none but of loopback and link-local scope, so the IP families of the pod are not known")
	}
	six := slices.ContainsFunc(pod, netip.Addr.Is6)
	four := slices.ContainsFunc(pod, netip.Addr.Is4)
	return six && (dualStack || !four), nil
}
