package serviceentry

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// reader converts one object, and collects what is wrong with it.
type reader struct {
	*Converter
	object   *config.Config
	problems []config.Problem
}

func (r *reader) wrong(severity config.Severity, field, format string, args ...any) {
	r.problems = append(r.problems, config.Problem{
		Key: r.object.Key, Field: field, Reason: fmt.Sprintf(format, args...), Severity: severity, Origin: r.object.Origin,
	})
}

// serviceEntry makes the services and shards of a ServiceEntry: each of its hosts is a service of its own, and all have
// the same addresses, ports and endpoints.
func (r *reader) serviceEntry(spec *networking.ServiceEntry, into *converted) {
	base := mesh.Service{
		Provider:            mesh.External,
		Cluster:             r.options.Cluster,
		Name:                r.object.Name,
		Addresses:           r.addresses(spec),
		Ports:               r.ports(spec),
		Resolution:          r.resolution(spec),
		MeshExternal:        spec.GetLocation() == networking.ServiceEntry_MESH_EXTERNAL,
		ExportTo:            r.exportTo(spec),
		Accounts:            spec.GetSubjectAltNames(),
		Labels:              r.object.Labels,
		Session:             r.options.Labels.SessionOf(r.object.Labels),
		Created:             r.object.Created.UTC(),
		TrafficDistribution: r.trafficDistribution(),
		From:                r.object.Key,
	}
	if selector := spec.GetWorkloadSelector(); selector != nil {
		if len(spec.GetEndpoints()) > 0 {
			r.wrong(config.Error, "spec.endpoints", "cannot be used together with workloadSelector, which counts")
		}
		base.SelectsPods, base.SelectsWorkloadEntries = !r.options.IgnorePods, true
		if base.Selector = selector.GetLabels(); base.Selector == nil {
			base.Selector = map[string]string{} // all of the namespace
		}
	}
	allocates := r.allocates(spec)
	listed := r.listedEndpoints(spec, base)
	for _, host := range r.hosts(spec) {
		s := base
		s.ServiceKey = mesh.ServiceKey{Namespace: r.object.Namespace, Host: host}
		if s.Allocates = allocates && (!host.IsWildcard() || s.Resolution == mesh.DynamicDNS); s.Allocates {
			s.Allocated = r.allocated(host)
		}
		into.services = append(into.services, s.Sealed())
		endpoints := listed
		if resolvesHost(spec) {
			endpoints = r.hostEndpoints(host, base.Ports)
		}
		if len(endpoints) > 0 {
			key := mesh.ShardKey{Provider: mesh.External, Cluster: r.options.Cluster, Object: r.object.Key}
			into.shards = append(into.shards, mesh.Shard{Service: s.ServiceKey, Key: key, Endpoints: endpoints}.Sealed())
		}
	}
}

// hosts gives the hosts, each once, sorted.
func (r *reader) hosts(spec *networking.ServiceEntry) []mesh.Hostname {
	var list []mesh.Hostname
	for i, h := range spec.GetHosts() {
		field := fmt.Sprintf("spec.hosts[%d]", i)
		host := mesh.Hostname(strings.ToLower(h))
		switch {
		case host == "" || host == "*":
			r.wrong(config.Error, field, "%q is no host of a service; it is left out", h)
		case slices.Contains(list, host):
			r.wrong(config.Warning, field, "%q is listed twice", h)
		case !host.IsWildcard() && spec.GetResolution() == networking.ServiceEntry_DYNAMIC_DNS:
			r.wrong(config.Error, field, "%q is not a wildcard, which resolution DYNAMIC_DNS is for; it is left out", h)
		default:
			list = append(list, host)
		}
	}
	if len(list) == 0 {
		r.wrong(config.Error, "spec.hosts", "no host: there is no service")
	}
	slices.Sort(list)
	return list
}

// addresses gives the virtual addresses. A range of one address is that address.
func (r *reader) addresses(spec *networking.ServiceEntry) []string {
	var list []string
	for i, a := range spec.GetAddresses() {
		text := ""
		if addr, err := netip.ParseAddr(a); err == nil && addr.Zone() == "" {
			text = addr.String()
		} else if p, err := netip.ParsePrefix(a); err == nil && p.IsSingleIP() {
			text = p.Addr().String()
		} else if err == nil {
			text = p.Masked().String()
		}
		switch {
		case text == "":
			r.wrong(config.Error, fmt.Sprintf("spec.addresses[%d]", i), "%q is neither an IP address nor a CIDR; it is left out", a)
		case !slices.Contains(list, text):
			list = append(list, text)
		}
	}
	return list
}

func (r *reader) ports(spec *networking.ServiceEntry) []mesh.Port {
	list := make([]mesh.Port, 0, len(spec.GetPorts()))
	for i, p := range spec.GetPorts() {
		field := fmt.Sprintf("spec.ports[%d]", i)
		number := p.GetNumber()
		if number == 0 || number > 65535 {
			r.wrong(config.Error, field+".number", "%d is not a port number; the port is left out", number)
			continue
		}
		if slices.ContainsFunc(list, func(o mesh.Port) bool { return o.Number == number }) {
			r.wrong(config.Error, field+".number", "%d is there twice; the second one is left out", number)
			continue
		}
		protocol, known := mesh.ParseProtocol(p.GetProtocol())
		if dynamic := spec.GetResolution() == networking.ServiceEntry_DYNAMIC_DNS; dynamic && !protocol.IsHTTP() && !protocol.IsTLS() {
			r.wrong(config.Error, field+".protocol", "%q does not tell which host is meant, as resolution DYNAMIC_DNS needs; the port is left out", p.GetProtocol())
			continue
		}
		if !known && p.GetProtocol() != "" {
			r.wrong(config.Warning, field+".protocol", "%q is not known; proxies detect what is spoken", p.GetProtocol())
		}
		target := r.targetPort(p, field)
		list = append(list, mesh.Port{
			Name:            p.GetName(),
			Number:          number,
			Protocol:        protocol,
			Target:          cmp.Or(target, number),
			OverridesDialed: target != 0 && spec.GetResolution() == networking.ServiceEntry_NONE,
		})
	}
	return list
}

// targetPort returns the targetPort of p. It returns 0 if p has none, or with a Problem if it is no port number.
func (r *reader) targetPort(p *networking.ServicePort, field string) uint32 {
	target := p.GetTargetPort()
	if target > 65535 {
		r.wrong(config.Error, field+".targetPort", "%d is not a port number; %d is used", target, p.GetNumber())
		return 0
	}
	return target
}

func (r *reader) resolution(spec *networking.ServiceEntry) mesh.Resolution {
	switch resolution := spec.GetResolution(); resolution {
	case networking.ServiceEntry_NONE:
		return mesh.Passthrough
	case networking.ServiceEntry_STATIC:
		return mesh.Static
	case networking.ServiceEntry_DNS:
		return mesh.DNS
	case networking.ServiceEntry_DNS_ROUND_ROBIN:
		return mesh.DNSRoundRobin
	case networking.ServiceEntry_DYNAMIC_DNS:
		return mesh.DynamicDNS
	default:
		r.wrong(config.Error, "spec.resolution", "%s is not known: treated as NONE, proxies connect to the address that the caller chose", resolution)
		return mesh.Passthrough
	}
}
