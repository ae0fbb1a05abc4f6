package snapshot

import (
	"net/netip"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot/cow"
)

// Snapshot is the whole mesh at one moment. It is immutable and read without locks.
type Snapshot struct {
	// Version counts up by one for every Apply that changed something. It means nothing to other replicas.
	Version  uint64
	Settings *Settings
	// Derived holds what others compute from everything but endpoints and workloads, Visibility what they compute from
	// services, VirtualServices, Sidecars and settings alone, Catalog what they compute from services and settings alone.
	Derived, Visibility, Catalog *Derived

	configs             *cow.Map[config.Key, *config.Config]
	kinds               map[api.Kind][]*config.Config
	services            *cow.Map[mesh.ServiceKey, *mesh.Service]
	allocated           *cow.Map[mesh.ServiceKey, *mesh.Service] // those that were given addresses, as if they were their own
	allocation          *Allocation                              // nil if no addresses are given
	serviceList         []*mesh.Service
	selecting           map[string][]*mesh.Service
	endpoints           *cow.Map[mesh.ServiceKey, *EndpointSet]
	byAddress           *cow.Map[netip.Addr, *Address]
	destinationRules    *destinationRules
	envoyFilters        *envoyFilters
	telemetries         *telemetries
	peerAuthentications *peerAuthentications
	policies            map[api.Kind]*policies // never changed in place
	gateways            *gateways
	networks            *NetworkGateways
	virtualServices     virtualServices
	keySets             map[mesh.KeySource]*mesh.KeySet // never changed in place: there are few
	problems            []config.Problem
	shards              *cow.Map[mesh.ServiceKey, []*mesh.Shard]
	homes               homes
	rights              map[mesh.Account]*mesh.Right  // never changed in place: there are few
	resolved            map[string]*mesh.ResolvedName // likewise
}

// Config finds an object, nil if there is none.
func (s *Snapshot) Config(k config.Key) *config.Config { return s.configs.Get(k) }

// Configs gives the objects of a kind sorted by namespace and name. The list must not be changed.
func (s *Snapshot) Configs(kind api.Kind) []*config.Config { return s.kinds[kind] }

// Service finds a service, nil if there is none.
func (s *Snapshot) Service(k mesh.ServiceKey) *mesh.Service { return s.services.Get(k) }

// Services gives all services sorted by hostname and namespace. The list must not be changed.
func (s *Snapshot) Services() []*mesh.Service { return s.serviceList }

// Endpoints gives the endpoints of a service, an empty set if there are none. It is never nil.
func (s *Snapshot) Endpoints(k mesh.ServiceKey) *EndpointSet {
	if e := s.endpoints.Get(k); e != nil {
		return e
	}
	return noEndpoints
}

// Networks gives the gateways by which networks are reached from others, nil if there are none.
func (s *Snapshot) Networks() *NetworkGateways { return s.networks }

// Shards gives the lists that the endpoints of a service were joined from, for the debug pages.
func (s *Snapshot) Shards(k mesh.ServiceKey) []*mesh.Shard { return s.shards.Get(k) }

// RulesMark is equal in two snapshots only if no DestinationRule differs between them.
func (s *Snapshot) RulesMark() any { return s.destinationRules }

// Problems gives what sources and registries found wrong, sorted.
func (s *Snapshot) Problems() []config.Problem { return s.problems }
