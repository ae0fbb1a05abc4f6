package iptables

import (
	"fmt"
	"net/netip"

	"github.com/miekg/dns"
)

// readNameservers returns the name servers in a resolv.conf (resolv.conf(5)). Scopes, as in
// fe80::1%eth0, are dropped, because rules cannot match them. IPv4 addresses mapped to IPv6 are
// returned as IPv4, and servers that are no IP addresses are left out. It returns an error if the
// file cannot be read.
func readNameservers(file string) ([]netip.Addr, error) {
	config, err := dns.ClientConfigFromFile(file)
	if err != nil {
		return nil, fmt.Errorf("read name servers: %w", err)
	}
	var servers []netip.Addr
	for _, text := range config.Servers {
		if a, err := netip.ParseAddr(text); err == nil {
			servers = append(servers, a.Unmap().WithZone(""))
		}
	}
	return servers, nil
}

// findNameservers sets o.Nameservers from env if RedirectDNS is set without CaptureAllDNS;
// otherwise it does nothing. If there are none, it logs a warning, and DNS is not captured. It
// returns an error if they cannot be read.
func findNameservers(o *Options, env Environment) error {
	if !o.RedirectDNS || o.CaptureAllDNS {
		return nil
	}
	var err error
	if o.Nameservers, err = env.Nameservers(); err != nil {
		return err
	}
	if len(o.Nameservers) == 0 {
		env.Log.Warn("no name servers found, DNS is not captured (--redirect-dns without --capture-all-dns)")
	}
	return nil
}
