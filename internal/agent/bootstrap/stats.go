package bootstrap

import (
	"fmt"
	"slices"
	"strings"

	metricsv3 "github.com/envoyproxy/go-control-plane/envoy/config/metrics/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// statsConfig says which statistics Envoy keeps, and which parts of their names become labels.
func statsConfig(in Input) (*metricsv3.StatsConfig, error) {
	matcher, err := statsMatcher(in)
	if err != nil {
		return nil, err
	}
	buckets, err := histogramBuckets(in)
	if err != nil {
		return nil, err
	}
	return &metricsv3.StatsConfig{
		StatsTags:               statsTags(in),
		UseAllDefaultTags:       wrapperspb.Bool(false),
		StatsMatcher:            matcher,
		HistogramBucketSettings: buckets,
	}, nil
}

// statsTags cuts labels out of names. Envoy's own rules take a cluster's name to end at its first dot; names of
// services are full of dots, so each rule here knows what may follow the name. The first group is cut out of the
// name, the second is the label's value.
func statsTags(in Input) []*metricsv3.TagSpecifier {
	const afterCluster = `(?:assignment_|bind_|circuit_breakers\.|client_ssl|default\.|external\.|health_check\.|http1\.|http2\.|http3\.|` +
		`init_|internal\.|lb_|max_host_weight|membership_|metadata_|original_dst_|outlier_detection\.|retry_or_shadow|ssl\.|tcp\.|` +
		`tls_|update_|upstream_|version|warming_|zone\.)`
	rules := [...]struct{ label, regex string }{
		{"cluster_name", `^cluster\.((.+?)\.)` + afterCluster},
		{"tcp_prefix", `^tcp\.((.+?)\.)(?:downstream_|early_|idle_|max_|on_demand_|upstream_)`},
		{"response_code", `_rq(_(\d{3}))$`},
		{"response_code_class", `_rq(_(\dxx))$`},
		{"http_conn_manager_listener_prefix", `^listener\..+?\.http\.(((?:(?:out|in)bound_[^;]+)|[^.;]+);?\.)`},
		{"http_conn_manager_prefix", `^http\.(((?:(?:out|in)bound_[^;]+)|[^.;]+);?\.)`},
		{"listener_address", `^listener\.(([_.:0-9A-Fa-f\[\]]+_\d+)\.)`},
		{"mongo_prefix", `^mongo\.((.+?)\.)(?:callsite|cmd|collection|cx_|decoding_|delays_|op_)`},
	}
	tags := make([]*metricsv3.TagSpecifier, 0, len(rules)+len(in.Config.GetExtraStatTags()))
	for _, r := range rules {
		tags = append(tags, tag(r.label, r.regex))
	}
	// Statistics of extensions hold such labels as "name=.=value;.;".
	for _, label := range extraTags(in) {
		tags = append(tags, tag(label, `(`+label+`=\.=(.*?);\.;)`))
	}
	return tags
}

func tag(label, regex string) *metricsv3.TagSpecifier {
	return &metricsv3.TagSpecifier{TagName: label, TagValue: &metricsv3.TagSpecifier_Regex{Regex: regex}}
}

// extraTags are ProxyConfig.extraStatTags and the annotation sidecar.istio.io/extraStatTags, sorted.
func extraTags(in Input) []string {
	list := slices.Concat(in.Config.GetExtraStatTags(), listed(in, "extraStatTags"))
	slices.Sort(list)
	return slices.Compact(list)
}

// listed reads a comma-separated annotation of sidecar.istio.io.
func listed(in Input, name string) []string {
	var list []string
	for part := range strings.SplitSeq(in.Node.Metadata.Annotations["sidecar.istio.io/"+name], ",") {
		if part = strings.TrimSpace(part); part != "" {
			list = append(list, part)
		}
	}
	return list
}

// statsMatcher keeps the statistics that readiness and operators need, and those that ProxyConfig.proxyStatsMatcher or
// the annotations add. Envoy would keep a hundred for every cluster: half of its memory in a large mesh.
func statsMatcher(in Input) (*metricsv3.StatsMatcher, error) {
	chosen := in.Config.GetProxyStatsMatcher()
	prefixes := slices.Concat([]string{
		"cluster_manager", "listener_manager", "server.", "control_plane.", "cluster." + xdsCluster,
	}, chosen.GetInclusionPrefixes(), listed(in, "statsInclusionPrefixes"))
	suffixes := slices.Concat(chosen.GetInclusionSuffixes(), listed(in, "statsInclusionSuffixes"))
	regexps := slices.Concat(chosen.GetInclusionRegexps(), listed(in, "statsInclusionRegexps"))
	if in.CountConnections {
		regexps = append(regexps, `listener\..*\.downstream_cx_active`)
	}
	var patterns []*matcherv3.StringMatcher
	for _, p := range prefixes {
		patterns = append(patterns, &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Prefix{Prefix: p}})
	}
	for _, s := range suffixes {
		patterns = append(patterns, &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Suffix{Suffix: s}})
	}
	for _, r := range regexps {
		if err := re2(r); err != nil {
			return nil, fmt.Errorf("statistics to include: regular expression %q: %w", r, err)
		}
		patterns = append(patterns, &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_SafeRegex{
			SafeRegex: &matcherv3.RegexMatcher{Regex: r},
		}})
	}
	return &metricsv3.StatsMatcher{StatsMatcher: &metricsv3.StatsMatcher_InclusionList{
		InclusionList: &matcherv3.ListStringMatcher{Patterns: patterns},
	}}, nil
}
