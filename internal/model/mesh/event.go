package mesh

import (
	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/model/config"
)

// Op is what happened to the object of an Event.
type Op uint8

// The kinds of Event.
const (
	Upsert Op = iota
	Delete
	// Synced says that everything that the source had at its start has been sent. It is sent once.
	Synced
)

// String names the op for logs.
func (o Op) String() string {
	return [...]string{"upsert", "delete", "synced"}[o]
}

// Event is one change of one thing. Exactly one of the pointers is set; none with Synced.
// For Delete the pointed-to value needs only its key.
type Event struct {
	Op Op
	// Source is the name of the source or registry that says so.
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
	// Resolved is what a name stands for that Snapshot.NamesToResolve has.
	Resolved *ResolvedName
}

// Settings is the mesh-wide configuration, as one immutable value. A nil field is the default.
type Settings struct {
	Mesh     *meshconfig.MeshConfig
	Networks *meshconfig.MeshNetworks
	// Roots are the certificates of the mesh's own authority that proxies are to trust, in PEM.
	Roots []string
	// RootsComing says that there is such an authority, and that its roots are not known yet.
	RootsComing bool
	// Bundles are the authorities' certificates, in PEM, of the trust bundles that MeshConfig names (caCertificates.spiffeBundleUrl), by
	// address: as they were got last, "" if they never were. Of those that are not there it is not known yet.
	Bundles map[string]string
}

// Problems replaces all that is known to be wrong about one origin (a file, or one object): an empty List mends it.
type Problems struct {
	// Scope names what the list is complete for: a file's path or an object's key.
	Scope string
	List  []config.Problem
	// Generation is that of the object (metadata.generation), if the list is about one object of an API server.
	Generation int64
}

// Batch is events that belong together: they are applied as one, and no proxy sees half of them.
type Batch []Event
