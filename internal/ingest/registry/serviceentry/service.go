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
	"github.com/meshpilot/meshpilot/pkg/adapter"
)

// reader converts one object and collects its Problems.
type reader struct {
	*Converter
	object   *config.Config
	problems []config.Problem
}

// addProblem adds a Problem about a field of the object.
func (r *reader) addProblem(severity config.Severity, field, format string, args ...any) {
	r.problems = append(r.problems, config.Problem{
		Key: r.object.Key, Field: field, Reason: fmt.Sprintf(format, args...), Severity: severity,
		Origin: r.object.Origin,
	})
}

// convertServiceEntry adds the services and shards of a ServiceEntry to into. Each valid host
// becomes a service; all have the same addresses, ports and listed endpoints. If proxies resolve
// the host (resolvesHost), its endpoints are the host itself. Endpoints beside a workloadSelector
// are ignored with a Problem.
func (r *reader) convertServiceEntry(spec *networking.ServiceEntry, into *converted) {
	provider := providerOf(r.object)
	base := mesh.Service{
		Provider:            provider,
		Cluster:             r.options.Cluster,
		Name:                r.object.Name,
		Addresses:           r.virtualAddresses(spec),
		Ports:               r.validPorts(spec),
		Resolution:          r.resolution(spec),
		MeshExternal:        spec.GetLocation() == networking.ServiceEntry_MESH_EXTERNAL,
		ExportTo:            r.exportTo(spec),
		Accounts:            spec.GetSubjectAltNames(),
		Labels:              r.object.Labels,
		Session:             r.options.Labels.SessionOf(r.object.Labels),
		Created:             r.object.Created.UTC(),
		TrafficDistribution: r.trafficDistribution(),
		RacesAddresses:      r.racesAddresses(),
		From:                r.object.Key,
	}
	if selector := spec.GetWorkloadSelector(); selector != nil {
		if len(spec.GetEndpoints()) > 0 {
			r.addProblem(config.Error, "spec.endpoints",
				"cannot be used together with workloadSelector, which takes precedence")
		}
		base.SelectsPods, base.SelectsWorkloadEntries = r.options.SelectPods, true
		if base.Selector = selector.GetLabels(); base.Selector == nil {
			base.Selector = map[string]string{} // selects all workloads of the namespace
		}
	}
	allocates := r.needsAllocation(spec)
	listed := r.listedEndpoints(spec, base)
	for _, host := range r.validHosts(spec) {
		s := base
		s.ServiceKey = mesh.ServiceKey{Namespace: r.object.Namespace, Host: host}
		if s.Allocates = allocates && (!host.IsWildcard() || s.Resolution == mesh.DynamicDNS); s.Allocates {
			s.Allocated = r.allocatedAddresses(host)
		}
		into.services = append(into.services, s.Sealed())
		endpoints := listed
		if resolvesHost(spec) {
			endpoints = r.hostEndpoints(host, base.Ports)
		}
		if len(endpoints) > 0 {
			key := mesh.ShardKey{Provider: provider, Cluster: r.options.Cluster, Object: r.object.Key}
			into.shards = append(
				into.shards,
				mesh.Shard{Service: s.ServiceKey, Key: key, Endpoints: endpoints}.Sealed(),
			)
		}
	}
}

// providerOf returns the provider of a ServiceEntry's services: the platform in its annotation, or
// External. An annotation with other characters than ASCII letters, digits and hyphens, a too long
// one, and the name of a registry that does not report ServiceEntries have no effect.
func providerOf(object *config.Config) mesh.Provider {
	platform := mesh.Provider(object.Annotations[adapter.PlatformAnnotation])
	if len(platform) > maxProvider || !platform.IsEntry() {
		return mesh.External
	}
	for _, c := range []byte(platform) {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' {
			return mesh.External
		}
	}
	return platform
}

// maxProvider limits the length of the name of a platform.
const maxProvider = 63

// validHosts returns the hosts in lower case, sorted and without duplicates. It leaves out empty
// hosts, "*" and, with DYNAMIC_DNS, hosts that are no wildcards, each with an Error, and repeated
// ones with a Warning. It adds an Error if none is left. The form of the hosts is not checked here.
func (r *reader) validHosts(spec *networking.ServiceEntry) []mesh.Hostname {
	var list []mesh.Hostname
	for i, h := range spec.GetHosts() {
		field := fmt.Sprintf("spec.hosts[%d]", i)
		host := mesh.Hostname(strings.ToLower(h))
		switch {
		case host == "" || host == "*":
			r.addProblem(config.Error, field, "%q is no host of a service; it is left out", h)
		case slices.Contains(list, host):
			r.addProblem(config.Warning, field, "%q is listed twice", h)
		case !host.IsWildcard() && spec.GetResolution() == networking.ServiceEntry_DYNAMIC_DNS:
			r.addProblem(config.Error, field,
				"%q is not a wildcard, which resolution DYNAMIC_DNS is for; it is left out", h)
		default:
			list = append(list, host)
		}
	}
	if len(list) == 0 {
		r.addProblem(config.Error, "spec.hosts", "no host, so there is no service")
	}
	slices.Sort(list)
	return list
}

// virtualAddresses returns the addresses and CIDRs of the ServiceEntry in canonical form, without
// duplicates. A CIDR of one address becomes that address. Invalid ones are left out with a Problem.
func (r *reader) virtualAddresses(spec *networking.ServiceEntry) []string {
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
			r.addProblem(config.Error, fmt.Sprintf("spec.addresses[%d]", i),
				"%q is neither an IP address nor a CIDR; it is left out", a)
		case !slices.Contains(list, text):
			list = append(list, text)
		}
	}
	return list
}

// validPorts returns the valid ports. Ports with an invalid number or that of an earlier port are
// left out with a Problem, and with DYNAMIC_DNS all ports that are neither HTTP nor TLS. An unknown
// protocol is a Warning, and proxies detect it. A target port defaults to the port; with NONE, it
// overrides the port that the caller dialed.
func (r *reader) validPorts(spec *networking.ServiceEntry) []mesh.Port {
	list := make([]mesh.Port, 0, len(spec.GetPorts()))
	for i, p := range spec.GetPorts() {
		field := fmt.Sprintf("spec.ports[%d]", i)
		number := p.GetNumber()
		if number == 0 || number > 65535 {
			r.addProblem(config.Error, field+".number", "%d is not a port number; the port is left out", number)
			continue
		}
		if slices.ContainsFunc(list, func(o mesh.Port) bool { return o.Number == number }) {
			r.addProblem(config.Error, field+".number", "%d is there twice; the second one is left out", number)
			continue
		}
		protocol, known := mesh.ParseProtocol(p.GetProtocol())
		if dynamic := spec.GetResolution() == networking.ServiceEntry_DYNAMIC_DNS; dynamic && !protocol.IsHTTP() &&
			!protocol.IsTLS() {
			r.addProblem(config.Error, field+".protocol",
				"%q does not identify the requested host, which resolution DYNAMIC_DNS requires; the port is ignored",
				p.GetProtocol())
			continue
		}
		if !known && p.GetProtocol() != "" {
			r.addProblem(config.Warning, field+".protocol",
				"%q is unknown; proxies detect the protocol", p.GetProtocol())
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

// targetPort returns the targetPort of p. It returns 0 if p has none, and also, with a Problem, if
// the value is not a port number.
func (r *reader) targetPort(p *networking.ServicePort, field string) uint32 {
	target := p.GetTargetPort()
	if target > 65535 {
		r.addProblem(config.Error, field+".targetPort", "%d is not a port number; %d is used", target, p.GetNumber())
		return 0
	}
	return target
}

// resolution converts the resolution; NONE becomes Passthrough. An unknown value is treated as
// NONE, with an Error.
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
		r.addProblem(config.Error, "spec.resolution",
			"%s is not known: treated as NONE, proxies connect to the address that the caller chose",
			resolution)
		return mesh.Passthrough
	}
}
