package view

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// ServiceNamed returns the service that a host names for a proxy with the DNS domain
// "NAMESPACE.svc.cluster.local", in any case of letters and with or without a final dot. It tries
// the host itself, then with that domain appended, then with "svc.cluster.local" and
// "cluster.local". It returns nil if the View has no such service.
func (v *View) ServiceNamed(host, dnsDomain string) *mesh.Service {
	_, cluster, _ := strings.Cut(dnsDomain, ".")
	_, domain, _ := strings.Cut(cluster, ".")
	for _, name := range []string{host, host + "." + dnsDomain, host + "." + cluster, host + "." + domain} {
		if svc := v.Service(mesh.Hostname(strings.ToLower(strings.TrimSuffix(name, ".")))); svc != nil {
			return svc
		}
	}
	return nil
}

// AddressOf returns the address to which callers of a service connect: the first IP address among
// its own addresses, its allocated addresses and its endpoints' addresses. ok is false if there is
// none. Unspecified addresses (0.0.0.0, ::) are skipped.
func (v *View) AddressOf(svc *mesh.Service) (a netip.Addr, ok bool) {
	candidates := slices.Concat(svc.Addresses, svc.Allocated)
	for _, e := range v.Endpoints(svc).Endpoints {
		candidates = append(candidates, e.Address)
	}
	for _, c := range candidates {
		if a, err := netip.ParseAddr(c); err == nil && !a.IsUnspecified() {
			return a, true
		}
	}
	return netip.Addr{}, false
}
