package mesh

import (
	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/model/config"
)

// Op is the operation of an Event.
type Op uint8

// The operations.
const (
	Upsert Op = iota
	Delete
	// Synced marks the end of the initial state of a source. It is sent once.
	Synced
)

// String returns the name of the operation in lower case, for logs. It panics for an unknown
// operation.
func (o Op) String() string {
	return [...]string{"upsert", "delete", "synced"}[o]
}

// Event is a change of one entity. Exactly one of the pointers is set; none with Synced. For
// Delete, the value needs only its key.
type Event struct {
	Op Op
	// Source is the name of the source or registry.
	Source       string
	Config       *config.Config
	Service      *Service
	Shard        *Shard
	Workload     *Workload
	Settings     *Settings
	Problems     *Problems
	SecretAccess *SecretAccess
	KeySet       *KeySet
	Gateways     *GatewayObject
	// Resolved contains the addresses of a name in Snapshot.NamesToResolve.
	Resolved *ResolvedName
}

// Settings is the mesh-wide configuration, as one immutable value. In an Event a nil field leaves
// the current value unchanged.
type Settings struct {
	Mesh     *meshconfig.MeshConfig
	Networks *meshconfig.MeshNetworks
	// Roots are the certificates of the mesh's own CA that proxies trust, in PEM.
	Roots []string
	// RootsComing is set if there is a CA whose roots are not known yet.
	RootsComing bool
	// Bundles are the certificates, in PEM, of the trust bundles that MeshConfig references
	// (caCertificates.spiffeBundleUrl), by URL. The value is "" if a bundle could not be fetched
	// yet. URLs without an entry have not been tried.
	Bundles map[string]string
}

// Problems replaces all Problems of one scope. An empty List resolves them.
type Problems struct {
	// Scope identifies the set that List is complete for: a file's path or an object's key.
	Scope string
	List  []config.Problem
	// Generation is the metadata.generation of the object, if the list is about one object of an
	// API server.
	Generation int64
}

// Batch contains events that are applied atomically: no proxy sees a part of them.
type Batch []Event
