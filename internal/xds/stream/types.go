package stream

import (
	"strings"

	"github.com/meshpilot/meshpilot/internal/model/api"
)

// Type describes one resource type to the protocol rules.
type Type struct {
	URL string
	// Wildcard types can be subscribed to as a whole. In SotW, a response of such a type is the
	// full state: resources that it omits are deleted (xDS protocol, "How the client specifies what
	// resources to return", "Deleting Resources").
	Wildcard bool
	// Removable types may be named in removed_resources (delta). EDS and SDS are not removable: a
	// cluster that waits for its endpoints or secret would become active without them. The one
	// exception is endpoints that do not exist, of a client that reconnected (owed.go). ECDS
	// is never removable: Envoy would remove the extension from listeners that still use it, and
	// their requests would fail.
	Removable bool
	// Silent types are not answered while there is no resource to send. Istio's agent requests them
	// itself and does not acknowledge an empty response.
	Silent bool
	// Drains reports whether connections that use a resource by its name outlive the listener that
	// refers to it, by Options.Drain. If nil, no resource is kept longer. An inbound route is part
	// of its listener, so a connection of a removed filter chain continues to use its cluster.
	Drains func(name string) bool
	// RejectsLate is set if a client may reject resources of a response that it has acknowledged.
	// The agent acknowledges extensions before their Wasm modules are fetched, and sends Envoy each
	// of them with the nonce of its response (delta) or with the newest one (SotW).
	RejectsLate bool
	role        role
}

// role is the function of a type in the rules that relate types to each other.
type role uint8

const (
	unrelated     role = iota
	clusterRole        // pushed without waiting for ACKs; deleted resources linger
	endpointRole       // sent after their clusters, which warm until they arrive
	listenerRole       // requested when all first clusters are warm; may refer to clusters
	referringRole      // may refer to clusters
)

// isUnpaced reports whether the type is pushed while a response is still unacknowledged. It is true
// for clusters, because Envoy holds back every ACK of CDS while any cluster warms, perhaps without
// end.
func (t *Type) isUnpaced() bool { return t.role == clusterRole }

// canLinger reports whether deleted resources of the type stay at the client until nothing that it
// was sent can refer to them.
func (t *Type) canLinger() bool { return t.role == clusterRole }

// refersToClusters reports whether resources of the type may refer to clusters.
func (t *Type) refersToClusters() bool { return t.role == listenerRole || t.role == referringRole }

// Types is the table of the types that a stream serves, in push order. It is immutable and shared.
// A Machine and its ResourceSnapshots must be made with the same table.
type Types struct {
	list                           []Type
	clusters, endpoints, listeners int // positions in list, -1 for none
}

// NewTypes returns a table of the given types, in push order. Each URL must occur once. Types made
// outside this package have no role, so no rules relate them to each other.
func NewTypes(list ...Type) *Types {
	t := &Types{list: list, clusters: -1, endpoints: -1, listeners: -1}
	for i := range list {
		switch list[i].role {
		case clusterRole:
			t.clusters = i
		case endpointRole:
			t.endpoints = i
		case listenerRole:
			t.listeners = i
		}
	}
	return t
}

// envoyTypes lists the types of Envoy in push order (xDS protocol, "Eventual consistency
// considerations": make before break). A changed extension is sent before the listeners that use
// it. To serve another type, add it at its position in this order.
var envoyTypes = NewTypes(
	Type{URL: api.ClusterType, Wildcard: true, Removable: true, Drains: isInbound, role: clusterRole},
	Type{URL: api.EndpointType, role: endpointRole},
	Type{URL: api.ExtensionType, RejectsLate: true, role: referringRole},
	Type{URL: api.ListenerType, Wildcard: true, Removable: true, role: listenerRole},
	Type{URL: api.RouteType, Removable: true, role: referringRole},
	Type{URL: api.SecretType},
	Type{URL: api.NameTableType, Wildcard: true, Silent: true},
	Type{URL: api.ProxyConfigType, Wildcard: true, Silent: true},
)

// isInbound reports whether a cluster routes to the proxy's own workload.
func isInbound(cluster string) bool { return strings.HasPrefix(cluster, "inbound|") }

// Serves reports whether the type is one of the types that are served to proxies and their agents.
func Serves(typeURL string) bool { return envoyTypes.Serves(typeURL) }

// IsWildcard reports whether a type that is served to proxies and their agents is a wildcard type
// (see Types.IsWildcard).
func IsWildcard(typeURL string) bool { return envoyTypes.IsWildcard(typeURL) }

// URLs returns the type URLs in push order.
func (t *Types) URLs() []string {
	urls := make([]string, len(t.list))
	for i := range t.list {
		urls[i] = t.list[i].URL
	}
	return urls
}

// Serves reports whether the type is in the table.
func (t *Types) Serves(typeURL string) bool { return t.positionOf(typeURL) >= 0 }

// IsWildcard reports whether a client that requests the type without names is sent all its
// resources (CDS, LDS). It returns false for a type that is not in the table.
func (t *Types) IsWildcard(typeURL string) bool {
	i := t.positionOf(typeURL)
	return i >= 0 && t.list[i].Wildcard
}

// positionOf returns the position of a type in the table, or -1 if it is not served.
func (t *Types) positionOf(typeURL string) int {
	for i := range t.list {
		if t.list[i].URL == typeURL {
			return i
		}
	}
	return -1
}
