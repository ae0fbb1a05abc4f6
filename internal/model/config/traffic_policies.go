package config

import (
	"fmt"
	"iter"

	networking "istio.io/api/networking/v1alpha3"
)

// TrafficPolicies iterates over the traffic policies of a DestinationRule by the path of their
// field: the host's policy first, then one for each subset. A policy that is not set is nil; a nil
// rule has only the host's.
func TrafficPolicies(rule *networking.DestinationRule) iter.Seq2[string, *networking.TrafficPolicy] {
	return func(yield func(string, *networking.TrafficPolicy) bool) {
		if !yield("spec.trafficPolicy", rule.GetTrafficPolicy()) {
			return
		}
		for i, s := range rule.GetSubsets() {
			if !yield(fmt.Sprintf("spec.subsets[%d].trafficPolicy", i), s.GetTrafficPolicy()) {
				return
			}
		}
	}
}
