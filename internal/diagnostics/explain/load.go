package explain

import (
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
)

const (
	// defaultOverprovisioning is Envoy's default. A priority receives all load until less than
	// 1/1.4 of it is healthy.
	defaultOverprovisioning = 140
	// defaultPanic is Envoy's default panic threshold. Below this percentage of healthy endpoints,
	// Envoy uses all endpoints.
	defaultPanic = 50
)

// priority is the localities of one priority, with their number of endpoints. panics is set in
// panic mode.
type priority struct {
	localities []*endpointv3.LocalityLbEndpoints
	all        int
	healthy    int
	panics     bool
}

// endpointShares returns all endpoints of an assignment with their shares of c's calls, between 0
// and 1. It balances over priorities and localities like Envoy (documentation: "Priority levels",
// "Locality weighted load balancing", "Panic threshold"). Health is taken from the assignment, and
// unused endpoints have share 0.
func endpointShares(a *endpointv3.ClusterLoadAssignment, c *clusterv3.Cluster) []Endpoint {
	list := splitPriorities(a)
	over := uint32(defaultOverprovisioning)
	if v := a.GetPolicy().GetOverprovisioningFactor(); v != nil {
		over = v.GetValue()
	}
	share := priorityShares(list, over, panicThreshold(c))
	byLocality := c.GetCommonLbConfig().GetLocalityWeightedLbConfig() != nil
	var out []Endpoint
	for i, p := range list {
		out = append(out, p.shareEndpoints(uint32(i), share[i], over, byLocality)...)
	}
	return out
}

// splitPriorities returns the localities of an assignment by priority, each with its numbers of
// healthy and of all endpoints. Missing priorities are empty.
func splitPriorities(a *endpointv3.ClusterLoadAssignment) []priority {
	var list []priority
	for _, l := range a.GetEndpoints() {
		for len(list) <= int(l.GetPriority()) {
			list = append(list, priority{})
		}
		p := &list[l.GetPriority()]
		p.localities = append(p.localities, l)
		for _, e := range l.GetLbEndpoints() {
			p.all++
			if isHealthy(e) {
				p.healthy++
			}
		}
	}
	return list
}

// panicThreshold returns the percentage of healthy endpoints below which a cluster uses all of
// them, by default Envoy's.
func panicThreshold(c *clusterv3.Cluster) float64 {
	if t := c.GetCommonLbConfig().GetHealthyPanicThreshold(); t != nil {
		return t.GetValue()
	}
	return defaultPanic
}

// priorityShares returns the share of each priority in percent. Each receives the load that its
// healthy part, times over (percent), allows; the next one receives the rest. If all allow less
// than 100 percent, shares are scaled up, and panics is set in list where the healthy percentage is
// below threshold. If all endpoints are unhealthy, only priorities in panic mode share the load, by
// number of endpoints.
func priorityShares(list []priority, over uint32, threshold float64) []float64 {
	shares := make([]float64, len(list))
	total := 0.0
	health := make([]float64, len(list))
	for i, p := range list {
		if p.all > 0 {
			health[i] = min(100, float64(over)*float64(p.healthy)/float64(p.all))
		}
		total += health[i]
	}
	total = min(total, 100)
	left := 100.0
	for i := range list {
		if total > 0 {
			shares[i] = min(left, health[i]*100/total)
			left -= shares[i]
		}
		if total < 100 && list[i].all > 0 {
			list[i].panics = 100*float64(list[i].healthy)/float64(list[i].all) < threshold
		}
	}
	// If all endpoints are unhealthy, priorities in panic mode share the load by number of endpoints;
	// without panic mode no endpoint is used.
	if total == 0 {
		n := 0
		for _, p := range list {
			n += p.all
		}
		for i, p := range list {
			if p.panics {
				shares[i] = 100 * float64(p.all) / float64(n)
			}
		}
	}
	return shares
}

// shareEndpoints returns all endpoints of priority level; their shares are fractions of 1 that add
// up to share percent. Localities divide it by their own weight and health (times over percent) if
// byLocality, otherwise by the sum of their endpoints' weights. Unhealthy endpoints get share 0
// except in panic mode.
func (p priority) shareEndpoints(level uint32, share float64, over uint32, byLocality bool) []Endpoint {
	weights := make([]float64, len(p.localities))
	total := 0.0
	for i, l := range p.localities {
		sum, sound, all := 0.0, 0, 0
		for _, e := range l.GetLbEndpoints() {
			all++
			if p.panics || isHealthy(e) {
				sum += endpointWeight(e)
				sound++
			}
		}
		weights[i] = sum
		if byLocality && all > 0 {
			available := min(1, float64(over)/100*float64(sound)/float64(all))
			weights[i] = available * float64(l.GetLoadBalancingWeight().GetValue())
		}
		total += weights[i]
	}
	var out []Endpoint
	for i, l := range p.localities {
		sum := 0.0
		for _, e := range l.GetLbEndpoints() {
			if p.panics || isHealthy(e) {
				sum += endpointWeight(e)
			}
		}
		for _, e := range l.GetLbEndpoints() {
			one := Endpoint{
				Address:  endpointAddress(e),
				Locality: localityText(l.GetLocality()),
				Priority: level,
				peer:     isPeer(e),
			}
			if sum > 0 && total > 0 && (p.panics || isHealthy(e)) {
				one.Share = share / 100 * weights[i] / total * endpointWeight(e) / sum
			}
			out = append(out, one)
		}
	}
	return out
}

// endpointWeight returns the weight of an endpoint, or 1 if it is not set.
func endpointWeight(e *endpointv3.LbEndpoint) float64 {
	if w := e.GetLoadBalancingWeight(); w != nil {
		return float64(w.GetValue())
	}
	return 1
}

// isHealthy reports whether an endpoint has the health status HEALTHY or UNKNOWN.
func isHealthy(e *endpointv3.LbEndpoint) bool {
	return e.GetHealthStatus() == corev3.HealthStatus_UNKNOWN || e.GetHealthStatus() == corev3.HealthStatus_HEALTHY
}
