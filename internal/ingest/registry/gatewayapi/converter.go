package gatewayapi

import (
	"cmp"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/meshpilot/meshpilot/internal/base/recovery"
	"github.com/meshpilot/meshpilot/internal/ingest/registry"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot/cow"
)

// Options configure a Converter.
type Options struct {
	// Domain is the DNS suffix of services (default "cluster.local").
	Domain string
	// Cluster is the cluster of the objects (default "Kubernetes").
	Cluster mesh.ClusterID
	// InferencePools lets HTTPRoutes and GRPCRoutes have InferencePools as backends
	// (ENABLE_GATEWAY_API_INFERENCE_EXTENSION). If false, InferencePools are not read.
	InferencePools bool
	// ClusterSetHosts is set if services with a ServiceImport have a hostname in the cluster set
	// (ENABLE_MCS_HOST). Backends of kind ServiceImport then use it.
	ClusterSetHosts bool
	// Deploys is set if gateways are deployed for Gateways. Their addresses are then the addresses
	// of the deployed Service. If false, the addresses are those in spec.addresses.
	Deploys bool
	// HTTP3 adds a UDP port for HTTP/3 to deployed Services for each port of HTTPS
	// (PILOT_ENABLE_QUIC_LISTENERS).
	HTTP3 bool
	// IgnoreHostnames deploys Gateways with an address of type Hostname like any other, so that they
	// cannot be bound to the proxies of an existing Service
	// (ENABLE_GATEWAY_API_MANUAL_DEPLOYMENT=false).
	IgnoreHostnames bool
	// MeshSessions is set if sidecars have the filter of persistent sessions
	// (PILOT_ENABLE_PERSISTENT_SESSION_FILTER). Gateways always have it.
	MeshSessions bool
	// Recovery confines panics to the object that causes them. If nil, they propagate.
	Recovery *recovery.Recorder
	// Now is the clock that the expiry of certificates is compared with, at each batch and when
	// NextChange has passed. If nil, expiry is not checked.
	Now func() time.Time
	// OnStatusesChanged is called with the keys whose Status changed or was deleted, if it is set:
	// after each batch, from the first Synced of the source on, when Statuses returns the new ones.
	OnStatusesChanged func(changed []config.Key)
	// OnDeploymentsChanged is called with the keys of the Gateways whose Deployment changed, as
	// OnStatusesChanged.
	OnDeploymentsChanged func(changed []config.Key)
	// OnReferencesChanged is called with all Secrets and ConfigMaps that objects refer to, sorted,
	// when this set changes, as OnStatusesChanged.
	OnReferencesChanged func(objects []config.Key)
}

// name is the namespace and name of an object whose kind follows from the context.
type name = types.NamespacedName

// Converter converts the Gateway API objects of one cluster. It must be used by one goroutine at a
// time, except for Statuses and Deployments.
type Converter struct {
	options Options
	guard   registry.Guard
	synced  bool

	objects  objects
	gateways map[name]*gateway      // of this controller
	routes   map[config.Key]*routed // of all kinds
	// rules are the DestinationRules of each target of policies, the bundles of each policy and the
	// objects of each XBackend, and policyRefs the objects that each policy refers to.
	rules, policyRefs map[config.Key][]config.Key
	// poolRefs are the objects that each InferencePool refers to, and classRefs the objects that
	// each GatewayClass refers to.
	poolRefs, classRefs map[config.Key][]config.Key
	backends            map[config.Key]*convertedBackend // XBackends

	indexes  indexes
	dirty    dirty
	emitted  emitted
	secrets  secretReferences
	expiries expiries
	pending  pendingChanges
	statuses atomic.Pointer[Statuses]
	deployed atomic.Pointer[Deployments]
}

var _ registry.Converter = (*Converter)(nil)

// New returns a Converter without objects. If not set, the domain is "cluster.local" and the
// cluster "Kubernetes"; without Now, certificates do not expire.
func New(o Options) *Converter {
	o.Domain = cmp.Or(o.Domain, "cluster.local")
	o.Cluster = cmp.Or(o.Cluster, "Kubernetes")
	c := &Converter{
		options:  o,
		guard:    registry.Guard{Recovery: o.Recovery, Source: source},
		objects:  newObjects(),
		gateways: map[name]*gateway{},
		routes:   map[config.Key]*routed{},
		rules:    map[config.Key][]config.Key{}, policyRefs: map[config.Key][]config.Key{},
		poolRefs: map[config.Key][]config.Key{}, classRefs: map[config.Key][]config.Key{},
		backends: map[config.Key]*convertedBackend{},
		indexes:  indexes{selecting: map[name]struct{}{}},
		dirty:    newDirty(),
		emitted:  newEmitted(),
		secrets:  newSecretReferences(),
		expiries: expiries{now: o.Now, at: map[config.Key]time.Time{}},
		pending:  newPendingChanges(),
	}
	c.statuses.Store(cow.New[config.Key, *Status]())
	c.deployed.Store(cow.New[config.Key, *Deployment]())
	return c
}

// source is the source of all events that the Converter creates.
const source = "Gateway API"

// Statuses returns the desired statuses of all objects as of the last batch. It is safe for
// concurrent use.
func (c *Converter) Statuses() *Statuses { return c.statuses.Load() }

// Deployments returns the Gateways to deploy as of the last batch. It is safe for concurrent use.
func (c *Converter) Deployments() *Deployments { return c.deployed.Load() }

// Convert returns the batch with the changes that follow from its objects, at its end and before
// Synced. All input events are kept. An object whose conversion panics keeps its last results and
// gets a Problem. Certificates that have expired mark the objects that use them; at last the
// callbacks are called.
func (c *Converter) Convert(batch mesh.Batch) mesh.Batch {
	out := make(mesh.Batch, 0, len(batch))
	for _, k := range c.expiries.expired() {
		c.markReferences(k)
	}
	for _, e := range batch {
		switch {
		case e.Config != nil && c.isInput(e.Config.Kind):
			out, _ = c.guard.Try(
				out,
				registry.Read,
				e.Config.Key,
				e.Config.Origin,
				func() { c.storeObject(e.Op, e.Config) },
			)
		case e.Op == mesh.Synced:
			out = c.flush(out)
			c.synced = true
		}
		out = append(out, e)
	}
	out = c.flush(out)
	c.notify()
	return out
}
