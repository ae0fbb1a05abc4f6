package bootstrap

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	metricsv3 "github.com/envoyproxy/go-control-plane/envoy/config/metrics/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
)

// requiredStats returns prefixes of the statistics that readiness, operators, Wasm plugins and the
// agent require.
func requiredStats() []string {
	return []string{
		"cluster_manager", "listener_manager", "server.", "control_plane.", "cluster." + xdsCluster, "istio_", "wasm",
	}
}

// policyStats returns suffixes of the statistics of requests allowed and denied by policies,
// including dry-run policies (istio.io/dry-run), whose only effect they are.
func policyStats() []string {
	return []string{"rbac.allowed", "rbac.denied", "shadow_allowed", "shadow_denied"}
}

const (
	// routeStats matches the statistics of routes with HTTPMatchRequest.statPrefix, a field whose
	// only purpose they are.
	routeStats = `vhost\..*\.route\..*`
	// connectionStats matches the statistics that draining to zero connections requires.
	connectionStats = `listener\..*\.downstream_cx_active`
	// capturedStats is the suffix of the connection count that a sidecar reads to exit after its
	// application: inbound connections.
	capturedStats = "_15006.downstream_cx_active"
)

// replacePodIP returns the patterns of all lists, each pattern with {pod_ip} once for each address
// of the proxy. Such a pattern is left out if the proxy has no address.
func (in Input) replacePodIP(lists ...[]string) []string {
	const variable = "{pod_ip}"
	var out []string
	for _, pattern := range slices.Concat(lists...) {
		if !strings.Contains(pattern, variable) {
			out = append(out, pattern)
			continue
		}
		for _, address := range in.Node.Addresses {
			out = append(out, strings.ReplaceAll(pattern, variable, address.String()))
		}
	}
	return out
}

// statsMatcher returns the matcher of the statistics that Envoy keeps: required ones, ones that
// ProxyConfig.proxyStatsMatcher or annotations select, and connectionStats if CountConnections is
// set. {pod_ip} is replaced by each address of the proxy. An empty prefix, suffix or regular
// expression, and an expression that is invalid, are left out, with a warning.
func statsMatcher(in Input) (matcher *metricsv3.StatsMatcher, warnings []error) {
	chosen := in.Config.GetProxyStatsMatcher()
	prefixes := in.replacePodIP(
		requiredStats(), chosen.GetInclusionPrefixes(), annotationList(in, "statsInclusionPrefixes"))
	suffixes := in.replacePodIP(
		[]string{capturedStats}, policyStats(),
		chosen.GetInclusionSuffixes(), annotationList(in, "statsInclusionSuffixes"),
	)
	regexps := in.replacePodIP(
		[]string{routeStats}, chosen.GetInclusionRegexps(), annotationList(in, "statsInclusionRegexps"))
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
			warnings = append(warnings, fmt.Errorf("statistics to include (ProxyConfig.proxyStatsMatcher or the "+
				"annotations sidecar.istio.io/statsInclusion…): %w", err))
			continue
		}
		patterns = append(patterns, &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_SafeRegex{
			SafeRegex: &matcherv3.RegexMatcher{Regex: r},
		}})
	}
	isEmpty := func(m *matcherv3.StringMatcher) bool {
		return m.GetPrefix() == "" && m.GetSuffix() == "" && m.GetSafeRegex().GetRegex() == ""
	}
	if slices.ContainsFunc(patterns, isEmpty) {
		patterns = slices.DeleteFunc(patterns, isEmpty)
		warnings = append(warnings, errors.New("statistics to include (ProxyConfig.proxyStatsMatcher): "+
			"a prefix, suffix or regular expression is empty"))
	}
	return &metricsv3.StatsMatcher{StatsMatcher: &metricsv3.StatsMatcher_InclusionList{
		InclusionList: &matcherv3.ListStringMatcher{Patterns: patterns},
	}}, warnings
}
