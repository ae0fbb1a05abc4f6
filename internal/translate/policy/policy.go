package policy

import (
	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"
)

// Of gives the policy that holds for the cluster of a port and a subset ("" for the one of the whole host). It is never
// nil, and has no port level settings left.
//
// A group of settings (connectionPool, loadBalancer, outlierDetection, tls …) is never mixed of two levels: a subset's
// replaces the host's whole. Port level settings stand alone at their level, and say all four groups: what they leave out
// of those is not taken from elsewhere.
// What stays open of connectionPool and outlierDetection is the mesh's default (MeshConfig.defaultTrafficPolicy).
func Of(mesh *meshconfig.MeshConfig, rule *networking.DestinationRule, subset string, port uint32) *networking.TrafficPolicy {
	out := new(networking.TrafficPolicy)
	overlay(out, rule.GetTrafficPolicy(), port)
	if s := Subset(rule, subset); s != nil {
		overlay(out, s.GetTrafficPolicy(), port)
	}
	defaults := mesh.GetDefaultTrafficPolicy()
	if out.ConnectionPool == nil {
		out.ConnectionPool = defaults.GetConnectionPool()
	}
	if out.OutlierDetection == nil {
		out.OutlierDetection = defaults.GetOutlierDetection()
	}
	return out
}

// Subset finds a subset by its name, nil if the rule has none of that name. Of two with one name the first counts.
func Subset(rule *networking.DestinationRule, name string) *networking.Subset {
	if name == "" {
		return nil
	}
	for _, s := range rule.GetSubsets() {
		if s.GetName() == name {
			return s
		}
	}
	return nil
}

// overlay puts what one level says of a port over what wider levels said.
func overlay(out, level *networking.TrafficPolicy, port uint32) {
	if level == nil {
		return
	}
	for _, p := range level.PortLevelSettings {
		if p.GetPort().GetNumber() == port {
			out.ConnectionPool, out.LoadBalancer = p.ConnectionPool, p.LoadBalancer
			out.OutlierDetection, out.Tls = p.OutlierDetection, p.Tls
			return
		}
	}
	replace(&out.ConnectionPool, level.ConnectionPool)
	replace(&out.LoadBalancer, level.LoadBalancer)
	replace(&out.OutlierDetection, level.OutlierDetection)
	replace(&out.Tls, level.Tls)
	replace(&out.Tunnel, level.Tunnel)
	replace(&out.ProxyProtocol, level.ProxyProtocol)
	replace(&out.RetryBudget, level.RetryBudget)
}

func replace[T any](to **T, by *T) {
	if by != nil {
		*to = by
	}
}
