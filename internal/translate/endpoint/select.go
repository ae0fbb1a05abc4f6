package endpoint

import (
	"net/netip"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/mesh"
	"github.com/meshpilot/meshpilot/internal/translate/policy"
)

const unixPrefix = "unix://"

// selected gives the endpoints that serve the cluster's port and are of its subset, in the order of the set.
func (in Input) selected(p *networking.TrafficPolicy) []*mesh.Endpoint {
	port, ok := in.Service.Port(in.Cluster.Port)
	if !ok {
		return nil
	}
	var labels map[string]string
	if in.Cluster.Subset != "" {
		subset := policy.Subset(in.rule(), in.Cluster.Subset)
		if subset == nil {
			return nil
		}
		labels = subset.GetLabels()
	}
	// Envoy sends nothing to unhealthy endpoints but counts them when it spreads load over priorities. Where it may fall
	// back to all endpoints when too few are healthy (minHealthPercent), unready ones must not be among them.
	healthyOnly := p.GetOutlierDetection().GetMinHealthPercent() > 0
	resolved := in.resolved()
	var list []*mesh.Endpoint
	for _, e := range in.Endpoints.Endpoints {
		switch {
		case e.ServicePort != port.Name, !covers(labels, e.Labels):
		case e.Health == mesh.Draining, e.Health == mesh.Unhealthy && healthyOnly:
		case !resolved && !fixed(e.Address): // EDS refuses names
		default:
			list = append(list, e)
		}
	}
	return list
}

// covers says whether all the wanted labels are there.
func covers(want, have map[string]string) bool {
	for k, v := range want {
		if got, there := have[k]; !there || got != v {
			return false
		}
	}
	return true
}

// fixed says whether an address is one that needs no resolving.
func fixed(address string) bool {
	if strings.HasPrefix(address, unixPrefix) {
		return true
	}
	_, err := netip.ParseAddr(address)
	return err == nil
}
