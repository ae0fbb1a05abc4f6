package iptables

import (
	"errors"
	"net/netip"
	"slices"
)

// filterPodAddresses returns the addresses that show in which families the pod is reached. It drops
// invalid, loopback and link-local addresses, and passthroughSource, which an earlier run or a CNI
// plugin may have added to lo. addrs is not changed.
func filterPodAddresses(addrs []netip.Addr) []netip.Addr {
	return slices.DeleteFunc(slices.Clone(addrs), func(a netip.Addr) bool {
		return !a.IsValid() || a.IsLoopback() || a.IsLinkLocalUnicast() || a.IsLinkLocalMulticast() ||
			a == passthroughSource(IPv6).Addr()
	})
}

// wantIPv6 reports whether IPv6 rules are needed. That is so if the pod has an IPv6 address and
// either no IPv4 address or dualStack is set. A pod without any address is an error, because
// traffic of a family without rules bypasses the proxy.
func wantIPv6(pod []netip.Addr, dualStack bool) (bool, error) {
	if len(pod) == 0 {
		return false, errors.New("no valid local IP address found: " +
			"the network namespace has only loopback and link-local addresses, " +
			"so the IP families of the pod are unknown")
	}
	six := slices.ContainsFunc(pod, netip.Addr.Is6)
	four := slices.ContainsFunc(pod, netip.Addr.Is4)
	return six && (dualStack || !four), nil
}
