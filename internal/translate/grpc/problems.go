package grpc

import (
	"slices"
	"strings"

	extensions "istio.io/api/extensions/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"
	telemetryapi "istio.io/api/telemetry/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
)

// Problems returns Warnings, sorted and without Origin, for settings that a gRPC application does
// not receive although their objects affect it. asked returns the names of a type that it has
// subscribed to: only objects behind these are reported, and access policies only if a server's
// listener is among them. Objects for Envoys that select it by labels are always reported
// (selectorProblems). It returns nil for Views of Envoys.
func (g *Generator) Problems(v *view.View, p *mesh.Proxy, asked func(typeURL string) []string) []config.Problem {
	if !v.Key.Proxyless.Enabled {
		return nil
	}
	var list []config.Problem
	for k := range g.sourceObjects(v, asked) {
		c := v.Snapshot.Config(k)
		if c == nil {
			continue
		}
		switch k.Kind {
		case api.VirtualService:
			list = append(list, unservedRoutes(k, config.Spec[*networking.VirtualService](c))...)
		case api.DestinationRule:
			list = append(list, unservedDestination(k, config.Spec[*networking.DestinationRule](c))...)
		}
	}
	if slices.ContainsFunc(
		asked(api.ListenerType),
		func(name string) bool { return strings.HasPrefix(name, serverPrefix) },
	) {
		list = slices.Concat(list, policyProblems(v), g.authorizations.For(v).Problems)
	}
	list = append(list, selectorProblems(v, p)...)
	slices.SortFunc(list, config.Problem.Compare)
	return slices.Compact(list)
}

// sourceObjects returns the objects that shape the RouteConfigurations and clusters to which the
// application subscribes. asked returns the names of a type that it has subscribed to.
func (g *Generator) sourceObjects(v *view.View, asked func(typeURL string) []string) map[config.Key]bool {
	keys := map[config.Key]bool{}
	note := func(r *resource.Resource) {
		if r != nil {
			for _, k := range r.From {
				keys[k] = true
			}
		}
	}
	for _, name := range asked(api.RouteType) {
		note(g.Route(v, name))
	}
	names := asked(api.ClusterType)
	if len(names) == 0 {
		return keys
	}
	for _, r := range g.Clusters(v) {
		if slices.Contains(names, r.Name) {
			note(r)
		}
	}
	return keys
}

// policyProblems returns Warnings for the View's access policies: one for each
// RequestAuthentication, which has no effect on gRPC servers, and unservedPolicy's for each
// AuthorizationPolicy.
func policyProblems(v *view.View) []config.Problem {
	var list []config.Problem
	names := v.Key.Policies
	for _, c := range v.Snapshot.Policies(api.RequestAuthentication, names.Authentication) {
		r := &report{key: c.Key}
		r.addWarning(
			"spec",
			"they read no tokens: invalid ones are not rejected, and conditions on tokens are unknown",
		)
		list = append(list, r.list...)
	}
	for _, c := range v.Snapshot.Policies(api.AuthorizationPolicy, names.Authorization) {
		list = append(list, unservedPolicy(c, names.Authentication != "")...)
	}
	return list
}

// selectorProblems returns a Warning for each object for Envoys (EnvoyFilter, Telemetry,
// WasmPlugin, TrafficExtension) that selects the application by its labels. Objects for the whole
// mesh or a namespace are not reported, because they apply to other workloads too.
func selectorProblems(v *view.View, p *mesh.Proxy) []config.Problem {
	s := v.Snapshot
	patched := snapshot.ProxyAttributes{
		Type:      p.Type,
		Namespace: p.Namespace,
		Labels:    view.WorkloadLabels(s, p),
		Version:   p.Metadata.IstioVersion,
		Metadata:  p.Metadata.Strings,
	}
	var list []config.Problem
	tell := func(c *config.Config, field string, selects bool) {
		if r := (&report{key: c.Key}); selects {
			r.addWarning(field, "it selects some and has no effect on them, because they have no Envoy")
			list = append(list, r.list...)
		}
	}
	patches := s.PatchNames(patched)
	for _, c := range s.Configs(api.EnvoyFilter) {
		if patches.Has(c.Key) {
			f := config.Spec[*networking.EnvoyFilter](c)
			tell(c, "spec.workloadSelector", len(f.GetWorkloadSelector().GetLabels()) > 0)
		}
	}
	for _, c := range s.Policies(api.Telemetry, s.TelemetryKeys(patched).Workload) {
		tell(c, "spec.selector", len(config.Spec[*telemetryapi.Telemetry](c).GetSelector().GetMatchLabels()) > 0)
	}
	for _, c := range s.Plugins(s.PluginNames(patched)) {
		if c.Kind == api.WasmPlugin {
			tell(c, "spec.selector", len(config.Spec[*extensions.WasmPlugin](c).GetSelector().GetMatchLabels()) > 0)
			continue
		}
		tell(c, "spec.selector", len(config.Spec[*extensions.TrafficExtension](c).GetSelector().GetMatchLabels()) > 0)
	}
	return list
}
