package consul

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// DefaultDomain is Consul's default DNS domain.
const DefaultDomain = "consul"

// The keys of a service's meta that configure the mesh. All other keys are labels.
const (
	metaProtocol = "protocol"
	metaExternal = "external"
	metaAccount  = "service-account"
	metaNetwork  = "network" // of a node too
)

// nodeExternal is the key in a node's meta that marks nodes outside of Consul's cluster. Consul's
// External Service Monitor uses it.
const nodeExternal = "external-node"

// The tagged addresses that are virtual addresses of a service.
const (
	addressVirtual       = "virtual"
	addressConsulVirtual = "consul-virtual"
)

const (
	// maxPorts and maxTagHosts limit what one service adds to the configuration of every proxy.
	maxPorts    = 64
	maxTagHosts = 32
)

// convertService adds the services of the object and their shards: SERVICE.service.DOMAIN,
// SERVICE.service.DC.DOMAIN for each datacenter, and TAG.SERVICE.service.DOMAIN for each tag that
// is a DNS label; for a peer it adds the services of addImported instead. It adds none if the name
// is no DNS label, which is a Problem, or no instance is valid. The objects of one service in
// several datacenters are merged by their hosts in the snapshot. Services and shards are sorted by
// host.
func (r *reader) convertService() {
	instances, name := r.service.Instances, strings.ToLower(r.service.Name)
	if !isHostLabel(name) {
		r.addProblem(config.Error, "name", "%q is not a DNS label, so the service has no host", r.service.Name)
		return
	}
	endpoints := r.endpoints(instances)
	if len(endpoints) == 0 {
		return // its Problems name the reasons
	}
	base := mesh.Service{
		Provider:     mesh.Consul,
		Cluster:      r.cluster,
		Name:         r.service.Name,
		Ports:        r.ports(endpoints),
		Resolution:   resolutionOf(endpoints),
		MeshExternal: isExternal(endpoints),
		Labels:       commonLabels(endpoints),
		From:         r.object.Key,
	}
	base.Session = r.options.Labels.SessionOf(base.Labels)
	endpoints = withPorts(endpoints, base.Ports)
	host := name + ".service." + r.options.Domain
	main := base
	main.Addresses = r.virtualAddresses(instances)
	switch {
	case r.service.Peer != "":
		r.addImported(base, name, endpoints)
	case len(r.options.OtherDatacenters) == 0:
		r.addService(main, host, endpoints)
		r.addDatacenterAliases(base, name, host, instances)
		r.addTags(base, host, endpoints)
	default:
		r.addService(main, host, endpoints)
		r.addDatacenters(base, name, endpoints)
		r.addTags(base, host, endpoints)
	}
	slices.SortFunc(r.now.services, func(a, b *mesh.Service) int { return cmp.Compare(a.Host, b.Host) })
	slices.SortFunc(r.now.shards, func(a, b *mesh.Shard) int { return cmp.Compare(a.Service.Host, b.Service.Host) })
}

// addService adds a service with this host and, unless it is an alias, a shard of the endpoints.
func (r *reader) addService(s mesh.Service, host string, endpoints []endpoint) {
	s.ServiceKey = mesh.ServiceKey{Namespace: r.object.Namespace, Host: mesh.Hostname(host)}
	r.now.services = append(r.now.services, s.Sealed())
	if s.Resolution == mesh.Alias {
		return
	}
	shard := mesh.Shard{
		Service: s.ServiceKey,
		Key:     mesh.ShardKey{Provider: mesh.Consul, Cluster: r.cluster, Object: r.object.Key},
	}
	for i := range endpoints {
		shard.Endpoints = append(shard.Endpoints, &endpoints[i].Endpoint)
	}
	r.now.shards = append(r.now.shards, shard.Sealed())
}

// addDatacenters adds the service SERVICE.service.DC.DOMAIN with the endpoints of each datacenter
// whose name is a DNS label, unless base has no HTTP ports. It has only these ports: it has no
// virtual address, and other ports would be captured for all addresses. The mesh of another
// datacenter knows its service as SERVICE.service.DOMAIN.
func (r *reader) addDatacenters(base mesh.Service, name string, endpoints []endpoint) {
	base.Ports = httpPorts(base.Ports)
	if len(base.Ports) == 0 {
		return
	}
	base.RemoteHost = mesh.Hostname(name + ".service." + r.options.Domain)
	byDatacenter := map[string][]endpoint{}
	for _, e := range withPorts(slices.Clone(endpoints), base.Ports) {
		if dc := strings.ToLower(e.instance.Datacenter); isHostLabel(dc) {
			byDatacenter[dc] = append(byDatacenter[dc], e)
		}
	}
	for _, dc := range slices.Sorted(maps.Keys(byDatacenter)) {
		s := base
		s.Resolution = resolutionOf(byDatacenter[dc])
		r.addService(s, name+".service."+dc+"."+r.options.Domain, byDatacenter[dc])
	}
}

// addImported adds the service SERVICE.service.PEER.peer.DOMAIN and one for each tag, as addTags
// does. They have the HTTP ports only, as with addDatacenters: the virtual addresses of a peer may
// have another meaning here. Without such a port it adds only a Warning. The mesh of the peer knows
// its service as SERVICE.service.DOMAIN.
func (r *reader) addImported(base mesh.Service, name string, endpoints []endpoint) {
	base.Ports = httpPorts(base.Ports)
	if len(base.Ports) == 0 {
		r.addProblem(config.Warning, "Meta.protocol",
			"no instance declares HTTP, http2 or grpc: services of peers can be called by these protocols only")
		return
	}
	endpoints = withPorts(endpoints, base.Ports)
	base.RemoteHost = mesh.Hostname(name + ".service." + r.options.Domain)
	host := name + ".service." + r.service.Peer + ".peer." + r.options.Domain
	r.addService(base, host, endpoints)
	r.addTags(base, host, endpoints)
}

// httpPorts returns the ports with an HTTP protocol.
func httpPorts(ports []mesh.Port) []mesh.Port {
	return slices.DeleteFunc(slices.Clone(ports), func(p mesh.Port) bool { return !p.Protocol.IsHTTP() })
}

// addDatacenterAliases adds the alias SERVICE.service.DC.DOMAIN of host for each datacenter of the
// instances. Names that are no DNS labels are left out. A datacenter is added once, in lower case.
func (r *reader) addDatacenterAliases(base mesh.Service, name, host string, instances []Instance) {
	seen := map[string]bool{}
	for _, i := range instances {
		dc := strings.ToLower(i.Datacenter)
		if seen[dc] || !isHostLabel(dc) {
			continue
		}
		seen[dc] = true
		alias := base
		alias.Resolution, alias.AliasOf, alias.MeshExternal = mesh.Alias, mesh.Hostname(host), true
		r.addService(alias, name+".service."+dc+"."+r.options.Domain, nil)
	}
}

// addTags adds a service TAG.HOST for each tag, with the endpoints of the instances that have it,
// as Consul's DNS interface answers such names. TAG also precedes the RemoteHost, if base has one.
// Tags are compared in lower case. Tags that are no DNS labels, for instance key|value, have no
// host. Nor have tags after the first maxTagHosts in alphabetical order, which is a Warning.
func (r *reader) addTags(base mesh.Service, host string, endpoints []endpoint) {
	byTag := map[string][]endpoint{}
	for _, e := range endpoints {
		seen := map[string]bool{}
		for _, tag := range e.instance.Tags {
			if tag = strings.ToLower(tag); isHostLabel(tag) && !seen[tag] {
				seen[tag] = true
				byTag[tag] = append(byTag[tag], e)
			}
		}
	}
	tags := slices.Sorted(maps.Keys(byTag))
	if len(tags) > maxTagHosts {
		r.addProblem(config.Warning, "tags", "%d different tags: only the first %d, in alphabetical order, have a host",
			len(tags), maxTagHosts)
		tags = tags[:maxTagHosts]
	}
	for _, tag := range tags {
		s := base
		s.Resolution = resolutionOf(byTag[tag])
		if s.RemoteHost != "" {
			s.RemoteHost = mesh.Hostname(tag) + "." + s.RemoteHost
		}
		r.addService(s, tag+"."+host, byTag[tag])
	}
}

// ports returns the ports of the service, sorted: the distinct ports on which callers call its
// endpoints. The protocol is that of the first instance with the port that declares one. A
// different protocol is a Problem. So are more than maxPorts ports, of which only the lowest are
// used.
func (r *reader) ports(endpoints []endpoint) []mesh.Port {
	protocols := map[uint32]mesh.Protocol{}
	for _, e := range endpoints {
		p, seen := protocols[e.called]
		switch {
		case !seen || p == mesh.Auto:
			protocols[e.called] = e.protocol
		case e.protocol != mesh.Auto && e.protocol != p:
			r.addProblem(config.Warning, e.field("Meta.protocol"),
				"%s differs from %s, which another instance declares for port %d and which is used", e.protocol, p, e.called)
		}
	}
	numbers := slices.Sorted(maps.Keys(protocols))
	if len(numbers) > maxPorts {
		r.addProblem(config.Error, "Port",
			"the instances have %d different ports: only the lowest %d are used; register a tagged address \"virtual\" with one port",
			len(numbers), maxPorts)
		numbers = numbers[:maxPorts]
	}
	list := make([]mesh.Port, 0, len(numbers))
	for _, n := range numbers {
		list = append(list, mesh.Port{Name: portName(protocols[n], n), Number: n, Protocol: protocols[n]})
	}
	return list
}

// portName returns the name of a port: "http-8080", or only the number if the protocol is detected.
func portName(p mesh.Protocol, number uint32) string {
	n := strconv.FormatUint(uint64(number), 10)
	if p == mesh.Auto {
		return n
	}
	return strings.ToLower(string(p)) + "-" + n
}

// virtualAddresses returns the virtual addresses that the instances declare, sorted and without
// duplicates. An invalid one is left out with a Problem. Both addresses of an instance count:
// virtual and consul-virtual.
func (r *reader) virtualAddresses(instances []Instance) []string {
	seen := map[string]bool{}
	for _, i := range instances {
		for _, tag := range []string{addressVirtual, addressConsulVirtual} {
			a, given := i.Tagged[tag]
			if !given || a.Address == "" {
				continue
			}
			if ip, err := netip.ParseAddr(a.Address); err == nil && ip.Zone() == "" {
				seen[ip.Unmap().String()] = true
			} else {
				r.addProblem(config.Error, i.field("TaggedAddresses."+tag), "%q is not an IP address; it is left out",
					a.Address)
			}
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// resolutionOf returns DNS if the address of any endpoint is a name, which proxies must resolve,
// and Static otherwise.
func resolutionOf(endpoints []endpoint) mesh.Resolution {
	for _, e := range endpoints {
		if e.named {
			return mesh.DNS
		}
	}
	return mesh.Static
}

// isExternal reports whether all endpoints are outside of the mesh. It returns true without
// endpoints.
func isExternal(endpoints []endpoint) bool {
	return !slices.ContainsFunc(endpoints, func(e endpoint) bool { return !e.external })
}

// commonLabels returns the labels that all endpoints declare with the same value. There must be at
// least one endpoint.
func commonLabels(endpoints []endpoint) map[string]string {
	common := maps.Clone(endpoints[0].own)
	for _, e := range endpoints[1:] {
		maps.DeleteFunc(common, func(k, v string) bool { return e.own[k] != v })
	}
	return common
}

// isHostLabel reports whether text is one label of a DNS name: 1 to 63 lower-case letters, digits,
// hyphens or underscores, without a hyphen at either end. Underscores are allowed because Consul
// allows them in names of services.
func isHostLabel(text string) bool {
	if text == "" || len(text) > 63 || text[0] == '-' || text[len(text)-1] == '-' {
		return false
	}
	for _, c := range []byte(text) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return false
		}
	}
	return true
}
