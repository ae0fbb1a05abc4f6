package netns

import (
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// hostsPath returns the path of the node's /etc/hosts, in the node's directory.
func (n *Node) hostsPath() string { return filepath.Join(n.dir, "hosts") }

// SetHosts replaces the names that the node knows: localhost, its own name, and hosts, which may
// override these two. Running processes see it with their next look-up. If the file cannot be
// written, it returns an error, and Resolve keeps the previous names.
func (n *Node) SetHosts(hosts map[string]netip.Addr) error {
	all := map[string]netip.Addr{"localhost": netip.AddrFrom4([4]byte{127, 0, 0, 1})}
	if len(n.addrs) > 0 {
		all[n.name] = n.addrs[0]
	}
	maps.Copy(all, hosts)

	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&b, "%s\t%s\n", all[name], name)
	}
	// In place: a renamed file would not show through the bind mount.
	if err := os.WriteFile(n.hostsPath(), []byte(b.String()), 0o644); err != nil {
		return fmt.Errorf("writing the hosts of node %q: %w", n.name, err)
	}
	n.mu.Lock()
	n.hosts = all
	n.mu.Unlock()
	return nil
}

// Resolve returns the address of a name in the node's hosts (SetHosts), or a literal address
// itself. It does not query DNS: any other name is an error.
func (n *Node) Resolve(host string) (netip.Addr, error) {
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr, nil
	}
	n.mu.RLock()
	defer n.mu.RUnlock()
	if addr, ok := n.hosts[host]; ok {
		return addr, nil
	}
	return netip.Addr{}, fmt.Errorf("node %q knows no host %q", n.name, host)
}
