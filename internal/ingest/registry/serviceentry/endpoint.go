package serviceentry

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"istio.io/api/label"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/ingest/registry"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// resolvesHost reports whether proxies resolve the hosts of a ServiceEntry by DNS instead of using
// endpoints (ServiceEntry.hosts, note 1). That is the case with resolution DNS or DNS_ROUND_ROBIN,
// without endpoints and without a workloadSelector.
func resolvesHost(spec *networking.ServiceEntry) bool {
	dns := spec.GetResolution() == networking.ServiceEntry_DNS ||
		spec.GetResolution() == networking.ServiceEntry_DNS_ROUND_ROBIN
	return dns && len(spec.GetEndpoints()) == 0 && spec.GetWorkloadSelector() == nil
}

// hostEndpoints returns an endpoint for each port, at its target port, whose address is the host
// itself. For a wildcard, which cannot be resolved, it returns nil and reports a Problem.
func (r *reader) hostEndpoints(host mesh.Hostname, ports []mesh.Port) []*mesh.Endpoint {
	if host.IsWildcard() {
		r.addProblem(config.Error, "spec.resolution",
			"%q cannot be resolved: a wildcard needs endpoints, or resolution NONE", string(host))
		return nil
	}
	list := make([]*mesh.Endpoint, 0, len(ports))
	for _, p := range ports {
		list = append(list, &mesh.Endpoint{
			Address:     string(host),
			Port:        p.Target,
			ServicePort: p.Name,
			Namespace:   r.object.Namespace,
			Cluster:     r.options.Cluster,
		})
	}
	return list
}

// listedEndpoints returns the endpoints in the spec, one per port of the service. An endpoint's own
// port of that name precedes the service's target port; a socket has none. Unusable endpoints are
// left out with a Problem, all of them for a resolution that uses none. It returns nil without
// endpoints or with a workloadSelector.
func (r *reader) listedEndpoints(spec *networking.ServiceEntry, s mesh.Service) []*mesh.Endpoint {
	if spec.GetWorkloadSelector() != nil || len(spec.GetEndpoints()) == 0 {
		return nil
	}
	if s.Resolution == mesh.Passthrough || s.Resolution == mesh.DynamicDNS {
		r.addProblem(config.Error, "spec.endpoints", "are not used with resolution %s", spec.GetResolution())
		return nil
	}
	list := make([]*mesh.Endpoint, 0, len(spec.GetEndpoints())*len(s.Ports))
	for i, entry := range spec.GetEndpoints() {
		field := fmt.Sprintf("spec.endpoints[%d]", i)
		if !r.isUsable(field+".address", entry, s.Resolution) {
			continue
		}
		own := r.ownPorts(field, entry)
		base := r.newEndpoint(entry, entry.GetLabels())
		for _, p := range s.Ports {
			e := base
			e.ServicePort = p.Name
			if !config.IsSocket(e.Address) { // a socket has no port
				e.Port = cmp.Or(own[p.Name], p.Target)
			}
			list = append(list, &e)
		}
	}
	return list
}

// isUsable reports whether a service of this resolution can have the endpoint; field is the path of
// its address. If not, it reports a Problem. An endpoint without an address needs a network and
// resolution STATIC. STATIC needs an IP address or a Unix domain socket; other resolutions refuse
// sockets and names with a wildcard.
func (r *reader) isUsable(field string, entry *networking.WorkloadEntry, resolution mesh.Resolution) bool {
	address := entry.GetAddress()
	_, err := netip.ParseAddr(address)
	ip, socket := err == nil, config.IsSocket(address)
	switch {
	case address == "" && entry.GetNetwork() == "":
		r.addProblem(config.Error, field,
			"is missing, and so is the network whose gateways would route to it; it is left out")
	case address == "" && resolution != mesh.Static:
		r.addProblem(config.Error, field,
			"is missing: the gateways of network %q can replace it only with resolution STATIC; it is ignored",
			entry.GetNetwork())
	case address == "":
		return true
	case resolution == mesh.Static && !ip && !socket:
		r.addProblem(config.Error, field,
			"%q is not an IP address: resolution STATIC does not resolve names; it is left out",
			address)
	case resolution != mesh.Static && socket:
		r.addProblem(config.Error, field, "a socket needs resolution STATIC; it is left out")
	case !ip && !socket && strings.HasPrefix(address, "*"):
		r.addProblem(config.Error, field, "%q cannot be resolved; it is left out", address)
	default:
		return true
	}
	return false
}

// newEndpoint returns an endpoint with the fields that endpoints and WorkloadEntries have in
// common, without ports. labels are the entry's labels, possibly with additional ones. The network
// is the entry's, else the label's, else the cluster's, else the network that MeshNetworks assigns.
func (r *reader) newEndpoint(entry *networking.WorkloadEntry, labels map[string]string) mesh.Endpoint {
	locality := localityOf(entry.GetLocality(), labels)
	address := entry.GetAddress()
	network := cmp.Or(
		mesh.Network(cmp.Or(entry.GetNetwork(), labels[label.TopologyNetwork.Name])),
		r.network,
		r.networks.Of(address),
	)
	if ip, err := netip.ParseAddr(address); err == nil {
		address = ip.String()
	}
	return mesh.Endpoint{
		Address:   address,
		Labels:    r.topologyLabels(labels, locality, network),
		Account:   r.accountID(r.object.Namespace, entry.GetServiceAccount()),
		Namespace: r.object.Namespace,
		Locality:  locality,
		Network:   network,
		Cluster:   r.options.Cluster,
		Weight:    entry.GetWeight(),
		Health:    r.options.Labels.HealthOf(labels),
		TLS:       usesMutualTLS(entry.GetServiceAccount(), labels),
	}
}

// ownPorts returns the port numbers that an endpoint sets, by the port names of the service; nil if
// it sets none. Invalid numbers are left out with a Problem.
func (r *reader) ownPorts(field string, entry *networking.WorkloadEntry) map[string]uint32 {
	var ports map[string]uint32
	for _, name := range slices.Sorted(maps.Keys(entry.GetPorts())) {
		number := entry.GetPorts()[name]
		if number == 0 || number > 65535 {
			r.addProblem(config.Error, field+".ports["+name+"]",
				"%d is not a port number; the service's own is used", number)
			continue
		}
		if ports == nil {
			ports = map[string]uint32{}
		}
		ports[name] = number
	}
	return ports
}

// localityOf returns the locality in field or, if that is "", in the label
// topology.istio.io/locality or else istio-locality. In the label "." is used instead of "/",
// unless it has a "/". It is zero if none is set.
func localityOf(field string, labels map[string]string) mesh.Locality {
	if field != "" {
		return mesh.ParseLocality(field)
	}
	const old = "istio-locality"
	named := cmp.Or(labels[label.TopologyLocality.Name], labels[old])
	if !strings.Contains(named, "/") {
		named = strings.ReplaceAll(named, ".", "/")
	}
	return mesh.ParseLocality(named)
}

// usesMutualTLS reports whether callers must use mutual TLS: whether the label
// security.istio.io/tlsMode is "istio" or, without the label, a service account is set.
func usesMutualTLS(serviceAccount string, labels map[string]string) bool {
	if mode, given := labels[label.SecurityTlsMode.Name]; given {
		return mode == "istio"
	}
	return serviceAccount != ""
}

// topologyLabels returns the labels of an endpoint with labels for its locality, cluster and
// network added, which subsets can select. They replace own ones, except for the network.
func (r *reader) topologyLabels(own map[string]string, at mesh.Locality, network mesh.Network) map[string]string {
	all := registry.Topology{Locality: at, Cluster: r.options.Cluster}.Labels(own)
	if all[label.TopologyNetwork.Name] == "" && network != "" {
		all[label.TopologyNetwork.Name] = string(network)
	}
	return all
}
