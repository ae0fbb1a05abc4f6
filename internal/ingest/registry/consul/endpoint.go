package consul

import (
	"cmp"
	"net/netip"
	"strings"

	"github.com/hashicorp/consul/api"

	"istio.io/api/label"

	"github.com/meshpilot/meshpilot/internal/ingest/registry"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/spiffe"
)

// endpoint is an endpoint with the parts of its instance that the service needs.
type endpoint struct {
	mesh.Endpoint
	instance *Instance
	// called is the port that callers use: that of the tagged address "virtual", else the
	// endpoint's own.
	called   uint32
	protocol mesh.Protocol
	named    bool              // the address is a DNS name
	external bool              // outside of the mesh
	own      map[string]string // labels that the instance declares
}

// field returns the path of a field of an instance, for Problems. It is instances[ID].NAME.
func (i *Instance) field(name string) string { return "instances[" + i.ID + "]." + name }

// field returns the path of a field of the endpoint's instance, for Problems.
func (e *endpoint) field(name string) string { return e.instance.field(name) }

// endpoints returns the endpoints of all instances, one per port. Invalid addresses and ports are
// left out with a Problem.
func (r *reader) endpoints(instances []Instance) []endpoint {
	list := make([]endpoint, 0, len(instances))
	for n := range instances {
		list = r.appendEndpoints(list, &instances[n])
	}
	return list
}

// appendEndpoints appends the endpoints of one instance to list, one for each of its ports. A port
// outside 1 to 65535 is left out with a Warning. The address must be a DNS name or a specified IP
// address without a zone; otherwise nothing is appended, which is an Error. A DNS name is converted
// to lower case, an IPv4-mapped address to IPv4. Callers of an instance with one port use the port
// of its tagged address "virtual", if that is valid.
func (r *reader) appendEndpoints(list []endpoint, i *Instance) []endpoint {
	e := endpoint{instance: i, protocol: r.protocolOf(i), own: ownLabels(i)}
	address := strings.ToLower(strings.TrimSuffix(i.Address, "."))
	ip, err := netip.ParseAddr(address)
	e.named = err != nil
	switch {
	case err == nil && ip.Zone() == "" && !ip.IsUnspecified():
		address = ip.Unmap().String()
	case err != nil && isHostname(address):
	default:
		r.addProblem(config.Error, i.field("Address"),
			"%q is neither an IP address nor a DNS name; the instance is left out", i.Address)
		return list
	}
	e.external = i.Meta[metaExternal] == "true" || i.NodeMeta[nodeExternal] == "true"
	e.Endpoint = r.newEndpoint(i, address, e.own)
	for _, port := range i.Ports {
		if port < 1 || port > 65535 {
			r.addProblem(config.Warning, i.field("Port"), "%d is not a port number; the instance is left out", port)
			continue
		}
		one := e
		one.Port, one.called = uint32(port), uint32(port)
		if virtual := i.Tagged[addressVirtual].Port; len(i.Ports) == 1 && virtual > 0 && virtual <= 65535 {
			one.called = uint32(virtual)
		}
		list = append(list, one)
	}
	return list
}

// newEndpoint returns the endpoint of an instance without a port. own are the labels that the
// instance declares, to which labels of its topology are added. If i has no region, the region is
// the peer's name, or the datacenter if other ones are read. The network is the meta's, else the
// node's, else that of the address. TLS follows the label of the TLS mode, else a service account
// in the meta; health follows the labels, then the checks (setHealth).
func (r *reader) newEndpoint(i *Instance, address string, own map[string]string) mesh.Endpoint {
	locality := mesh.Locality{Region: i.Region, Zone: i.Zone}
	switch {
	case i.Region != "":
		locality.SubZone = i.NodeMeta["subzone"]
	case r.service.Peer != "":
		locality.Region = r.service.Peer
	case len(r.options.OtherDatacenters) > 0:
		locality.Region = i.Datacenter
	}
	network := mesh.Network(cmp.Or(i.Meta[metaNetwork], i.NodeMeta[metaNetwork],
		string(r.networks[r.cluster].Of(address))))
	account := ""
	if name := i.Meta[metaAccount]; name != "" {
		account = spiffe.Account{TrustDomain: r.trustDomain, Namespace: r.object.Namespace, Name: name}.String()
	}
	e := mesh.Endpoint{
		Address:   address,
		Labels:    registry.Topology{Locality: locality, Cluster: r.cluster, Network: network}.Labels(own),
		Account:   account,
		Workload:  i.ID,
		Owner:     r.service.Name,
		Namespace: r.object.Namespace,
		Node:      i.Node,
		Locality:  locality,
		Network:   network,
		Cluster:   r.cluster,
		Health:    r.options.Labels.HealthOf(own),
		TLS:       own[label.SecurityTlsMode.Name] == "istio",
	}
	if _, declared := own[label.SecurityTlsMode.Name]; !declared {
		e.TLS = account != ""
	}
	setHealth(&e, i)
	return e
}

// setHealth sets the health and weight of e from the instance's checks. As in Consul's DNS
// interface, warning receives traffic with its own weight, and none if only that weight is 0.
// Maintenance is Draining; another state than passing is Unhealthy. Passing leaves the health as it
// is. A weight up to 1 leaves the weight, one above 65535 is 65535.
func setHealth(e *mesh.Endpoint, i *Instance) {
	weight := i.Weights.Passing
	switch i.Health {
	case api.HealthPassing:
	case api.HealthWarning:
		if weight = i.Weights.Warning; weight == 0 && i.Weights.Passing != 0 {
			e.Health = mesh.Unhealthy
		}
	case api.HealthMaint:
		e.Health = mesh.Draining
	default:
		e.Health = mesh.Unhealthy
	}
	const most = 65535 // as Consul's DNS interface limits it
	if weight > 1 {
		e.Weight = uint32(min(weight, most))
	}
}

// protocolOf returns the protocol that the instance's meta declares, or Auto if it declares none.
// An unknown protocol is reported as a Problem, and proxies detect it.
func (r *reader) protocolOf(i *Instance) mesh.Protocol {
	name := i.Meta[metaProtocol]
	if name == "" {
		return mesh.Auto
	}
	p, known := mesh.ParseProtocol(name)
	if !known {
		r.addProblem(config.Warning, i.field("Meta.protocol"), "%q is not a protocol; proxies detect it", name)
	}
	return p
}

// ownLabels returns the labels that an instance declares: its meta, except the keys that have a
// meaning of their own here (metaProtocol and others), and its tags of the form key|value, which
// take precedence.
func ownLabels(i *Instance) map[string]string {
	labels := make(map[string]string, len(i.Meta))
	for k, v := range i.Meta {
		switch k {
		case metaProtocol, metaExternal, metaAccount, metaNetwork:
		default:
			labels[k] = v
		}
	}
	for _, tag := range i.Tags {
		if k, v, found := strings.Cut(tag, "|"); found && k != "" {
			labels[k] = v
		}
	}
	return labels
}

// withPorts sets ServicePort of each endpoint to the name of the service port with its called
// number, and returns the endpoints. Endpoints of ports that the service does not have are left
// out. It changes the list in place.
func withPorts(endpoints []endpoint, ports []mesh.Port) []endpoint {
	names := make(map[uint32]string, len(ports))
	for _, p := range ports {
		names[p.Number] = p.Name
	}
	kept := endpoints[:0]
	for _, e := range endpoints {
		if e.ServicePort = names[e.called]; e.ServicePort != "" {
			kept = append(kept, e)
		}
	}
	return kept
}

// isHostname reports whether text is a DNS name in lower case, of at most 253 bytes and labels that
// isHostLabel accepts. A name whose last label is a number is refused, because it is a mistyped IP
// address.
func isHostname(text string) bool {
	if len(text) > 253 {
		return false
	}
	labels := strings.Split(text, ".")
	for _, l := range labels {
		if !isHostLabel(l) {
			return false
		}
	}
	last := labels[len(labels)-1]
	return strings.Trim(last, "0123456789") != ""
}
