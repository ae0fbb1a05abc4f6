package plugin

import (
	"fmt"

	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	networkrbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/rbac/v3"

	extensions "istio.io/api/extensions/v1alpha1"

	"google.golang.org/protobuf/proto"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/code"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
)

// Stat prefixes of the filters that replace Wasm modules, as agents name them for modules that they
// cannot download.
const (
	allowPrefix = "wasm-default-allow"
	denyPrefix  = "wasm-default-deny"
)

// isReplaced reports whether the plugin c is Wasm and the Envoy of the View's proxies was built
// without a runtime for it. Envoy would reject the extension, and answer each request with 500
// whatever the failStrategy is.
func isReplaced(v *view.View, c *config.Config) bool {
	return v.Key.MissingFeatures.Has(view.WasmRuntime) && wasmOf(c) != nil
}

// failsOpen reports whether requests pass if the plugin cannot run. Only FAIL_OPEN lets them pass,
// which is not the default.
func failsOpen(spec wasmSpec) bool {
	return failurePolicy(spec.GetFailStrategy()) == failurePolicy(extensions.FailStrategy_FAIL_OPEN)
}

// replacement returns an RBAC filter of the plugin's type that applies its failStrategy: it lets
// everything pass, or refuses everything. An agent sends its Envoy the same filter in place of a
// module that it cannot download (ADR 31).
func replacement(spec wasmSpec) proto.Message {
	open, connections := failsOpen(spec), spec.GetType() == extensions.PluginType_NETWORK
	switch {
	case open && connections:
		return &networkrbacv3.RBAC{StatPrefix: allowPrefix}
	case connections:
		return &networkrbacv3.RBAC{Rules: new(rbacv3.RBAC), StatPrefix: denyPrefix}
	case open:
		return &httprbacv3.RBAC{RulesStatPrefix: allowPrefix}
	default:
		return &httprbacv3.RBAC{Rules: new(rbacv3.RBAC), RulesStatPrefix: denyPrefix}
	}
}

// EnvoyProblems returns a Warning without Origin for each Wasm plugin of a View that the Envoy of
// its proxies cannot run, in the order of the plugins. It returns nil if that Envoy has a Wasm
// runtime.
func EnvoyProblems(v *view.View) []config.Problem {
	var found []config.Problem
	for _, c := range v.Snapshot.Plugins(v.Key.Plugins) {
		if !isReplaced(v, c) {
			continue
		}
		field, spec := "spec.url", wasmOf(c)
		if c.Kind == api.TrafficExtension {
			field = "spec.wasm.url"
		}
		effect := "refuse requests"
		if spec.GetType() == extensions.PluginType_NETWORK {
			effect = "refuse connections"
		}
		if failsOpen(spec) {
			effect = "run without it"
		}
		found = append(found, config.Problem{
			Code: code.FieldWithoutEffect, Key: c.Key, Field: field, Severity: config.Warning,
			Reason: fmt.Sprintf("is not loaded by proxies with %s: they %s, as failStrategy requires",
				view.WasmRuntime.LackingEnvoys(), effect),
		})
	}
	return found
}
