package telemetry

import (
	"fmt"
	"maps"
	"slices"

	metadatav3 "github.com/envoyproxy/go-control-plane/envoy/type/metadata/v3"
	tracingv3 "github.com/envoyproxy/go-control-plane/envoy/type/tracing/v3"

	meshconfig "istio.io/api/mesh/v1alpha1"
	telemetry "istio.io/api/telemetry/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
)

// istioTags returns the tags that identify workloads in Istio: canonical revision and service,
// cluster, mesh and namespace. Each has the variable of the proxy's environment with its value,
// which pilot-agent sets. Envoy omits a tag whose variable is not set.
func istioTags() [][2]string {
	return [][2]string{
		{"istio.canonical_revision", "ISTIO_CANONICAL_REVISION"},
		{"istio.canonical_service", "ISTIO_CANONICAL_SERVICE"},
		{"istio.cluster_id", "ISTIO_CLUSTER_ID"},
		{"istio.mesh_id", "ISTIO_MESH_ID"},
		{"istio.namespace", "ISTIO_NAMESPACE"},
	}
}

// dryRunTags returns the tags with the results of AuthorizationPolicies in dry run, for the
// policies of both actions: the name of the policy that matched, and allowed or denied. Envoy omits
// a tag whose metadata its RBAC filter has not written.
func dryRunTags() []*tracingv3.CustomTag {
	var list []*tracingv3.CustomTag
	for _, action := range []string{"allow", "deny"} {
		for tag, key := range map[string]string{"name": "shadow_effective_policy_id", "result": "shadow_engine_result"} {
			list = append(list, &tracingv3.CustomTag{
				Tag: "istio.authorization.dry_run." + action + "_policy." + tag,
				Type: &tracingv3.CustomTag_Metadata_{Metadata: &tracingv3.CustomTag_Metadata{
					Kind: &metadatav3.MetadataKind{
						Kind: &metadatav3.MetadataKind_Request_{Request: new(metadatav3.MetadataKind_Request)},
					},
					MetadataKey: &metadatav3.MetadataKey{
						Key: "envoy.filters.http.rbac",
						Path: []*metadatav3.MetadataKey_PathSegment{{
							Segment: &metadatav3.MetadataKey_PathSegment_Key{Key: "istio_dry_run_" + action + "_" + key},
						}},
					},
				}},
			})
		}
	}
	return list
}

// spanTags returns the tags of spans, sorted by name: Istio's (withIstioTags), overridden by the
// tags of objects, or else by the tags of ProxyConfig.tracing. Invalid tags are left out silently.
// Tags whose value is a format are left out with a Warning if the View's Envoy lacks
// view.FormattedSpanTags.
func (m *builder) spanTags(c traceChoice) []*tracingv3.CustomTag {
	byName := map[string]*tracingv3.CustomTag{}
	add := func(t *tracingv3.CustomTag) {
		if t != nil {
			byName[t.GetTag()] = t
		}
	}
	proxy := m.settings.Mesh.GetDefaultConfig().GetTracing()
	if withIstioTags(c, proxy) {
		for _, t := range istioTags() {
			add(environmentTag(t[0], t[1], ""))
		}
		if c.policed {
			for _, t := range dryRunTags() {
				add(t)
			}
		}
	}
	if len(c.tags) > 0 {
		for name, t := range c.tags {
			add(customTag(name, t))
		}
	} else {
		for name, t := range proxy.GetCustomTags() {
			add(proxyTag(name, t))
		}
	}
	var list []*tracingv3.CustomTag
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		if byName[name].GetValue() != "" && m.lacks.Has(view.FormattedSpanTags) {
			m.warnLackingEnvoy(
				c.tagsAt,
				fmt.Sprintf("spans have no tag %q, because its value is a format", name),
				view.FormattedSpanTags,
			)
			continue
		}
		list = append(list, byName[name])
	}
	return list
}

// withIstioTags reports whether spans have Istio's tags: by the setting of the objects, else of
// ProxyConfig. By default they do if a provider or ProxyConfig.tracing is set.
func withIstioTags(c traceChoice, proxy *meshconfig.Tracing) bool {
	switch {
	case c.istioTags != nil:
		return *c.istioTags
	case proxy.GetEnableIstioTags() != nil:
		return proxy.GetEnableIstioTags().GetValue()
	default:
		return c.provider != nil || proxy != nil
	}
}

// customTag translates a tag of a Telemetry: a literal, a variable of the environment, a request
// header or a format. It returns nil if the name or source is empty or missing, or Envoy would
// refuse the format.
func customTag(name string, in *telemetry.Tracing_CustomTag) *tracingv3.CustomTag {
	switch t := in.GetType().(type) {
	case *telemetry.Tracing_CustomTag_Literal:
		return literalTag(name, t.Literal.GetValue())
	case *telemetry.Tracing_CustomTag_Environment:
		return environmentTag(name, t.Environment.GetName(), t.Environment.GetDefaultValue())
	case *telemetry.Tracing_CustomTag_Header:
		return headerTag(name, t.Header.GetName(), t.Header.GetDefaultValue())
	case *telemetry.Tracing_CustomTag_Formatter:
		if name == "" || t.Formatter.GetValue() == "" || config.FormatFault(t.Formatter.GetValue()) != "" {
			return nil
		}
		return &tracingv3.CustomTag{Tag: name, Type: &tracingv3.CustomTag_Value{Value: t.Formatter.GetValue()}}
	default:
		return nil
	}
}

// proxyTag translates a tag of ProxyConfig.tracing, as customTag does for a Telemetry; there are no
// format tags.
func proxyTag(name string, in *meshconfig.Tracing_CustomTag) *tracingv3.CustomTag {
	switch t := in.GetType().(type) {
	case *meshconfig.Tracing_CustomTag_Literal:
		return literalTag(name, t.Literal.GetValue())
	case *meshconfig.Tracing_CustomTag_Environment:
		return environmentTag(name, t.Environment.GetName(), t.Environment.GetDefaultValue())
	case *meshconfig.Tracing_CustomTag_Header:
		return headerTag(name, t.Header.GetName(), t.Header.GetDefaultValue())
	default:
		return nil
	}
}

// literalTag returns a tag with a fixed value, or nil if name or value is "".
func literalTag(name, value string) *tracingv3.CustomTag {
	if name == "" || value == "" {
		return nil
	}
	return &tracingv3.CustomTag{
		Tag:  name,
		Type: &tracingv3.CustomTag_Literal_{Literal: &tracingv3.CustomTag_Literal{Value: value}},
	}
}

// environmentTag returns a tag with the value of a variable of the proxy's environment, or
// otherwise if it is not set. It returns nil if name or variable is "".
func environmentTag(name, variable, otherwise string) *tracingv3.CustomTag {
	if name == "" || variable == "" {
		return nil
	}
	return &tracingv3.CustomTag{Tag: name, Type: &tracingv3.CustomTag_Environment_{
		Environment: &tracingv3.CustomTag_Environment{Name: variable, DefaultValue: otherwise},
	}}
}

// headerTag returns a tag with the value of a request header, or otherwise if it is missing. It
// returns nil if name or header is "".
func headerTag(name, header, otherwise string) *tracingv3.CustomTag {
	if name == "" || header == "" {
		return nil
	}
	return &tracingv3.CustomTag{Tag: name, Type: &tracingv3.CustomTag_RequestHeader{
		RequestHeader: &tracingv3.CustomTag_Header{Name: header, DefaultValue: otherwise},
	}}
}
