package serviceentry

import (
	"net/netip"
	"strings"

	"istio.io/api/label"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// needsAllocation reports whether the hosts of the ServiceEntry need allocated virtual addresses.
// That is the case if it has no addresses and its resolution is not NONE, unless the label
// networking.istio.io/enable-autoallocate-ip is false. A label without effect, or neither true nor
// false, is reported as a Problem. The label true where nothing can be allocated has no effect.
func (r *reader) needsAllocation(spec *networking.ServiceEntry) bool {
	name := label.NetworkingEnableAutoallocateIp.Name
	asked, given := r.object.Labels[name]
	refused := strings.EqualFold(asked, "false")
	possible := len(spec.GetAddresses()) == 0 && spec.GetResolution() != networking.ServiceEntry_NONE
	switch {
	case given && !refused && !strings.EqualFold(asked, "true"):
		r.addProblem(config.Warning, "metadata.labels["+name+"]",
			"%q is neither true nor false; addresses are allocated", asked)
	case given && !refused && !possible:
		r.addProblem(config.Warning, "metadata.labels["+name+"]",
			"has no effect: addresses are allocated where there are none, and the resolution is not NONE")
	}
	return possible && !refused
}

// allocatedAddresses returns the valid addresses that the ServiceEntry's status lists for a host,
// in canonical form. It returns nil if there are none.
func (r *reader) allocatedAddresses(host mesh.Hostname) []string {
	if r.object.Status == nil {
		return nil
	}
	var list []string
	for _, a := range r.object.Status.Addresses {
		if mesh.Hostname(a.Host) != host {
			continue
		}
		if ip, err := netip.ParseAddr(a.Address); err == nil && ip.Zone() == "" {
			list = append(list, ip.Unmap().String())
		}
	}
	return list
}
