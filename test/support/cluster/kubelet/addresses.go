package kubelet

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
)

// addresses allocates the addresses of a range in turn, so that a released address is not reused at
// once: a caller of the previous holder must fail, not reach another one.
type addresses struct {
	prefix netip.Prefix

	mu   sync.Mutex
	next netip.Addr
	used map[netip.Addr]bool
}

// newAddresses leaves out the first two of the range: that of the network, and one for the node.
func newAddresses(prefix netip.Prefix) *addresses {
	return &addresses{prefix: prefix.Masked(), used: map[netip.Addr]bool{}}
}

// mostAddresses bounds how many are looked through.
const mostAddresses = 1 << 16

func (a *addresses) allocate() (netip.Addr, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for range mostAddresses {
		if !a.next.IsValid() || !a.prefix.Contains(a.next) {
			a.next = a.prefix.Addr().Next().Next()
		}
		ip := a.next
		a.next = ip.Next()
		if !a.used[ip] && a.prefix.Contains(ip) {
			a.used[ip] = true
			return ip, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("no address of %s is free", a.prefix)
}

// reserveAddress reserves a given address. It does nothing for an address outside of the range or a
// reserved one.
func (a *addresses) reserveAddress(ip netip.Addr) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.used[ip] = true
}

func (a *addresses) releaseAddress(ip netip.Addr) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.used, ip)
}

// parameterFile returns the file of a kernel parameter.
func parameterFile(name string) string {
	return filepath.Join("/proc/sys", strings.ReplaceAll(name, ".", "/"))
}
