package stream

import "github.com/meshpilot/meshpilot/internal/api"

// kind is what the protocol rules need to know of one resource type.
type kind struct {
	url string
	// whole types may be subscribed to by wildcard, and in SotW a response of them is the full state: what it leaves
	// out is deleted (xDS protocol, "How the client specifies what resources to return", "Deleting Resources").
	whole bool
	// removable types may be named in a delta's removed_resources. Never EDS and SDS: to a cluster that waits for its
	// endpoints or secret "removed" means "there are none", and it goes live without them.
	removable bool
	// unpaced types are pushed although a response is not acknowledged yet: Envoy holds back every ACK of CDS while any
	// cluster warms, which may be for ever.
	unpaced bool
	// lingers: what is gone stays at the client until nothing that it was sent can refer to it any more.
	lingers bool
	// refers: resources of this type may refer to clusters.
	refers bool
}

// Positions in pushOrder that the rules between types speak of.
const (
	cds = iota
	eds
	lds
	rds
	sds
)

// pushOrder is all types that streams serve, in the order of a push (xDS protocol, "Eventual consistency
// considerations": make before break). To serve another type, give it a line at its place here.
var pushOrder = [...]kind{
	cds: {url: api.ClusterType, whole: true, removable: true, unpaced: true, lingers: true},
	eds: {url: api.EndpointType},
	lds: {url: api.ListenerType, whole: true, removable: true, refers: true},
	rds: {url: api.RouteType, removable: true, refers: true},
	sds: {url: api.SecretType},
}

// place finds a type's position in pushOrder, -1 if it is not served.
func place(typeURL string) int {
	for i := range pushOrder {
		if pushOrder[i].url == typeURL {
			return i
		}
	}
	return -1
}

// Serves says whether streams know the type at all.
func Serves(typeURL string) bool { return place(typeURL) >= 0 }

// Wildcard says whether all resources of the type belong to every client that asks for the type (CDS, LDS), rather than
// only those that it names.
func Wildcard(typeURL string) bool {
	i := place(typeURL)
	return i >= 0 && pushOrder[i].whole
}
