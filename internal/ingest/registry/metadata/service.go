package metadata

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/meshpilot/meshpilot/pkg/adapter"
)

// Registration is an instance of a service with one port, as a registry lists it.
type Registration struct {
	ID, Address string
	Port        int
	// Metadata are parsed by Parse, and decide everything that the registry does not know itself.
	Metadata map[string]string
	// Region, Zone, Weight and Health apply unless metadata declare others. Weight 0 is the default
	// weight.
	Region, Zone string
	Weight       uint32
	Health       adapter.Health
}

// NewService converts the registrations of a service. The first registration determines its
// protocol and port: HTTP and 80 unless metadata declare others. Registrations without an address
// or a port are left out; if none remains, it returns nil and an error. Otherwise the error names
// invalid metadata, and registrations with another protocol or port, and the service can be used.
func NewService(key adapter.ServiceKey, host string, list []Registration) (*adapter.Service, error) {
	service := &adapter.Service{ServiceKey: key, Hosts: []string{host}}
	var errs []error
	for i := range list {
		r := &list[i]
		if r.Port <= 0 || r.Port > 65535 || r.Address == "" {
			continue // nothing can call it
		}
		m, err := Parse(r.Metadata)
		if err != nil {
			errs = append(errs, fmt.Errorf("instance %s: %w", r.ID, err))
		}
		port := portOf(&m)
		if len(service.Ports) == 0 {
			service.Ports = []adapter.Port{port}
		} else if first := service.Ports[0]; port != first {
			errs = append(errs, fmt.Errorf("instance %s has protocol %s and port %d, and others have %s and %d", r.ID,
				port.Protocol, port.Number, first.Protocol, first.Number))
			port = first
		}
		service.Instances = append(service.Instances, r.instance(&m, port.Name))
	}
	if len(service.Instances) == 0 {
		return nil, errors.New("no instance has an address and a port")
	}
	return service, errors.Join(errs...)
}

// portOf returns the port that callers use. By default the protocol is HTTP, and the number that of
// the protocol.
func portOf(m *Instance) adapter.Port {
	protocol := cmp.Or(m.Protocol, "HTTP")
	number := cmp.Or(m.ServicePort, DefaultPort(protocol))
	return adapter.Port{
		Name:   strings.ToLower(protocol) + "-" + strconv.FormatUint(uint64(number), 10),
		Number: number, Protocol: protocol,
	}
}

// instance returns the instance of a registration with its metadata. The zone, region and weight in
// the metadata precede the registration's own, and m.Zone and m.Region are set accordingly. Weight
// 0 in the metadata drains a healthy instance.
func (r *Registration) instance(m *Instance, port string) adapter.Instance {
	if m.Zone = cmp.Or(m.Zone, r.Zone); m.Zone != "" {
		m.Region = cmp.Or(m.Region, r.Region)
	}
	i := adapter.Instance{
		ID: r.ID, Address: r.Address, Ports: map[string]uint32{port: uint32(r.Port)}, Labels: m.Labels,
		Weight: cmp.Or(m.Weight, r.Weight), Locality: m.Locality(), Network: m.Network,
		ServiceAccount: m.ServiceAccount, Health: r.Health,
	}
	if m.WeightSet && m.Weight == 0 && i.Health == adapter.Healthy {
		i.Health = adapter.Draining
	}
	return i
}
