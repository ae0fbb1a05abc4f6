package route

import (
	"fmt"
	"slices"

	networking "istio.io/api/networking/v1alpha3"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// hostInput is everything that an encoded virtual host depends on.
type hostInput struct {
	names *names
	// lost are the indexes of the domains that another virtual host has; see without.
	lost string
	// routes are the routes of a VirtualService; nil for the default route of a service.
	routes *routes
	// retry, session and rule are used by the default route: the mesh's default retry policy, the
	// service's persistent session, and its DestinationRule if it has a hash policy.
	retry   *networking.HTTPRetry
	session mesh.Session
	rule    *snapshot.DestinationRule
	// attempts sends upstreams the number of the attempt (x-envoy-attempt-count).
	attempts bool
}

// takesAll reports whether the virtual host is of the host "*" and still has the domain "*". It
// then matches requests that no other virtual host matches. It returns false for other hosts, also
// in the form anyHost.
func (in hostInput) takesAll() bool {
	return in.names.host == "*" && slices.Contains(without(in.names.domains, in.lost), "*")
}

// Field numbers of VirtualHost and RouteConfiguration.
const (
	hostNameField     protowire.Number = 1
	hostDomainsField  protowire.Number = 2
	hostRoutesField   protowire.Number = 3
	hostAttemptsField protowire.Number = 14

	configNameField     protowire.Number = 1
	configHostsField    protowire.Number = 2
	configRemoveField   protowire.Number = 5
	configValidateField protowire.Number = 7
	// configRemoveRequestField is RouteConfiguration.request_headers_to_remove.
	configRemoveRequestField protowire.Number = 8
	configBodyLimitField     protowire.Number = 11
	configIgnorePortField    protowire.Number = 14

	uint32ValueField protowire.Number = 1
)

// virtualHost is an encoded virtual host: a field of a RouteConfiguration.
type virtualHost struct {
	encoded []byte
	// clusters are the clusters that its routes reference, sorted. pinned are the clusters
	// that proxies do not fetch on demand.
	clusters, pinned []string
}

// encodeHost returns the encoded virtual host of a sidecar's RouteConfiguration. If in.routes is
// nil, the host has one route to the service.
func encodeHost(in hostInput) *virtualHost {
	r := in.routes
	if r == nil {
		r = encodeRoutes([]*routev3.Route{serviceRoute(in)})
	}
	return &virtualHost{
		encoded:  appendHost(nil, in.names.name, without(in.names.domains, in.lost), r, in.attempts),
		clusters: r.clusters,
		pinned:   r.pinned,
	}
}

// appendHost appends a VirtualHost to an encoded RouteConfiguration. If attempts is set, requests
// carry the number of their attempt.
func appendHost(b []byte, name string, domains []string, r *routes, attempts bool) []byte {
	var h []byte
	h = appendString(h, hostNameField, name)
	for _, d := range domains {
		h = appendString(h, hostDomainsField, d)
	}
	h = append(h, r.encoded...)
	if attempts {
		h = protowire.AppendVarint(protowire.AppendTag(h, hostAttemptsField, protowire.VarintType), 1)
	}
	return protowire.AppendBytes(protowire.AppendTag(b, configHostsField, protowire.BytesType), h)
}

// clustersOf returns the names of all clusters that must exist before the virtual hosts are used
// (routes.clusters), sorted, without duplicates. Clusters that only mirrors use are not included.
// Nil elements are skipped.
func clustersOf(hosts []*virtualHost) []string {
	var list []string
	for _, h := range hosts {
		if h != nil {
			list = append(list, h.clusters...)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// pinnedBy returns the names of the clusters that requests to the virtual hosts use besides their
// destinations (routes.pinned), in the order of the virtual hosts, with duplicates. Nil elements
// are skipped.
func pinnedBy(hosts []*virtualHost) []string {
	var list []string
	for _, h := range hosts {
		if h != nil {
			list = append(list, h.pinned...)
		}
	}
	return list
}

// routes is a list of routes, encoded as the fields of a VirtualHost.
type routes struct {
	encoded []byte
	// clusters are the clusters that the routes depend on, sorted.
	clusters []string
	// pinned are the clusters that requests use besides their destinations: of mirrors, authorizers
	// and endpoint pickers.
	pinned []string
}

// encodeRoutes returns the routes of list, encoded as fields of a VirtualHost in their order. It
// adds the clusters that they depend on, sorted without duplicates. pinned has only the clusters of
// mirrors, in the order of the routes, perhaps repeated. It panics if a route cannot be encoded.
func encodeRoutes(list []*routev3.Route) *routes {
	r := new(routes)
	for _, m := range list {
		body, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
		if err != nil {
			// Generated messages always encode.
			panic(fmt.Sprintf("route: encode %q: %v", m.Name, err))
		}
		r.encoded = protowire.AppendBytes(protowire.AppendTag(r.encoded, hostRoutesField, protowire.BytesType), body)
		r.clusters = appendClusters(r.clusters, m.GetRoute())
		for _, p := range m.GetRoute().GetRequestMirrorPolicies() {
			r.pinned = append(r.pinned, p.GetCluster())
		}
	}
	slices.Sort(r.clusters)
	r.clusters = slices.Compact(r.clusters)
	return r
}

// addCluster adds a cluster on which the routes depend besides their destinations, to r.pinned and,
// unless it is there, to r.clusters.
func (r *routes) addCluster(name string) {
	r.pinned = append(r.pinned, name)
	if at, found := slices.BinarySearch(r.clusters, name); !found {
		r.clusters = slices.Insert(r.clusters, at, name)
	}
}

// appendClusters appends the names of the clusters that an action, which may be nil, forwards to.
// invalidCluster is left out, because it never exists. Clusters of mirrors are left out, because
// requests do not depend on them.
func appendClusters(list []string, a *routev3.RouteAction) []string {
	add := func(name string) {
		if name != "" && name != invalidCluster {
			list = append(list, name)
		}
	}
	add(a.GetCluster())
	for _, c := range a.GetWeightedClusters().GetClusters() {
		add(c.GetName())
	}
	return list
}

// appendString appends a string field of a protobuf message, even if s is "".
func appendString(b []byte, field protowire.Number, s string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), s)
}
