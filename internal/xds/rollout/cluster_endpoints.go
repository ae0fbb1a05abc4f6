package rollout

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
)

// Field numbers of envoy.config.cluster.v3.Cluster and its EdsClusterConfig, and
// Cluster.DiscoveryType EDS.
const (
	clusterName          = 1
	clusterType          = 2
	clusterEDSConfig     = 3
	edsConfigServiceName = 2
	discoveryTypeEDS     = 3
)

// clustersOf returns the names of the clusters that a route configuration, a listener or an
// extension refers to, nil for a resource that refers to none.
func clustersOf(r *resource.Resource) []string {
	if r.Refers == nil {
		return nil
	}
	return r.Refers()
}

// isFetchedOnDemand reports whether the cluster is the outbound cluster of a service. Proxies on
// demand fetch only these when they are first called.
func isFetchedOnDemand(cluster string) bool {
	return strings.HasPrefix(cluster, string(mesh.Outbound)+"|")
}

// emptyCluster returns a static cluster without endpoints. Requests to it fail with 503 UH.
func emptyCluster(name string) *resource.Resource {
	body := protowire.AppendString(protowire.AppendTag(nil, clusterName, protowire.BytesType), name)
	return resource.FromBytes(name, api.ClusterType, body)
}

// pinnedBy returns the names of the clusters that a resource uses without fetching them on demand,
// nil if there are none.
func pinnedBy(r *resource.Resource) []string {
	if r.Pins == nil {
		return nil
	}
	return r.Pins()
}

// endpointsOf returns the name of the ClusterLoadAssignment that an encoded cluster waits for:
// eds_cluster_config.service_name, or else the cluster's name. It returns "" if the cluster's type
// is not EDS or its encoding is invalid. The usual result, the cluster's name, is not a copy.
func endpointsOf(cluster *resource.Resource) string {
	var name []byte
	eds := false
	for b := cluster.Body; len(b) > 0; {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return ""
		}
		b = b[n:]
		switch {
		case number == clusterType && kind == protowire.VarintType:
			v, _ := protowire.ConsumeVarint(b)
			eds = v == discoveryTypeEDS
		case number == clusterEDSConfig && kind == protowire.BytesType:
			config, _ := protowire.ConsumeBytes(b)
			name = serviceName(config)
		}
		if n = protowire.ConsumeFieldValue(number, kind, b); n < 0 {
			return ""
		}
		b = b[n:]
	}
	switch {
	case !eds:
		return ""
	case len(name) == 0 || string(name) == cluster.Name:
		return cluster.Name
	default:
		return string(name)
	}
}

// serviceName returns the first field service_name of an encoded Cluster.EdsClusterConfig, as a part
// of b, or nil if it is missing or the encoding before it is invalid.
func serviceName(b []byte) []byte {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return nil
		}
		b = b[n:]
		if number == edsConfigServiceName && kind == protowire.BytesType {
			v, _ := protowire.ConsumeBytes(b)
			return v
		}
		if n = protowire.ConsumeFieldValue(number, kind, b); n < 0 {
			return nil
		}
		b = b[n:]
	}
	return nil
}

// allEndpointsOf returns the results of endpointsOf for a list of clusters, sorted and without
// duplicates or "".
func allEndpointsOf(clusters []*resource.Resource) []string {
	names := make([]string, 0, len(clusters))
	for _, c := range clusters {
		if n := endpointsOf(c); n != "" {
			names = append(names, n)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
