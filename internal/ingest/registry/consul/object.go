package consul

import (
	"cmp"
	"slices"
	"strings"

	"github.com/hashicorp/consul/api"

	meshapi "github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// Kind is the kind of the objects that a Source emits and a Converter consumes. No file and no API
// server can contain it, because it is not in the table of kinds.
const Kind meshapi.Kind = "ConsulService"

// Service is the spec of an object of Kind: the part of a Consul service that configuration depends
// on. It is immutable.
type Service struct {
	// Name is the name of the service in Consul.
	Name string
	// Datacenter is one of Settings.OtherDatacenters, or "" for the datacenter of the settings.
	Datacenter string
	// Peer is one of Settings.Peers, or "" for services of datacenters.
	Peer string
	// Instances are sorted by ID.
	Instances []Instance
}

// Instance is one registered instance of a service. It omits everything that changes without an
// effect on configuration, such as the output of health checks.
type Instance struct {
	// ID is the name of the node and the ID of the service on it, "NODE/ID".
	ID         string
	Node       string
	Datacenter string
	Address    string
	// Ports are the ports on which the instance listens: Service.Port, or Service.Ports.
	Ports []int
	// Tagged are the tagged addresses of the service, by tag.
	Tagged         map[string]api.ServiceAddress
	Tags           []string
	Meta, NodeMeta map[string]string
	Region, Zone   string
	// Health is the aggregated state of all checks: passing, warning, critical or maintenance.
	Health  string
	Weights api.AgentWeights
	// CreateIndex is the index of Consul at which the instance was registered.
	CreateIndex uint64
}

// parseInstances returns the instances in an answer of Consul, sorted by ID and without duplicates.
// It leaves out entries without a node or service, and the proxies and gateways of Consul's own
// mesh.
func parseInstances(entries []*api.ServiceEntry) []Instance {
	list := make([]Instance, 0, len(entries))
	for _, e := range entries {
		if e == nil || e.Node == nil || e.Service == nil || e.Service.Kind != "" {
			continue
		}
		list = append(list, parseInstance(e))
	}
	slices.SortFunc(list, func(a, b Instance) int { return cmp.Compare(a.ID, b.ID) })
	return slices.CompactFunc(list, func(a, b Instance) bool { return a.ID == b.ID })
}

// parseInstance returns the instance of an entry with node and service, its tags and ports sorted.
// An address or locality that the service lacks comes from the node. Without a list of ports it has
// the service's one port. The last choice for region and zone is the node's metadata.
func parseInstance(e *api.ServiceEntry) Instance {
	i := Instance{
		ID:         e.Node.Node + "/" + cmp.Or(e.Service.ID, e.Service.Service),
		Node:       e.Node.Node,
		Datacenter: e.Node.Datacenter,
		Address:    cmp.Or(e.Service.Address, e.Node.Address),
		Tagged:     e.Service.TaggedAddresses,
		Tags:       slices.Sorted(slices.Values(e.Service.Tags)),
		Meta:       e.Service.Meta,
		NodeMeta:   e.Node.Meta,
		Health:     aggregatedHealth(e.Checks),
		Weights:    e.Service.Weights,

		CreateIndex: e.Service.CreateIndex,
	}
	for _, p := range e.Service.Ports {
		i.Ports = append(i.Ports, p.Port)
	}
	if len(i.Ports) == 0 {
		i.Ports = []int{e.Service.Port}
	}
	slices.Sort(i.Ports)
	i.Ports = slices.Compact(i.Ports)
	for _, l := range []*api.Locality{e.Service.Locality, e.Node.Locality} {
		if l != nil && i.Region == "" {
			i.Region, i.Zone = l.Region, l.Zone
		}
	}
	if i.Region == "" {
		i.Region, i.Zone = e.Node.Meta["region"], e.Node.Meta["zone"]
	}
	return i
}

// aggregatedHealth returns the worst state of the checks, as Consul's DNS interface determines it,
// passing without checks. An unknown state is treated as critical.
func aggregatedHealth(checks api.HealthChecks) string {
	known := make(api.HealthChecks, 0, len(checks))
	for _, c := range checks {
		if c != nil {
			known = append(known, c)
		}
	}
	return cmp.Or(known.AggregatedStatus(), api.HealthCritical)
}

// newObject returns the object of a service, whose instances must be sorted by ID. It returns an
// error if they cannot be encoded.
func newObject(namespace string, s *Service) (*config.Config, error) {
	key := config.Key{Kind: Kind, Namespace: namespace, Name: part{s.Datacenter, s.Peer}.objectName(s.Name)}
	return config.New(config.Meta{Key: key, Origin: "Consul service " + strings.ToValidUTF8(key.Name, "?")}, s)
}
