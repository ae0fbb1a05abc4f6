package snapshot

import (
	"net/netip"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot/cow"
)

// Snapshot is the state of the whole mesh at one moment. It is immutable and safe for concurrent
// use.
type Snapshot struct {
	// Version is incremented by every Apply that changes something. It is not comparable between
	// replicas.
	Version  uint64
	Settings *Settings
	// Derived caches values that depend on anything but endpoints and workloads. Visibility caches
	// values that depend only on services, VirtualServices, Sidecars and settings. Catalog caches
	// values that depend only on services and settings.
	Derived, Visibility, Catalog *Derived

	configs  *cow.Map[config.Key, *config.Config]
	kinds    map[api.Kind][]*config.Config
	services *cow.Map[mesh.ServiceKey, *mesh.Service]
	// services with allocated addresses as their addresses
	allocated           *cow.Map[mesh.ServiceKey, *mesh.Service]
	allocation          *Allocation // nil if no addresses are allocated
	serviceList         []*mesh.Service
	selecting           map[string][]*mesh.Service
	endpoints           *cow.Map[mesh.ServiceKey, *EndpointSet]
	byAddress           *cow.Map[netip.Addr, *Address]
	destinationRules    *destinationRules
	envoyFilters        *envoyFilters
	telemetries         *telemetries
	peerAuthentications *peerAuthentications
	policies            map[api.Kind]*policies // copied before a change
	gateways            *gateways
	networks            *NetworkGateways
	virtualServices     virtualServices
	keySets             map[mesh.KeySource]*mesh.KeySet // copied before a change: there are few
	problems            []config.Problem
	shards              *cow.Map[mesh.ServiceKey, []*mesh.Shard]
	clusterAddresses    clusterAddresses
	secretAccess        map[mesh.Account]*mesh.SecretAccess // copied before a change: there are few
	resolved            map[string]*mesh.ResolvedName       // likewise
}

// Config returns the object with a key, or nil if there is none or snapshots do not contain its
// kind (Keeps).
func (s *Snapshot) Config(k config.Key) *config.Config { return s.configs.Get(k) }

// Configs returns the objects of a kind, sorted by namespace and name, or nil. Callers must not
// modify the list.
func (s *Snapshot) Configs(kind api.Kind) []*config.Config { return s.kinds[kind] }

// Service returns the service with exactly this key, or nil.
func (s *Snapshot) Service(k mesh.ServiceKey) *mesh.Service { return s.services.Get(k) }

// Services returns all services, sorted by hostname and namespace. Callers must not modify the
// list.
func (s *Snapshot) Services() []*mesh.Service { return s.serviceList }

// Endpoints returns the endpoints of a service. It returns an empty set, never nil, if there are
// none.
func (s *Snapshot) Endpoints(k mesh.ServiceKey) *EndpointSet {
	if e := s.endpoints.Get(k); e != nil {
		return e
	}
	return noEndpoints
}

// Networks returns the gateways between networks, or nil if there are none.
func (s *Snapshot) Networks() *NetworkGateways { return s.networks }

// Shards returns the lists from which the endpoints of a service were merged, for debug pages, or
// nil. Endpoints of selected workloads are not among them.
func (s *Snapshot) Shards(k mesh.ServiceKey) []*mesh.Shard { return s.shards.Get(k) }

// DestinationRulesVersion returns a comparable value. Two snapshots with equal values have the same
// DestinationRules.
func (s *Snapshot) DestinationRulesVersion() any { return s.destinationRules }

// Problems returns the Problems that sources and registries report, sorted and without duplicates.
// Callers must not modify the list.
func (s *Snapshot) Problems() []config.Problem { return s.problems }
