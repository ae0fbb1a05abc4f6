package bootstrap

import (
	"fmt"
	"slices"
	"strings"

	metricsv3 "github.com/envoyproxy/go-control-plane/envoy/config/metrics/v3"
)

// tagRule cuts a label out of the names of statistics: the first group of the regular expression (RE2) leaves the name,
// the second is the label's value.
type tagRule struct{ label, regex string }

// managerName is the stat_prefix of an HTTP connection manager: "outbound_0.0.0.0_9080;", whose semicolon ends a name
// that has dots, or one without dots.
const managerName = `(((?:in|out)bound_[0-9A-Fa-f_.:\[\]]+_\d+|[^.;]+);?\.)`

// tagRules are the labels that Istio's dashboards know. Envoy's own rules are no use: they end a cluster's name at its
// first dot, and names of services are full of dots. So the rules here know what may follow.
//
// Where two rules have one label, no name may match both: Envoy would write the label twice.
func tagRules() []tagRule {
	return []tagRule{
		{"cluster_name", `^cluster\.(([^;]+);\.)`}, // Istio's control plane ends alt_stat_name so
		{"cluster_name", `^cluster\.(([^;]+?)\.)(?:` + strings.Join(clusterStats(), "|") + `)$`},
		{"tcp_prefix", `^tcp\.((.*?[^_.;]);?\.)\w+_\w+$`}, // and not of RBAC: "tcp.rbac.allowed", "tcp.rbac.istio_dry_run_deny_.shadow_allowed"
		{"authz_enforce_result", `\.rbac(\.(allowed|denied))$`},
		{"authz_dry_run_action", `\.rbac(\.istio_dry_run_(allow|deny)_)\.shadow_\w+$`},
		{"authz_dry_run_result", `\.rbac\.istio_dry_run_\w+(\.shadow_(allowed|denied))$`},
		{"response_code", `_rq(_(\d{3}))$`},
		{"response_code_class", `_rq(_(\dxx))$`},
		{"http_conn_manager_listener_prefix", `^listener\..+?\.http\.` + managerName},
		{"http_conn_manager_prefix", `^http\.` + managerName},
		{"listener_address", `^listener\.(([0-9A-Fa-f_.:\[\]]+_\d+)\.)`},
		{"mongo_prefix", `^mongo\.((.+?)\.)(?:callsite|cmd|collection|cx_|decoding_|delays_|op_)`},
	}
}

// clusterStats is what follows a cluster's name: a word, or a group that Envoy has and a word. The groups are spelled
// out, and as narrowly as can be, because a namespace or a domain can be called "default", "ssl" or "internal" too.
func clusterStats() []string {
	return []string{
		`\w+`,
		`(?:canary|external|internal)\.upstream_rq_\w+`,
		`(?:client_ssl_socket_factory|ext_authz|health_check|http[123]|maglev_lb|outlier_detection|ratelimit|ring_hash_lb|ssl)\.\w+`,
		`circuit_breakers\.(?:default|high)\.\w+`,
		`default\.total_match_count`,
		`grpc\..+\.(?:\d+|success|failure|total|request_message_count|response_message_count)`,
		`ssl\.(?:certificate|ciphers|curves|sigalgs|versions)\..+`,
		`zone\.[^.]+\.[^.]+\.\w+`,
	}
}

// statsTags are the rules of tagRules and those for the labels that the user adds.
func statsTags(in Input) ([]*metricsv3.TagSpecifier, error) {
	rules := tagRules()
	extra, err := extraTags(in)
	if err != nil {
		return nil, err
	}
	for _, label := range extra {
		if slices.ContainsFunc(rules, func(r tagRule) bool { return r.label == label }) {
			continue
		}
		// Statistics of extensions hold such labels as "name=.=value;.;".
		rules = append(rules, tagRule{label, `(` + label + `=\.=(.*?);\.;)`})
	}
	tags := make([]*metricsv3.TagSpecifier, len(rules))
	for i, r := range rules {
		tags[i] = &metricsv3.TagSpecifier{TagName: r.label, TagValue: &metricsv3.TagSpecifier_Regex{Regex: r.regex}}
	}
	return tags, nil
}

// extraTags are ProxyConfig.extraStatTags and the annotation sidecar.istio.io/extraStatTags, sorted.
func extraTags(in Input) ([]string, error) {
	list := slices.Concat(in.Config.GetExtraStatTags(), listed(in, "extraStatTags"))
	slices.Sort(list)
	for _, label := range list {
		if !isLabel(label) {
			return nil, fmt.Errorf("proxy configuration field %q or annotation sidecar.istio.io/extraStatTags: %q is not a label", "extraStatTags", label)
		}
	}
	return slices.Compact(list), nil
}

// isLabel says whether Prometheus takes the text for a label's name.
func isLabel(text string) bool {
	for i, c := range text {
		if c != '_' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return text != ""
}
