package iptables

import (
	"fmt"
	"net/netip"

	"github.com/miekg/dns"
)

// readNameservers returns the name servers of a resolv.conf (resolv.conf(5)). A scope, as of fe80::1%eth0, is left out: rules
// know none.
func readNameservers(file string) ([]netip.Addr, error) {
	config, err := dns.ClientConfigFromFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the name servers: %w", err)
	}
	var servers []netip.Addr
	for _, text := range config.Servers {
		if a, err := netip.ParseAddr(text); err == nil {
			servers = append(servers, a.Unmap().WithZone(""))
		}
	}
	return servers, nil
}

// findNameservers adds to o what capture of DNS needs to know. Where there are no name servers there is nothing to capture.
func findNameservers(o *Options, env Environment) error {
	if !o.RedirectDNS || o.CaptureAllDNS {
		return nil
	}
	var err error
	if o.Nameservers, err = env.Nameservers(); err != nil {
		return err
	}
	if len(o.Nameservers) == 0 {
		env.Log.Warn("there are no name servers, so DNS is not captured (--redirect-dns without --capture-all-dns)")
	}
	return nil
}
