package mesh

import "strings"

// Locality is where something runs, from wide to narrow. Empty parts are unknown.
type Locality struct {
	Region, Zone, SubZone string
}

// ParseLocality reads "region/zone/subzone"; missing parts are empty.
func ParseLocality(s string) Locality {
	parts := strings.SplitN(s, "/", 3)
	for len(parts) < 3 {
		parts = append(parts, "")
	}
	return Locality{Region: parts[0], Zone: parts[1], SubZone: parts[2]}
}

// String gives "region/zone/subzone" without trailing empty parts.
func (l Locality) String() string {
	return strings.TrimRight(l.Region+"/"+l.Zone+"/"+l.SubZone, "/")
}

// Network names a set of endpoints that reach each other directly; "" is the default network.
type Network string

// ClusterID names a cluster (a registry's platform instance), "Kubernetes" by default.
type ClusterID string
