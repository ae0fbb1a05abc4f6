package mesh

import "strings"

// Locality is a location, from wide to narrow. Unknown parts are empty.
type Locality struct {
	Region, Zone, SubZone string
}

// ParseLocality parses "region/zone/subzone". Missing parts are empty, and further slashes belong
// to the subzone.
func ParseLocality(s string) Locality {
	parts := strings.SplitN(s, "/", 3)
	for len(parts) < 3 {
		parts = append(parts, "")
	}
	return Locality{Region: parts[0], Zone: parts[1], SubZone: parts[2]}
}

// String returns "region/zone/subzone" without trailing empty parts.
func (l Locality) String() string {
	return strings.TrimRight(l.Region+"/"+l.Zone+"/"+l.SubZone, "/")
}

// Network is the name of a set of endpoints that reach each other directly; "" is the default
// network.
type Network string

// ClusterID is the name of a cluster, "Kubernetes" by default.
type ClusterID string
