package config

import (
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
)

// checkLocalityLB adds Errors for an invalid distribution of traffic over localities
// ("region/zone/subzone"), an invalid failover, and failover beside distribute. failoverPriority
// beside distribute is a Warning. The check of failover (checkFailover) adds further ones, such as
// for failover unless outlier is set. lb may be nil.
func (r *report) checkLocalityLB(at path, lb *networking.LocalityLoadBalancerSetting, outlier bool) {
	if lb == nil {
		return
	}
	if len(lb.GetDistribute()) > 0 && len(lb.GetFailover()) > 0 {
		r.errorf(at.Child("failover"), "must not be set together with distribute")
	}
	if len(lb.GetDistribute()) > 0 && len(lb.GetFailoverPriority()) > 0 {
		r.warnf(at.Child("failoverPriority"), "is ignored when distribute is set")
	}
	var sources []string
	for i, distribute := range lb.GetDistribute() {
		here := at.Child("distribute").Index(i)
		sources = r.checkLocality(here.Child("from"), distribute.GetFrom(), sources)
		r.checkLocalityWeights(here.Child("to"), distribute.GetTo())
	}
	var failover []regionPair
	for _, f := range lb.GetFailover() {
		failover = append(failover, f)
	}
	r.checkFailover(at, failover, lb.GetFailoverPriority(), outlier)
}

// checkLocality adds an Error for an invalid locality, and another if a locality in seen covers it,
// or if it covers one without ending in "*": only wildcards may follow what they cover. It refuses
// an empty part, and a "*" that is not the last part; "" is valid. It returns seen with the
// locality appended in any case.
func (r *report) checkLocality(at path, locality string, seen []string) []string {
	parts := strings.Split(locality, "/")
	switch star := slices.Index(parts, "*"); {
	case slices.Contains(parts, "") && locality != "":
		r.errorf(at, "%q has an empty region, zone or subzone", locality)
	case star >= 0 && star != len(parts)-1:
		r.errorf(at, "%q: \"*\" is allowed only at the end", locality)
	}
	for _, before := range seen {
		if localityCovers(before, locality) || !slices.Contains(parts, "*") && localityCovers(locality, before) {
			r.errorf(at, "%q overlaps with %q before it", locality, before)
			break
		}
	}
	return append(seen, locality)
}

// localityCovers reports whether inner is equal to outer or below it. A "*" at the end of outer is
// ignored; alone it covers all.
func localityCovers(outer, inner string) bool {
	prefix := strings.TrimSuffix(strings.TrimSuffix(outer, "*"), "/")
	return prefix == "" && outer != "" || inner == prefix || strings.HasPrefix(inner, prefix+"/")
}

// checkLocalityWeights adds Errors for invalid or overlapping localities, weights outside of 1 to
// 100, and a sum of weights other than 100, as without any.
func (r *report) checkLocalityWeights(at path, to map[string]uint32) {
	var sum uint64
	var seen []string
	for _, locality := range sortedKeys(to) {
		seen = r.checkLocality(at.Key(locality), locality, seen)
		weight := to[locality]
		if weight < 1 || weight > 100 {
			r.errorf(at.Key(locality), "weight %d is not in the range 1..100", weight)
		}
		sum += uint64(weight)
	}
	if sum != 100 {
		r.errorf(at, "the weights add up to %d, they must add up to 100", sum)
	}
}

// regionPair is an entry of either kind of failover.
type regionPair interface {
	GetFrom() string
	GetTo() string
}

// checkFailover checks the fields that both kinds of locality settings share. It adds Errors for
// regions with a zone or wildcard, and for a failover to the same region. Failover (pairs or
// priority) without outlier detection, empty regions, and labels that no endpoint can have are
// Warnings. at is the path of the settings.
func (r *report) checkFailover(at path, pairs []regionPair, priority []string, outlier bool) {
	if (len(pairs) > 0 || len(priority) > 0) && !outlier {
		r.warnf(at, "there is no failover without outlierDetection: no endpoint becomes unhealthy")
	}
	for i, pair := range pairs {
		here := at.Child("failover").Index(i)
		for _, end := range []struct{ name, region string }{{"from", pair.GetFrom()}, {"to", pair.GetTo()}} {
			switch {
			case strings.Contains(end.region, "/"):
				r.errorf(here.Child(end.name), "%q must be a region, without zone", end.region)
			case strings.Contains(end.region, "*"):
				r.errorf(here.Child(end.name), "%q must not have a wildcard", end.region)
			case end.region == "":
				r.warnf(here.Child(end.name), "is empty, so the line has no effect")
			}
		}
		if pair.GetFrom() == pair.GetTo() {
			r.errorf(here.Child("to"), "must be another region than from")
		}
	}
	for i, label := range priority {
		key, value, _ := strings.Cut(label, "=")
		if fault := labelFault(key, value); fault != "" {
			r.warnf(at.Child("failoverPriority").Index(i), "no endpoint can match: %s", fault)
		}
	}
}

// checkZoneAwareLB adds Errors for invalid zone-aware settings, which may be nil: an invalid
// failover, topology labels in failoverPriority, or minClusterSize 0. The check of failover
// (checkFailover) also adds Warnings, such as for failover unless outlier is set.
func (r *report) checkZoneAwareLB(at path, lb *networking.ZoneAwareLoadBalancerSetting, outlier bool) {
	if lb == nil {
		return
	}
	var failover []regionPair
	for _, f := range lb.GetFailover() {
		failover = append(failover, f)
	}
	r.checkFailover(at, failover, lb.GetFailoverPriority(), outlier)
	for i, label := range lb.GetFailoverPriority() {
		key, _, _ := strings.Cut(label, "=")
		if slices.Contains(
			[]string{"topology.kubernetes.io/region", "topology.kubernetes.io/zone", "topology.istio.io/subzone"},
			key,
		) {
			r.errorf(at.Child("failoverPriority").Index(i),
				"%q must not be listed: zone-aware balancing sees to it", key)
		}
	}
	if size := lb.GetMinClusterSize(); size != nil && size.GetValue() < 1 {
		r.errorf(at.Child("minClusterSize"), "must be at least 1")
	}
}
