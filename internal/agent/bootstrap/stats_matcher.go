package bootstrap

import (
	"errors"
	"fmt"
	"regexp"
	"slices"

	metricsv3 "github.com/envoyproxy/go-control-plane/envoy/config/metrics/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
)

// requiredStats begin the names of what readiness, operators, authors of Wasm plugins and this package's promises need.
func requiredStats() []string {
	return []string{"cluster_manager", "listener_manager", "server.", "control_plane.", "cluster." + xdsCluster, "istio_", "wasm"}
}

// policyStats end the names of how many calls policies let pass, and would, those with the annotation istio.io/dry-run: to see that
// is what it is for.
func policyStats() []string {
	return []string{"rbac.allowed", "rbac.denied", "shadow_allowed", "shadow_denied"}
}

const (
	// routeStats are of routes with a HTTPMatchRequest.statPrefix, which was set in order to have them.
	routeStats = `vhost\..*\.route\..*`
	// connectionStats are what draining down to zero connections counts.
	connectionStats = `listener\..*\.downstream_cx_active`
	// capturedStats are what a sidecar counts that ends after its application: connections that were caught on their way to it.
	capturedStats = "_15006.downstream_cx_active"
)

// statsMatcher keeps the statistics that are required, and those that ProxyConfig.proxyStatsMatcher or the annotations
// add. Envoy would keep a hundred for every cluster: half of its memory in a large mesh.
func statsMatcher(in Input) (*metricsv3.StatsMatcher, error) {
	chosen := in.Config.GetProxyStatsMatcher()
	prefixes := slices.Concat(requiredStats(), chosen.GetInclusionPrefixes(), listed(in, "statsInclusionPrefixes"))
	suffixes := slices.Concat([]string{capturedStats}, policyStats(), chosen.GetInclusionSuffixes(), listed(in, "statsInclusionSuffixes"))
	regexps := slices.Concat([]string{routeStats}, chosen.GetInclusionRegexps(), listed(in, "statsInclusionRegexps"))
	if in.CountConnections {
		regexps = append(regexps, connectionStats)
	}
	var patterns []*matcherv3.StringMatcher
	for _, p := range prefixes {
		patterns = append(patterns, &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Prefix{Prefix: p}})
	}
	for _, s := range suffixes {
		patterns = append(patterns, &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Suffix{Suffix: s}})
	}
	for _, r := range regexps {
		if _, err := regexp.Compile(r); err != nil { // Go's syntax is RE2's
			return nil, fmt.Errorf("statistics to include (ProxyConfig.proxyStatsMatcher or the annotations sidecar.istio.io/statsInclusion…): %w", err)
		}
		patterns = append(patterns, &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_SafeRegex{
			SafeRegex: &matcherv3.RegexMatcher{Regex: r},
		}})
	}
	if slices.Contains(prefixes, "") || slices.Contains(suffixes, "") || slices.Contains(regexps, "") {
		return nil, errors.New("statistics to include (ProxyConfig.proxyStatsMatcher): a prefix, suffix or regular expression is empty")
	}
	return &metricsv3.StatsMatcher{StatsMatcher: &metricsv3.StatsMatcher_InclusionList{
		InclusionList: &matcherv3.ListStringMatcher{Patterns: patterns},
	}}, nil
}
