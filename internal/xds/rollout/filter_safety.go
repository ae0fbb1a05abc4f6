package rollout

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/types/known/structpb"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/config"
)

// An EnvoyFilter may be left out of a refused resource only if it protects nothing. Lists of
// harmless filters and fields decide that. Everything else may be a protection: filters of
// authentication, authorization and rate limits, user code, TLS, limits of sizes, times and
// connections, trusted headers, routes that deny, removals and replacements. An added cluster is
// not harmless either: a filter that calls it may let requests pass if it is missing.

// isDroppable reports whether an EnvoyFilter may be left out of resources that proxies refuse. If
// it has RequiredAnnotation, only the value "false" permits that. Without the annotation, every
// patch must be harmless (isHarmless).
func isDroppable(c *config.Config) bool {
	if required, stated := c.Annotations[config.RequiredAnnotation]; stated {
		return required == "false"
	}
	patches := config.Spec[*networking.EnvoyFilter](c).GetConfigPatches()
	return !slices.ContainsFunc(patches, func(p *networking.EnvoyFilter_EnvoyConfigObjectPatch) bool {
		return !isHarmless(p)
	})
}

// isHarmless reports whether leaving out a patch weakens no protection. It is true only for a merge
// of harmless fields (harmlessMerge), and for an added HTTP filter that harmlessFilter accepts.
// Every other operation is not harmless.
func isHarmless(p *networking.EnvoyFilter_EnvoyConfigObjectPatch) bool {
	value := p.GetPatch().GetValue()
	switch p.GetPatch().GetOperation() {
	case networking.EnvoyFilter_Patch_MERGE:
		return harmlessMerge(p.GetApplyTo(), value)
	case networking.EnvoyFilter_Patch_ADD, networking.EnvoyFilter_Patch_INSERT_FIRST,
		networking.EnvoyFilter_Patch_INSERT_BEFORE, networking.EnvoyFilter_Patch_INSERT_AFTER:
		return p.GetApplyTo() == networking.EnvoyFilter_HTTP_FILTER && harmlessFilter(value)
	default:
		return false
	}
}

// harmlessFilter reports whether an HttpFilter protects nothing: it has only harmlessFilterFields,
// and the type of its typed_config is in harmlessFilters.
func harmlessFilter(value *structpb.Struct) bool {
	if !onlyFields(value, harmlessFilterFields()) {
		return false
	}
	return slices.Contains(harmlessFilters(), typeOf(value.GetFields()["typed_config"].GetStructValue()))
}

// harmlessMerge reports whether every merged field is in the list of harmless fields of its
// ApplyTo. For network filters the list depends on the type of typed_config, beside which only name
// is allowed. For HTTP filters harmlessFilter decides. It returns false for an unknown type or
// ApplyTo, and for a value without fields.
func harmlessMerge(to networking.EnvoyFilter_ApplyTo, value *structpb.Struct) bool {
	switch to {
	case networking.EnvoyFilter_CLUSTER:
		return onlyFields(value, harmlessClusterFields())
	case networking.EnvoyFilter_LISTENER:
		return onlyFields(value, harmlessListenerFields())
	case networking.EnvoyFilter_NETWORK_FILTER:
		inner := value.GetFields()["typed_config"].GetStructValue()
		fields, known := harmlessNetworkFilterFields()[typeOf(inner)]
		return known && onlyFields(value, []string{"name", "typed_config"}) && onlyFields(inner, fields)
	case networking.EnvoyFilter_HTTP_FILTER:
		return harmlessFilter(value)
	case networking.EnvoyFilter_VIRTUAL_HOST:
		return onlyFields(value, harmlessVirtualHostFields())
	case networking.EnvoyFilter_HTTP_ROUTE:
		return onlyFields(value, harmlessRouteFields())
	default:
		return false
	}
}

// onlyFields reports whether a value has at least one field and all of its fields are in allowed,
// which has protobuf names. The value may use either form of JSON names.
func onlyFields(value *structpb.Struct, allowed []string) bool {
	for name := range value.GetFields() {
		if !slices.Contains(allowed, snakeCase(name)) {
			return false
		}
	}
	return len(value.GetFields()) > 0
}

// snakeCase returns the protobuf name of a field from its JSON name: "statPrefix" is "stat_prefix".
// A name without capitals is returned unchanged.
func snakeCase(name string) string {
	var b strings.Builder
	for _, r := range name {
		if r >= 'A' && r <= 'Z' {
			b.WriteByte('_')
			r += 'a' - 'A'
		}
		b.WriteRune(r)
	}
	return b.String()
}

// typeOf returns the full name of the message type of a typed_config, or "" if it has none.
// Wrappers such as TypedStruct are not resolved: the result is the wrapper's type.
func typeOf(typed *structpb.Struct) string {
	url := typed.GetFields()["@type"].GetStringValue()
	return url[strings.LastIndexByte(url, '/')+1:]
}

// harmlessFilterFields returns the harmless fields of an HttpFilter. "config_discovery" is not
// harmless, because its content is not known.
func harmlessFilterFields() []string {
	return []string{"name", "typed_config", "is_optional", "disabled"}
}

// harmlessFilters returns the types of HTTP filters that only encode responses or observe. Filters
// that decode requests are excluded, because later filters may inspect the decoded request. Faults
// are excluded, because they may be used to deny requests.
func harmlessFilters() []string {
	return []string{
		"envoy.extensions.filters.http.alternate_protocols_cache.v3.FilterConfig",
		"envoy.extensions.filters.http.compressor.v3.Compressor",
		"envoy.extensions.filters.http.grpc_stats.v3.FilterConfig",
		"envoy.extensions.filters.http.on_demand.v3.OnDemand",
		"envoy.extensions.filters.http.tap.v3.Tap",
	}
}

// harmlessClusterFields returns the fields of a cluster for load balancing, health checks, DNS
// refresh, connect timeouts and statistics. Fields that select endpoints, configure TLS or
// protocols, or break circuits are excluded.
func harmlessClusterFields() []string {
	return []string{
		"alt_stat_name",
		"common_lb_config",
		"connect_timeout",
		"dns_failure_refresh_rate",
		"dns_jitter",
		"dns_lookup_family",
		"dns_refresh_rate",
		"health_checks",
		"ignore_health_on_host_removal",
		"lb_policy",
		"least_request_lb_config",
		"maglev_lb_config",
		"outlier_detection",
		"preconnect_policy",
		"respect_dns_ttl",
		"ring_hash_lb_config",
		"round_robin_lb_config",
		"track_cluster_stats",
		"track_timeout_budgets",
		"upstream_connection_options",
		"wait_for_warm_on_init",
	}
}

// harmlessListenerFields returns the fields of a listener for access logs, statistics and sockets.
func harmlessListenerFields() []string {
	return []string{"access_log", "enable_reuse_port", "stat_prefix", "tcp_backlog_size", "tcp_fast_open_queue_length"}
}

// harmlessNetworkFilterFields returns, by type, the fields of network filters for logs, statistics
// and traces. Timeouts are excluded, because they are limits.
func harmlessNetworkFilterFields() map[string][]string {
	return map[string][]string{
		"envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager": {
			"@type", "access_log", "access_log_options", "always_set_request_id_in_response", "generate_request_id",
			"proxy_100_continue", "request_id_extension", "stat_prefix", "tracing", "via",
		},
		"envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy": {
			"@type", "access_log", "access_log_options", "stat_prefix",
		},
	}
}

// harmlessVirtualHostFields returns the fields of a virtual host for retries, hedging, headers with
// the attempt count, and statistics.
func harmlessVirtualHostFields() []string {
	return []string{
		"hedge_policy", "include_attempt_count_in_response", "include_request_attempt_count", "retry_policy",
		"retry_policy_typed_config", "virtual_clusters",
	}
}

// harmlessRouteFields returns the fields of a route for names, statistics and traces.
func harmlessRouteFields() []string { return []string{"decorator", "name", "stat_prefix", "tracing"} }
