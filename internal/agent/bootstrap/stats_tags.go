package bootstrap

import (
	"fmt"
	"slices"
	"strings"

	metricsv3 "github.com/envoyproxy/go-control-plane/envoy/config/metrics/v3"
)

// tagRule extracts a label from statistics names: the first group of the regular expression (RE2)
// is removed from the name, the second is the label's value.
type tagRule struct{ label, regex string }

// managerName matches the stat_prefix of an HTTP connection manager: "outbound_0.0.0.0_9080;",
// where the semicolon ends a name with dots, or a name without dots.
const managerName = `(((?:in|out)bound_[0-9A-Fa-f_.:\[\]]+_\d+|[^.;]+);?\.)`

// tagRules returns the rules for the labels of Istio's dashboards. Envoy's default rules cannot be
// used: they end a cluster name at its first dot, and service names contain dots. These rules
// therefore list what may follow the cluster name.
//
// No statistics name may match two rules of the same label: Envoy would emit the label twice.
func tagRules() []tagRule {
	return []tagRule{
		{"cluster_name", `^cluster\.(([^;]+);\.)`}, // Istio's control plane ends alt_stat_name by a semicolon
		{"cluster_name", `^cluster\.(([^;]+?)\.)(?:` + strings.Join(clusterStats(), "|") + `)$`},
		// Does not match RBAC: "tcp.rbac.allowed", "tcp.rbac.istio_dry_run_deny_.shadow_allowed".
		{"tcp_prefix", `^tcp\.((.*?[^_.;]);?\.)\w+_\w+$`},
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

// clusterStats returns patterns of the text after a cluster name: a word, or one of Envoy's groups
// and a word. The groups are listed as narrowly as possible, because a namespace or domain may also
// be called "default", "ssl" or "internal".
func clusterStats() []string {
	return []string{
		`\w+`,
		`(?:canary|external|internal)\.upstream_rq_\w+`,
		`(?:client_ssl_socket_factory|ext_authz|health_check|http[123]|maglev_lb|outlier_detection|` +
			`ratelimit|ring_hash_lb|ssl)\.\w+`,
		`circuit_breakers\.(?:default|high)\.\w+`,
		`default\.total_match_count`,
		`grpc\..+\.(?:\d+|success|failure|total|request_message_count|response_message_count)`,
		`ssl\.(?:certificate|ciphers|curves|sigalgs|versions)\..+`,
		`zone\.[^.]+\.[^.]+\.\w+`,
	}
}

// statsTags returns the rules of tagRules and a rule for each valid label that the user adds,
// unless tagRules has it. Invalid labels are warnings.
func statsTags(in Input) (tags []*metricsv3.TagSpecifier, warnings []error) {
	rules := tagRules()
	extra, warnings := extraTags(in)
	for _, label := range extra {
		if slices.ContainsFunc(rules, func(r tagRule) bool { return r.label == label }) {
			continue
		}
		// Statistics of extensions contain labels as "name=.=value;.;".
		rules = append(rules, tagRule{label, `(` + label + `=\.=(.*?);\.;)`})
	}
	tags = make([]*metricsv3.TagSpecifier, len(rules))
	for i, r := range rules {
		tags[i] = &metricsv3.TagSpecifier{TagName: r.label, TagValue: &metricsv3.TagSpecifier_Regex{Regex: r.regex}}
	}
	return tags, warnings
}

// extraTags returns the labels of ProxyConfig.extraStatTags and the annotation
// sidecar.istio.io/extraStatTags, sorted and without duplicates. Labels with an invalid name are
// left out, with a warning.
func extraTags(in Input) (labels []string, warnings []error) {
	list := slices.Concat(in.Config.GetExtraStatTags(), annotationList(in, "extraStatTags"))
	slices.Sort(list)
	for _, label := range slices.Compact(list) {
		if isLabelName(label) {
			labels = append(labels, label)
			continue
		}
		warnings = append(warnings, fmt.Errorf(
			"proxy configuration field %q or annotation sidecar.istio.io/extraStatTags: invalid label name %q",
			"extraStatTags", label))
	}
	return labels, warnings
}

// isLabelName reports whether text is a valid label name of Prometheus: ASCII letters, digits and
// underscores, not empty and without a leading digit.
func isLabelName(text string) bool {
	for i, c := range text {
		if c != '_' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return text != ""
}
