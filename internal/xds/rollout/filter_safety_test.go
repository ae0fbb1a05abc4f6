package rollout

import (
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// TestDroppable checks which EnvoyFilters, given as JSON patches, may be left out of a refused
// resource.
func TestDroppable(t *testing.T) {
	const (
		insert  = `"operation": "INSERT_BEFORE", "value": {"name": "a", "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.http.`
		manager = `{"applyTo": "NETWORK_FILTER", "patch": {"operation": "MERGE", "value": {"name": "a", "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager", `
	)
	filter := func(kind string) string { return `{"applyTo": "HTTP_FILTER", "patch": {` + insert + kind + `"}}}}` }
	merge := func(to, value string) string {
		return `{"applyTo": "` + to + `", "patch": {"operation": "MERGE", "value": ` + value + `}}`
	}
	for _, c := range []struct {
		name, patches, required string
		want                    bool
	}{
		{name: "compression", patches: filter("compressor.v3.Compressor"), want: true},
		{name: "statistics", patches: filter("grpc_stats.v3.FilterConfig"), want: true},
		{name: "external authorization", patches: filter("ext_authz.v3.ExtAuthz")},
		{name: "RBAC", patches: filter("rbac.v3.RBAC")},
		{name: "JWT", patches: filter("jwt_authn.v3.JwtAuthentication")},
		{name: "OAuth", patches: filter("oauth2.v3.OAuth2")},
		{name: "local rate limit", patches: filter("local_ratelimit.v3.LocalRateLimit")},
		{name: "rate limit", patches: filter("ratelimit.v3.RateLimit")},
		{name: "Lua", patches: filter("lua.v3.Lua")},
		{name: "Wasm", patches: filter("wasm.v3.Wasm")},
		{name: "external processing", patches: filter("ext_proc.v3.ExternalProcessor")},
		{name: "CSRF", patches: filter("csrf.v3.CsrfPolicy")},
		{name: "CORS", patches: filter("cors.v3.Cors")},
		{name: "IP tags", patches: filter("ip_tagging.v3.IPTagging")},
		{name: "buffer limit", patches: filter("buffer.v3.Buffer")},
		{name: "admission control", patches: filter("admission_control.v3.AdmissionControl")},
		{name: "faults may deny", patches: filter("fault.v3.HTTPFault")},
		{name: "unknown filter type", patches: filter("acme.v1.Filter")},
		{name: "TypedStruct with a known filter name", patches: `{"applyTo": "HTTP_FILTER", "patch": {"operation": "INSERT_BEFORE", "value": {"name": "envoy.filters.http.compressor", "typed_config": {"@type": "type.googleapis.com/xds.type.v3.TypedStruct", "type_url": "type.googleapis.com/envoy.extensions.filters.http.compressor.v3.Compressor"}}}}`},
		{name: "configuration by ECDS", patches: `{"applyTo": "HTTP_FILTER", "patch": {"operation": "INSERT_FIRST", "value": {"name": "a", "config_discovery": {}}}}`},
		{name: "a filter is removed", patches: `{"applyTo": "HTTP_FILTER", "patch": {"operation": "REMOVE"}}`},
		{name: "a filter is replaced", patches: `{"applyTo": "HTTP_FILTER", "patch": {"operation": "REPLACE", "value": {"name": "a", "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.http.compressor.v3.Compressor"}}}}`},
		{name: "empty merge", patches: merge("CLUSTER", `{}`)},
		{name: "load balancing of a cluster", patches: merge("CLUSTER", `{"lbPolicy": "MAGLEV", "connect_timeout": "3s"}`), want: true},
		{name: "TLS of a cluster", patches: merge("CLUSTER", `{"connect_timeout": "3s", "transportSocket": {}}`)},
		{name: "circuit breakers", patches: merge("CLUSTER", `{"circuit_breakers": {}}`)},
		{name: "a cluster is added", patches: `{"applyTo": "CLUSTER", "patch": {"operation": "ADD", "value": {"name": "a"}}}`},
		{name: "access log", patches: manager + `"access_log": []}}}}`, want: true},
		{name: "access log and request timeout", patches: manager + `"access_log": [], "request_timeout": "3s"}}}}`},
		{name: "trusted hops of the client address", patches: manager + `"xff_num_trusted_hops": 1}}}}`},
		{name: "HTTP filters of the connection manager", patches: manager + `"http_filters": []}}}}`},
		{name: "connection limit", patches: `{"applyTo": "NETWORK_FILTER", "patch": {"operation": "INSERT_FIRST", "value": {"name": "a", "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.network.connection_limit.v3.ConnectionLimit"}}}}`},
		{name: "log of a listener", patches: merge("LISTENER", `{"access_log": []}`), want: true},
		{name: "buffer of a listener", patches: merge("LISTENER", `{"per_connection_buffer_limit_bytes": 1}`)},
		{name: "filter chain", patches: merge("FILTER_CHAIN", `{"name": "a"}`)},
		{name: "listener filter", patches: `{"applyTo": "LISTENER_FILTER", "patch": {"operation": "INSERT_FIRST", "value": {"name": "a"}}}`},
		{name: "retries", patches: merge("VIRTUAL_HOST", `{"retry_policy": {}}`), want: true},
		{name: "settings of filters for a host", patches: merge("VIRTUAL_HOST", `{"typed_per_filter_config": {}}`)},
		{name: "request headers are removed", patches: merge("VIRTUAL_HOST", `{"request_headers_to_remove": ["a"]}`)},
		{name: "rate limits of a route", patches: merge("HTTP_ROUTE", `{"route": {"rate_limits": []}}`)},
		{name: "spans of a route", patches: merge("HTTP_ROUTE", `{"decorator": {}, "statPrefix": "a"}`), want: true},
		{name: "a route that denies", patches: `{"applyTo": "HTTP_ROUTE", "patch": {"operation": "INSERT_FIRST", "value": {"direct_response": {"status": 403}}}}`},
		{name: "an extension", patches: `{"applyTo": "EXTENSION_CONFIG", "patch": {"operation": "ADD", "value": {"name": "a", "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.http.compressor.v3.Compressor"}}}}`},
		{name: "one of two protects", patches: filter("compressor.v3.Compressor") + "," + filter("rbac.v3.RBAC")},
		{name: "two are harmless", patches: filter("compressor.v3.Compressor") + "," + merge("LISTENER", `{"access_log": []}`), want: true},
		{name: "required, though harmless", patches: filter("compressor.v3.Compressor"), required: "true"},
		{name: "not required, though it protects", patches: filter("rbac.v3.RBAC"), required: "false", want: true},
		{name: "required is unreadable", patches: filter("compressor.v3.Compressor"), required: "no"},
	} {
		t.Run(c.name, func(t *testing.T) {
			spec := new(networking.EnvoyFilter)
			if err := protojson.Unmarshal([]byte(`{"configPatches": [`+c.patches+`]}`), spec); err != nil {
				t.Fatal(err)
			}
			meta := config.Meta{Key: config.Key{Kind: api.EnvoyFilter, Namespace: "shop", Name: "a"}}
			if c.required != "" {
				meta.Annotations = map[string]string{config.RequiredAnnotation: c.required}
			}
			object, err := config.New(meta, spec)
			if err != nil {
				t.Fatal(err)
			}
			if got := isDroppable(object); got != c.want {
				t.Errorf("droppable = %v, want %v", got, c.want)
			}
		})
	}
}
