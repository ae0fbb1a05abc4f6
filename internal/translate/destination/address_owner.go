package destination

import (
	"iter"
	"net/netip"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// AddressOwners maps the addresses of services to the service that they identify on one port. An
// address that several services of the port share maps to nil.
type AddressOwners map[netip.Addr]*mesh.Service

// OwnersOf maps each single address of the services that have the port to the service, or to nil if
// several of them share it. IPv4-mapped addresses count as IPv4, and zones are dropped. It ignores
// ranges, invalid and unspecified addresses.
func OwnersOf(services iter.Seq[*mesh.Service], port uint32) AddressOwners {
	owners := AddressOwners{}
	for svc := range services {
		if !hasPort(svc, port) {
			continue
		}
		for _, text := range svc.Addresses {
			a, err := netip.ParseAddr(text)
			if err != nil || a.IsUnspecified() {
				continue
			}
			a = a.Unmap().WithZone("")
			if owner, found := owners[a]; found && owner != svc {
				owners[a] = nil
				continue
			}
			owners[a] = svc
		}
	}
	return owners
}

// hasPort reports whether the service has a port with this number, of any protocol.
func hasPort(svc *mesh.Service, port uint32) bool {
	for i := range svc.Ports {
		if svc.Ports[i].Number == port {
			return true
		}
	}
	return false
}

// Owns reports whether address is an address of svc alone, among the services of OwnersOf. svc must
// not be nil. Any spelling of an IPv4 or IPv6 address will do. It returns false for an invalid,
// unknown or shared address.
func (o AddressOwners) Owns(svc *mesh.Service, address string) bool {
	a, err := netip.ParseAddr(address)
	return err == nil && o[a.Unmap().WithZone("")] == svc
}
