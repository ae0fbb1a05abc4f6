package cluster

import (
	networking "istio.io/api/networking/v1alpha3"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/translate/policy"
)

// applyLoadBalancer sets how Envoy chooses among endpoints: by consistentHash if set
// (applyConsistentHash), otherwise by simple. RANDOM and ROUND_ROBIN are used as such; all other
// values, also of a nil lb, are LEAST_REQUEST. Slow start (slowStart) applies to round robin and
// least request. Hash policies are part of routes.
func applyLoadBalancer(c *clusterv3.Cluster, lb *networking.LoadBalancerSettings) {
	if hash := lb.GetConsistentHash(); hash != nil {
		applyConsistentHash(c, hash)
		return
	}
	slow := slowStart(lb)
	switch lb.GetSimple() {
	case networking.LoadBalancerSettings_RANDOM:
		c.LbPolicy = clusterv3.Cluster_RANDOM
	case networking.LoadBalancerSettings_ROUND_ROBIN:
		c.LbPolicy = clusterv3.Cluster_ROUND_ROBIN
		if slow != nil {
			c.LbConfig = &clusterv3.Cluster_RoundRobinLbConfig_{
				RoundRobinLbConfig: &clusterv3.Cluster_RoundRobinLbConfig{SlowStartConfig: slow},
			}
		}
	default:
		c.LbPolicy = clusterv3.Cluster_LEAST_REQUEST
		if slow != nil {
			c.LbConfig = &clusterv3.Cluster_LeastRequestLbConfig_{
				LeastRequestLbConfig: &clusterv3.Cluster_LeastRequestLbConfig{SlowStartConfig: slow},
			}
		}
	}
}

// applyRedis sets MAGLEV for a Redis port, so that commands with the same key reach the same
// endpoint. It does nothing for other protocols.
func applyRedis(c *clusterv3.Cluster, port mesh.Port) {
	if port.Protocol == mesh.Redis {
		c.LbPolicy, c.LbConfig = clusterv3.Cluster_MAGLEV, nil
	}
}

// Envoy's maximum size of a hash ring, above which it refuses the cluster, and its default of the
// minimum size.
const (
	maxRingSize     = 8 << 20
	defaultRingSize = 1024
)

// applyConsistentHash sets MAGLEV if it is configured, otherwise RING_HASH. The minimum ring size
// is defaultRingSize if unset, and at most maxRingSize. The MAGLEV table has Envoy's default size
// unless one is set.
func applyConsistentHash(c *clusterv3.Cluster, hash *networking.LoadBalancerSettings_ConsistentHashLB) {
	if m := hash.GetMaglev(); m != nil {
		c.LbPolicy = clusterv3.Cluster_MAGLEV
		if m.GetTableSize() != 0 {
			c.LbConfig = &clusterv3.Cluster_MaglevLbConfig_{
				MaglevLbConfig: &clusterv3.Cluster_MaglevLbConfig{TableSize: wrapperspb.UInt64(m.GetTableSize())},
			}
		}
		return
	}
	size := hash.GetMinimumRingSize() //nolint:staticcheck // the older field is still what users write
	if r := hash.GetRingHash(); r != nil {
		size = r.GetMinimumRingSize()
	}
	if size == 0 {
		size = defaultRingSize
	}
	c.LbPolicy = clusterv3.Cluster_RING_HASH
	c.LbConfig = &clusterv3.Cluster_RingHashLbConfig_{RingHashLbConfig: &clusterv3.Cluster_RingHashLbConfig{
		MinimumRingSize: wrapperspb.UInt64(min(size, maxRingSize)),
	}}
}

// slowStart returns how new endpoints receive gradually increasing load. warmup overrides the older
// warmupDurationSecs; its defaults are aggression 1 and a minimum of 10 percent. It returns nil
// without warmup and a positive warmupDurationSecs.
func slowStart(lb *networking.LoadBalancerSettings) *clusterv3.Cluster_SlowStartConfig {
	w := lb.GetWarmup()
	if w == nil {
		if window := positiveOrNil(lb.GetWarmupDurationSecs()); window != nil {
			return &clusterv3.Cluster_SlowStartConfig{SlowStartWindow: window}
		}
		return nil
	}
	aggression, least := 1.0, 10.0
	if w.Aggression != nil {
		aggression = w.Aggression.GetValue()
	}
	if w.MinimumPercent != nil {
		least = w.MinimumPercent.GetValue()
	}
	return &clusterv3.Cluster_SlowStartConfig{
		SlowStartWindow: positiveOrNil(w.Duration),
		// Envoy requires a runtime key, which is never set.
		Aggression:       &corev3.RuntimeDouble{DefaultValue: aggression, RuntimeKey: "meshpilot.warmup.aggression"},
		MinWeightPercent: &typev3.Percent{Value: least},
	}
}

// applyLocality sets in c.CommonLbConfig, which must not be nil, how Envoy chooses among
// localities: by weights of the endpoints, else by zone-aware routing. The latter takes effect in
// proxies whose bootstrap declares mesh.LocalCluster; others use all zones of the region equally.
// If l has neither, it sets weights if weights (Features.LocalityWeights) is set and l has a
// Setting; otherwise it does nothing.
func applyLocality(c *clusterv3.Cluster, l policy.Locality, weights bool) {
	if l.Zones != nil {
		zones := new(clusterv3.Cluster_CommonLbConfig_ZoneAwareLbConfig)
		if n := l.Zones.GetMinClusterSize(); n != nil {
			zones.MinClusterSize = wrapperspb.UInt64(uint64(n.GetValue()))
		}
		if l.Zones.GetEnabled() != nil && !l.Zones.GetEnabled().GetValue() {
			zones.RoutingEnabled = &typev3.Percent{Value: 0}
		}
		c.CommonLbConfig.LocalityConfigSpecifier = &clusterv3.Cluster_CommonLbConfig_ZoneAwareLbConfig_{
			ZoneAwareLbConfig: zones,
		}
	}
	if l.Weighted() || weights && l.Setting != nil && l.Zones == nil {
		c.CommonLbConfig.LocalityConfigSpecifier = &clusterv3.Cluster_CommonLbConfig_LocalityWeightedLbConfig_{
			LocalityWeightedLbConfig: &clusterv3.Cluster_CommonLbConfig_LocalityWeightedLbConfig{},
		}
	}
}
