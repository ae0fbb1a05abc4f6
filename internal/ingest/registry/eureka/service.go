package eureka

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/meshpilot/meshpilot/internal/ingest/registry/metadata"
	"github.com/meshpilot/meshpilot/pkg/adapter"
)

// services converts the instances that are new or changed, and stores the results in their entries.
// It returns one service for each name and port that callers use, with all instances. The names of
// an instance are its application and its VIP addresses. The second result has the problems by
// service: invalid parts of instances, protocols that differ from the first instance's, and held
// instances.
func (s *Settings) services(t *table) (map[adapter.ServiceKey]adapter.Service, map[adapter.ServiceKey]error) {
	services, problems := map[adapter.ServiceKey]adapter.Service{}, map[adapter.ServiceKey]error{}
	held := map[adapter.ServiceKey]int{}
	for _, k := range slices.SortedFunc(maps.Keys(t.instances), compareKeys) {
		e := t.instances[k]
		if e.converted == nil {
			e.converted, e.problem = s.convert(&e.instance)
		}
		for _, c := range e.converted {
			i := c.Instances[0]
			i.Held = !e.missing.IsZero()
			service, found := services[c.ServiceKey]
			if !found {
				service = c
				service.Instances = nil
			}
			if p, q := c.Ports[0], service.Ports[0]; p != q {
				problem := fmt.Errorf("instance %s has protocol %s for port %d, and other instances have %s", k.id,
					p.Protocol, p.Number, q.Protocol)
				problems[c.ServiceKey] = errors.Join(problems[c.ServiceKey], problem)
				i.Ports = map[string]uint32{q.Name: i.Ports[p.Name]}
			}
			service.Instances = append(service.Instances, i)
			services[c.ServiceKey] = service
			if i.Held {
				held[c.ServiceKey]++
			}
			if e.problem != nil {
				problems[c.ServiceKey] = errors.Join(problems[c.ServiceKey], fmt.Errorf("instance %s: %w", k.id, e.problem))
			}
		}
	}
	for key, n := range held {
		problems[key] = errors.Join(problems[key],
			fmt.Errorf("the Eureka server does not list %d of the instances and has not reported "+
				"their removal; they stay in use until their leases have passed and the server lists most instances", n))
	}
	return services, problems
}

// compareKeys orders instances by application and ID.
func compareKeys(a, b key) int { return cmp.Or(cmp.Compare(a.app, b.app), cmp.Compare(a.id, b.id)) }

// convert returns a service with this one instance for each of its names and enabled ports. The
// plain port has the protocol and the service port of the metadata, by default HTTP and the default
// port of the protocol. The secure port is HTTPS with its default port. The error names invalid
// metadata; the services can be used nevertheless.
func (s *Settings) convert(i *instance) ([]adapter.Service, error) {
	meta := maps.Clone(map[string]string(i.Metadata))
	for _, technical := range []string{"management.port", "jmx.port"} {
		delete(meta, technical)
	}
	m, err := metadata.Parse(meta)
	m.Zone = cmp.Or(m.Zone, i.DataCenter.Metadata["availability-zone"])
	if m.Zone != "" {
		m.Region = cmp.Or(m.Region, s.Region)
	}
	instance := adapter.Instance{
		ID: i.ID, Address: cmp.Or(i.IP, i.HostName), Labels: m.Labels, Weight: m.Weight, Locality: m.Locality(),
		Network:        m.Network,
		ServiceAccount: m.ServiceAccount, Health: healthOf(i.Status, &m),
	}
	var list []adapter.Service
	protocol := cmp.Or(m.Protocol, "HTTP")
	for _, p := range []struct {
		own      port
		names    string
		protocol string
		number   uint32
	}{
		{i.Port, i.VIP, protocol, cmp.Or(m.ServicePort, metadata.DefaultPort(protocol))},
		{i.SecurePort, i.SecureVIP, "HTTPS", metadata.DefaultPort("HTTPS")},
	} {
		if p.own == 0 {
			continue
		}
		port := adapter.Port{Name: strings.ToLower(p.protocol) + "-" + strconv.FormatUint(uint64(p.number), 10),
			Number: p.number, Protocol: p.protocol}
		one := instance
		one.Ports = map[string]uint32{port.Name: uint32(p.own)}
		for _, name := range names(i.App, p.names) {
			host := name + ".service." + s.Domain
			key := adapter.ServiceKey{Namespace: s.Namespace,
				Name: strconv.FormatUint(uint64(p.number), 10) + "." + host}
			list = append(list, adapter.Service{
				ServiceKey: key, Hosts: []string{host}, Ports: []adapter.Port{port}, Instances: []adapter.Instance{one},
			})
		}
	}
	return list, err
}

// maxNames limits the names of an instance.
const maxNames = 16

// names returns the names of an instance as parts of hosts (metadata.HostPart), without duplicates.
// The first is its application, then follow the VIP addresses, which commas separate, without their
// ports. VIP addresses that are empty or have variables that were not replaced are left out, and so
// are all names after maxNames.
func names(app, vips string) []string {
	list := []string{metadata.HostPart(app)}
	for _, vip := range strings.Split(vips, ",") {
		vip, _, _ = strings.Cut(strings.TrimSpace(vip), ":") // some programs add a port
		if vip != "" && !strings.ContainsAny(vip, "${}") && !slices.Contains(list, metadata.HostPart(vip)) &&
			len(list) < maxNames {
			list = append(list, metadata.HostPart(vip))
		}
	}
	return list
}

// healthOf returns the health of an instance with a status of Eureka. OUT_OF_SERVICE is Draining,
// and so is UP with weight 0. Other statuses than UP are Unhealthy. An unknown status is Unhealthy
// as well.
func healthOf(status string, m *metadata.Instance) adapter.Health {
	switch {
	case status == "OUT_OF_SERVICE", status == "UP" && m.WeightSet && m.Weight == 0:
		return adapter.Draining
	case status == "UP":
		return adapter.Healthy
	default: // STARTING, DOWN, UNKNOWN
		return adapter.Unhealthy
	}
}
