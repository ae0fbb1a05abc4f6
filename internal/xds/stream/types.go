package stream

import (
	"strings"

	"github.com/meshpilot/meshpilot/internal/model/api"
)

// Type is what the protocol rules need to know of one resource type.
type Type struct {
	URL string
	// Wildcard types may be subscribed to as a whole, and in SotW a response of them is the full state: what it leaves
	// out is deleted (xDS protocol, "How the client specifies what resources to return", "Deleting Resources").
	Wildcard bool
	// Removable types may be named in a delta's removed_resources. Never EDS and SDS: to a cluster that waits for its
	// endpoints or secret "removed" means "there are none", and it goes live without them. Never ECDS: Envoy takes the
	// extension out of listeners that still use it, and their requests fail.
	Removable bool
	// Silent types are not answered as long as there is no resource to send: Istio's agent, which asks for them itself,
	// does not acknowledge an empty response.
	Silent bool
	// Drains reports whether connections that use a resource by its name outlive the listener that
	// refers to it, by Options.Drain. If nil, none does. An inbound route is part of its listener:
	// a connection of a removed filter chain goes on to use its cluster.
	Drains func(name string) bool
	role   role
}

// role is what a type is to the rules between types.
type role uint8

const (
	unrelated     role = iota
	clusterRole        // is pushed though a response is not acknowledged yet, and what is gone lingers
	endpointRole       // follow their clusters, which wait for them
	listenerRole       // asked for when all first clusters are warm; may refer to clusters
	referringRole      // may refer to clusters
)

// unpaced types are pushed although a response is not acknowledged yet: Envoy holds back every ACK of CDS while any
// cluster warms, which may be for ever.
func (t *Type) unpaced() bool { return t.role == clusterRole }

// lingers says that what is gone stays at the client until nothing that it was sent can refer to it any more.
func (t *Type) lingers() bool { return t.role == clusterRole }

// refers says that resources of the type may refer to clusters.
func (t *Type) refers() bool { return t.role == listenerRole || t.role == referringRole }

// Types is the table of the types that a stream serves, in the order of a push. It is immutable and shared: a Machine
// and its Worlds must be made with the same one.
type Types struct {
	list                           []Type
	clusters, endpoints, listeners int // positions in list, -1 for none
}

// NewTypes makes a table of types that have nothing to do with each other. They are pushed in the order of the list, in
// which each URL must be there once.
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

// envoyTypes is in the order of a push (xDS protocol, "Eventual consistency considerations": make before break). A
// changed extension goes before the listeners that use it. To serve another type, give it a line at its place here.
var envoyTypes = NewTypes(
	Type{URL: api.ClusterType, Wildcard: true, Removable: true, Drains: isInbound, role: clusterRole},
	Type{URL: api.EndpointType, role: endpointRole},
	Type{URL: api.ExtensionType, role: referringRole},
	Type{URL: api.ListenerType, Wildcard: true, Removable: true, role: listenerRole},
	Type{URL: api.RouteType, Removable: true, role: referringRole},
	Type{URL: api.SecretType},
	Type{URL: api.NameTableType, Wildcard: true, Silent: true},
	Type{URL: api.ProxyConfigType, Wildcard: true, Silent: true},
)

// isInbound reports whether a cluster leads to the proxy's own workload.
func isInbound(cluster string) bool { return strings.HasPrefix(cluster, "inbound|") }

// Serves says whether proxies and their agents are served the type at all.
func Serves(typeURL string) bool { return envoyTypes.Serves(typeURL) }

// Wildcard says of a type that proxies and their agents are served what Types.Wildcard says.
func Wildcard(typeURL string) bool { return envoyTypes.Wildcard(typeURL) }

// URLs gives the type URLs in the order of a push.
func (t *Types) URLs() []string {
	urls := make([]string, len(t.list))
	for i := range t.list {
		urls[i] = t.list[i].URL
	}
	return urls
}

// Serves says whether the type is in the table.
func (t *Types) Serves(typeURL string) bool { return t.place(typeURL) >= 0 }

// Wildcard says whether all resources of the type belong to every client that asks for the type (CDS, LDS), rather than
// only those that it names.
func (t *Types) Wildcard(typeURL string) bool {
	i := t.place(typeURL)
	return i >= 0 && t.list[i].Wildcard
}

// place finds a type's position, -1 if it is not served.
func (t *Types) place(typeURL string) int {
	for i := range t.list {
		if t.list[i].URL == typeURL {
			return i
		}
	}
	return -1
}
