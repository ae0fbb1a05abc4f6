package view

import (
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// The groups of fields in Key. Each contains what one aspect of the configuration depends on, so that
// most scopes of generators contain whole groups.

// Location is where a proxy runs, which decides the order and the addresses of endpoints.
type Location struct {
	Locality mesh.Locality
	Network  mesh.Network
	Cluster  mesh.ClusterID
	// NetworkView lists the networks whose endpoints the proxy requests, joined by commas; ""
	// requests all.
	NetworkView string
	// Node is the node of the proxy, set only if the mesh has services whose endpoints depend on
	// the caller's node.
	Node string
	// FailoverLabels holds the proxy's values of the labels that failover priorities compare
	// (Snapshot.FailoverLabels), in the form of SelectorText.
	FailoverLabels string
}

// AddressFamilies are the families of which a proxy has an address.
type AddressFamilies struct{ IPv4, IPv6 bool }

// VirtualAddresses decide by which virtual addresses the proxy's applications call services.
type VirtualAddresses struct {
	// KnowsAllocatedAddresses is set if the DNS proxy of the proxy's agent resolves services to
	// automatically allocated addresses (snapshot.Allocation).
	KnowsAllocatedAddresses bool
	// VIPCluster is the cluster whose virtual addresses the proxy's applications use, if those
	// differ from the primary ones (Snapshot.VIPCluster).
	VIPCluster mesh.ClusterID
}

// Upstream is how a proxy connects to other workloads.
type Upstream struct {
	// SocketMark is the SO_MARK of the proxy's upstream connections; 0 sets none.
	SocketMark int
	// ClientCredentials are the proxy's credentials for connections to other proxies.
	ClientCredentials mesh.Credentials
	// FileServer is the static cluster of the agent's SDS server for certificate files; "" if the
	// proxy has no agent.
	FileServer string
	// CredentialServer is set if an SDS server of the user beside the proxy has the credentials
	// "sds://NAME".
	CredentialServer bool
	// ClusterOverrides is the part of Key.ProxyConfigOverrides that outbound clusters depend on, in
	// the same form.
	ClusterOverrides string
}

// Server is how a proxy is called.
type Server struct {
	// Inbound lists the proxy's own service ports, in the text form of encodeInstances.
	Inbound string
	// HasBoundIngress is set if the Sidecar has inbound listeners that bind their port, so that
	// they can conflict with outbound listeners.
	HasBoundIngress bool
	// ServerCredentials are the proxy's credentials for connections from other proxies.
	ServerCredentials mesh.Credentials
	// TransitionModes temporarily overrides the mTLS mode of PeerAuthentications, while a change of
	// the mode is rolled out to the callers. It is "" if no change is in progress.
	TransitionModes snapshot.TransitionModes
}

// ProxylessKey contains the fields of gRPC applications without an Envoy.
type ProxylessKey struct {
	// Enabled is set for such applications (node metadata GENERATOR "grpc").
	Enabled bool
	// CalledWithTLS is set if other proxies call the application with mutual TLS, as a label of its
	// workload declares.
	CalledWithTLS bool
	// Addresses are the application's addresses, joined by commas, and Ports its container ports,
	// sorted. Its inbound listeners are named after both, with or without a service.
	Addresses, Ports string
}
