package route

import (
	networking "istio.io/api/networking/v1alpha3"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/translate/policy"
)

// hasHashPolicy reports whether a rule, which may be nil, has a consistent hash for the host or any
// of its subsets or ports. Routes depend on no other setting of a DestinationRule.
func hasHashPolicy(r *snapshot.DestinationRule) bool {
	if r == nil {
		return false
	}
	if policyHasHash(r.Spec.GetTrafficPolicy()) {
		return true
	}
	for _, s := range r.Spec.GetSubsets() {
		if policyHasHash(s.GetTrafficPolicy()) {
			return true
		}
	}
	return false
}

// policyHasHash reports whether a policy, or one of its port level settings, has a consistent hash.
func policyHasHash(p *networking.TrafficPolicy) bool {
	if p.GetLoadBalancer().GetConsistentHash() != nil {
		return true
	}
	for _, s := range p.GetPortLevelSettings() {
		if s.GetLoadBalancer().GetConsistentHash() != nil {
			return true
		}
	}
	return false
}

// hashPolicy returns the hash policy of requests to the destination d, or nil if it has none.
func (t *translation) hashPolicy(d *networking.Destination) *routev3.RouteAction_HashPolicy {
	to := t.target(d)
	if to.rule == nil {
		return nil
	}
	return newHashPolicy(to.rule, d.GetSubset(), t.cluster(d).Port)
}

// newHashPolicy returns the hash policy of requests to the cluster of a subset and port, by the
// DestinationRule's settings for them. It returns nil if they have no hash key, or useSourceIp
// false. The mesh's defaults do not apply. rule must not be nil.
func newHashPolicy(rule *snapshot.DestinationRule, subset string, port uint32) *routev3.RouteAction_HashPolicy {
	hash := policy.Of(nil, rule.Spec, subset, port).GetLoadBalancer().GetConsistentHash()
	switch k := hash.GetHashKey().(type) {
	case *networking.LoadBalancerSettings_ConsistentHashLB_HttpHeaderName:
		return &routev3.RouteAction_HashPolicy{PolicySpecifier: &routev3.RouteAction_HashPolicy_Header_{
			Header: &routev3.RouteAction_HashPolicy_Header{HeaderName: k.HttpHeaderName},
		}}
	case *networking.LoadBalancerSettings_ConsistentHashLB_HttpCookie:
		return &routev3.RouteAction_HashPolicy{
			PolicySpecifier: &routev3.RouteAction_HashPolicy_Cookie_{Cookie: hashCookie(k.HttpCookie)},
		}
	case *networking.LoadBalancerSettings_ConsistentHashLB_UseSourceIp:
		if !k.UseSourceIp {
			return nil
		}
		return &routev3.RouteAction_HashPolicy{PolicySpecifier: &routev3.RouteAction_HashPolicy_ConnectionProperties_{
			ConnectionProperties: &routev3.RouteAction_HashPolicy_ConnectionProperties{SourceIp: true},
		}}
	case *networking.LoadBalancerSettings_ConsistentHashLB_HttpQueryParameterName:
		return &routev3.RouteAction_HashPolicy{PolicySpecifier: &routev3.RouteAction_HashPolicy_QueryParameter_{
			QueryParameter: &routev3.RouteAction_HashPolicy_QueryParameter{Name: k.HttpQueryParameterName},
		}}
	}
	return nil
}

// hashCookie translates a cookie to hash by. Only with a TTL, also 0, does Envoy generate a missing
// cookie.
func hashCookie(c *networking.LoadBalancerSettings_ConsistentHashLB_HTTPCookie) *routev3.RouteAction_HashPolicy_Cookie {
	out := &routev3.RouteAction_HashPolicy_Cookie{Name: c.GetName(), Path: c.GetPath()}
	if c.GetTtl() != nil {
		// With a TTL, Envoy generates a missing cookie.
		out.Ttl = durationpb.New(c.GetTtl().AsDuration())
	}
	for _, a := range c.GetAttributes() {
		out.Attributes = append(
			out.Attributes,
			&routev3.RouteAction_HashPolicy_CookieAttribute{Name: a.GetName(), Value: a.GetValue()},
		)
	}
	return out
}
