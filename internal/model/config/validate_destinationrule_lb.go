package config

import (
	"math/big"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/code"
)

const (
	// maxMaglevTable and maxRingSize are the limits of Envoy's load balancers
	// (MaglevLbConfig.table_size, RingHashLbConfig.minimum_ring_size).
	maxMaglevTable = 5000011
	maxRingSize    = 8 << 20
)

// checkLoadBalancer adds Errors and Warnings for load balancer settings, which may be nil.
// warmupDurationSecs beside warmup, and zoneAwareLbSetting beside localityLbSetting, are Errors.
// outlier is set if outlier detection is configured too. Failover without it is a Warning, because
// no endpoint is considered unhealthy.
func (r *report) checkLoadBalancer(at path, lb *networking.LoadBalancerSettings, outlier bool) {
	if lb == nil {
		return
	}
	if lb.GetConsistentHash() != nil {
		r.checkConsistentHash(at.Child("consistentHash"), lb.GetConsistentHash())
	}
	if seconds := lb.GetWarmupDurationSecs(); seconds != nil {
		r.checkDurationOrZero(at.Child("warmupDurationSecs"), seconds)
		if lb.GetWarmup() != nil {
			r.errorf(at.Child("warmupDurationSecs"), "must not be set together with warmup, which replaces it")
		}
	}
	r.checkWarmup(at.Child("warmup"), lb)
	r.checkLocalityLB(at.Child("localityLbSetting"), lb.GetLocalityLbSetting(), outlier)
	r.checkZoneAwareLB(at.Child("zoneAwareLbSetting"), lb.GetZoneAwareLbSetting(), outlier)
	if lb.GetLocalityLbSetting() != nil && lb.GetZoneAwareLbSetting() != nil {
		r.errorf(at.Child("zoneAwareLbSetting"), "must not be set together with localityLbSetting")
	}
}

// checkWarmup adds Errors for a warmup of lb without a duration or with an invalid duration,
// minimumPercent or aggression. It adds a Warning if the load balancer ignores it: consistentHash,
// RANDOM or PASSTHROUGH. It does nothing without a warmup.
func (r *report) checkWarmup(at path, lb *networking.LoadBalancerSettings) {
	warmup := lb.GetWarmup()
	if warmup == nil {
		return
	}
	if warmup.GetDuration() == nil {
		r.errorf(at.Child("duration"), "is required")
	}
	r.checkDuration(at.Child("duration"), warmup.GetDuration())
	if warmup.GetMinimumPercent() != nil {
		r.checkPercent(at.Child("minimumPercent"), warmup.GetMinimumPercent().GetValue())
	}
	if aggression := warmup.GetAggression(); aggression != nil && !(aggression.GetValue() > 0) {
		r.errorf(at.Child("aggression"), "%g must be greater than 0", aggression.GetValue())
	}
	switch simple := lb.GetSimple(); {
	case lb.GetConsistentHash() != nil,
		simple == networking.LoadBalancerSettings_RANDOM, simple == networking.LoadBalancerSettings_PASSTHROUGH:
		r.warnf(at, "has an effect with ROUND_ROBIN and LEAST_REQUEST only")
	}
}

// checkConsistentHash adds Errors for an invalid key, ring or table size, and for a deprecated ring
// size beside an algorithm. It adds Warnings for a missing key, for useSourceIp false, and for the
// deprecated ring size.
func (r *report) checkConsistentHash(at path, hash *networking.LoadBalancerSettings_ConsistentHashLB) {
	switch key := hash.GetHashKey().(type) {
	case *networking.LoadBalancerSettings_ConsistentHashLB_HttpHeaderName:
		r.addFault(at.Child("httpHeaderName"), HeaderNameFault(key.HttpHeaderName))
	case *networking.LoadBalancerSettings_ConsistentHashLB_HttpQueryParameterName:
		r.requireValue(at.Child("httpQueryParameterName"), key.HttpQueryParameterName)
	case *networking.LoadBalancerSettings_ConsistentHashLB_HttpCookie:
		cookie := at.Child("httpCookie")
		r.requireValue(cookie.Child("name"), key.HttpCookie.GetName())
		r.checkDurationOrZero(cookie.Child("ttl"), key.HttpCookie.GetTtl()) // 0s makes a session cookie
		seen := map[string]bool{}
		for i, attribute := range key.HttpCookie.GetAttributes() {
			here, name := cookie.Child("attributes").Index(i).Child("name"), attribute.GetName()
			r.requireValue(here, name)
			if name != "" && seen[name] {
				r.errorf(here, "attribute %q is there twice", name)
			}
			seen[name] = true
		}
	case *networking.LoadBalancerSettings_ConsistentHashLB_UseSourceIp:
		if !key.UseSourceIp {
			r.warnf(at.Child("useSourceIp"), "is false and no other key is set: requests are spread at random")
		}
	default:
		r.warnf(at, "has no key to hash: requests are spread at random")
	}
	//nolint:staticcheck // the deprecated field is still read
	ring := hash.GetMinimumRingSize()
	if ring != 0 {
		r.warnCode(code.Deprecated, at.Child("minimumRingSize"), "is deprecated, use ringHash.minimumRingSize")
		r.checkRingSize(at.Child("minimumRingSize"), ring)
	}
	switch algorithm := hash.GetHashAlgorithm().(type) {
	case *networking.LoadBalancerSettings_ConsistentHashLB_RingHash_:
		r.checkRingSize(at.Child("ringHash", "minimumRingSize"), algorithm.RingHash.GetMinimumRingSize())
	case *networking.LoadBalancerSettings_ConsistentHashLB_Maglev:
		r.checkMaglevTable(at.Child("maglev", "tableSize"), algorithm.Maglev.GetTableSize())
	}
	if ring != 0 && hash.GetHashAlgorithm() != nil {
		r.errorf(at.Child("minimumRingSize"), "must not be set together with ringHash or maglev")
	}
}

// checkRingSize adds an Error for a ring that is larger than Envoy's limit.
func (r *report) checkRingSize(at path, size uint64) {
	if size > maxRingSize {
		r.errorf(at, "%d is more than %d", size, maxRingSize)
	}
}

// checkMaglevTable adds an Error for a table that is larger than Envoy's limit or whose size is not
// prime. A table without a size (0) is refused too.
func (r *report) checkMaglevTable(at path, size uint64) {
	switch {
	case size > maxMaglevTable:
		r.errorf(at, "%d is more than %d", size, maxMaglevTable)
	case !new(big.Int).SetUint64(size).ProbablyPrime(0): // exact below 2^64
		r.errorf(at, "%d must be a prime number", size)
	}
}
