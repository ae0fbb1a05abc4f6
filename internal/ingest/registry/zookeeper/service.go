package zookeeper

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/meshpilot/meshpilot/pkg/adapter"
)

// id returns the ID of the instance of an endpoint: its address and port. A program that registers
// again has another name in ZooKeeper, but the same ID.
func (e *endpoint) id() string {
	return net.JoinHostPort(e.instance.Address, strconv.FormatUint(uint64(e.port), 10))
}

// adapterServices converts the instances of a node: one service for each host and port that callers
// use, with sorted instances. If several registrations have the same address and port, the latest
// one is used. Registrations of an earlier generation are held. The error names registrations that
// are invalid or have another protocol than others of their service.
func (s *Settings) adapterServices(node *service, generation uint64) (map[adapter.ServiceKey]adapter.Service, error) {
	type named struct {
		endpoint
		registered int64
	}
	byKey := map[adapter.ServiceKey]map[string]named{}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(node.instances)) {
		i := node.instances[name]
		if i.err != nil {
			errs = append(errs, fmt.Errorf("instance %q: %w", shortened(name), i.err))
		}
		for _, e := range i.endpoints {
			e.instance.Held = i.generation != generation
			key := s.key(&e)
			if byKey[key] == nil {
				byKey[key] = map[string]named{}
			}
			if other, found := byKey[key][e.id()]; !found || other.registered <= i.registered {
				byKey[key][e.id()] = named{e, i.registered}
			}
		}
	}
	services := make(map[adapter.ServiceKey]adapter.Service, len(byKey))
	for _, key := range slices.SortedFunc(maps.Keys(byKey), adapter.ServiceKey.Compare) {
		endpoints := byKey[key]
		var list []endpoint
		for _, id := range slices.Sorted(maps.Keys(endpoints)) {
			list = append(list, endpoints[id].endpoint)
		}
		service, err := s.adapterService(key, list)
		services[key] = service
		errs = append(errs, err)
	}
	return services, errors.Join(errs...)
}

// adapterService returns the service of endpoints with the same host and port, of which there is at
// least one. The first endpoint determines the protocol; the error names the first endpoint that
// declares another.
func (s *Settings) adapterService(key adapter.ServiceKey, endpoints []endpoint) (adapter.Service, error) {
	first := endpoints[0]
	port := adapter.Port{
		Name:   strings.ToLower(cmp.Or(first.protocol, "tcp")) + "-" + strconv.FormatUint(uint64(first.number), 10),
		Number: first.number, Protocol: first.protocol,
	}
	service := adapter.Service{ServiceKey: key, Hosts: []string{s.host(&first)}, Ports: []adapter.Port{port}}
	var err error
	for _, e := range endpoints {
		if e.protocol != first.protocol && err == nil {
			err = fmt.Errorf("instance %s has protocol %s and instance %s has protocol %s for port %d; proxies use %s",
				e.id(), e.protocol, first.id(), first.protocol, first.number, first.protocol)
		}
		i := e.instance
		i.ID, i.Ports = e.id(), map[string]uint32{port.Name: e.port}
		service.Instances = append(service.Instances, i)
	}
	return service, err
}

// host returns the host of an endpoint's service: its name in the configured domain.
func (s *Settings) host(e *endpoint) string { return e.name + "." + s.Domain }

// key returns the key of the service of an endpoint: "PORT.HOST".
func (s *Settings) key(e *endpoint) adapter.ServiceKey {
	return adapter.ServiceKey{Namespace: s.Namespace, Name: strconv.FormatUint(uint64(e.number), 10) + "." + s.host(e)}
}

// shortened returns text for a Problem, with invalid UTF-8 replaced by "?". A text of more than 120
// bytes is cut, between two characters, and ends with "…". Line breaks are kept.
func shortened(text string) string {
	const most = 120
	if text = strings.ToValidUTF8(text, "?"); len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}
