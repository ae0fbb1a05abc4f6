package serviceentry

import (
	"net/netip"
	"strings"

	"istio.io/api/label"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// allocates says whether hosts of the ServiceEntry are to be given virtual addresses: where it names none, and the address
// that the caller chose is not what proxies connect to. The label networking.istio.io/enable-autoallocate-ip can refuse.
func (r *reader) allocates(spec *networking.ServiceEntry) bool {
	name := label.NetworkingEnableAutoallocateIp.Name
	asked, given := r.object.Labels[name]
	refused := strings.EqualFold(asked, "false")
	possible := len(spec.GetAddresses()) == 0 && spec.GetResolution() != networking.ServiceEntry_NONE
	switch {
	case given && !refused && !strings.EqualFold(asked, "true"):
		r.wrong(config.Warning, "metadata.labels["+name+"]", "%q is neither true nor false; addresses are allocated", asked)
	case given && !refused && !possible:
		r.wrong(config.Warning, "metadata.labels["+name+"]", "has no effect: addresses are allocated where there are none, and the resolution is not NONE")
	}
	return possible && !refused
}

// allocated gives the addresses that the status says a host has been given.
func (r *reader) allocated(host mesh.Hostname) []string {
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
