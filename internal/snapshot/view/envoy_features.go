package view

import (
	"fmt"
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// EnvoyFeatures is a set of features of Envoy that generated configuration uses and that some
// supported version lacks (ADR 34).
type EnvoyFeatures uint16

// The features. Each is a bit of Key.MissingFeatures, so it changes the generated configuration.
const (
	// BoundedStats is the stats access logger with a limit of series (stats_scope). Istio's metrics
	// need it. Envoy 1.37 and 1.38 have the logger without the limit: there, labels that clients
	// choose could fill the proxy's memory.
	BoundedStats EnvoyFeatures = 1 << iota
	// FilterChain is the HTTP filter that contains a list of filters. Where it is missing, policies
	// are inside of listeners (Key.PoliciesInside), so Key.MissingFeatures never has this bit.
	FilterChain
	// TransportSocketMatcher is Cluster.transport_socket_matcher, which chooses the ALPN of a
	// connection to a port of undeclared protocol.
	TransportSocketMatcher
	// RetryBudgetInterval is CircuitBreakers.Thresholds.RetryBudget.budget_interval.
	RetryBudgetInterval
	// FormattedSpanTags is CustomTag.value.
	FormattedSpanTags
	// DisabledContextPropagation is HttpConnectionManager.Tracing.no_context_propagation.
	DisabledContextPropagation
	// OpenTelemetryLogService is OpenTelemetryAccessLogConfig.grpc_service. Older versions have
	// common_config in its place.
	OpenTelemetryLogService
	// SelectedHostKey is OverrideHost.selected_host_key, by which the endpoint picker of an
	// InferencePool receives the endpoint that answered.
	SelectedHostKey
	// WasmRuntime is V8, which runs the modules of Wasm plugins. All versions have it, but some
	// builds do not.
	WasmRuntime
)

// ClusterFeatures are the features that clusters depend on. ListenerFeatures are the features that
// listeners depend on: TelemetryFeatures (access logs, metrics and tracing), and WasmRuntime, which
// the extension configs of plugins depend on too. No other resources depend on a feature.
const (
	ClusterFeatures   = TransportSocketMatcher | RetryBudgetInterval | SelectedHostKey
	TelemetryFeatures = BoundedStats | FormattedSpanTags | DisabledContextPropagation | OpenTelemetryLogService
	ListenerFeatures  = TelemetryFeatures | WasmRuntime
)

// OldestEnvoy is the oldest minor version of Envoy 1 that is tested.
const OldestEnvoy = 36

// envoyFeature is a feature and the Envoys that have it: since a minor version of Envoy 1 (0 if all
// versions have it) and, if the feature is an extension, built with it.
type envoyFeature struct {
	feature   EnvoyFeatures
	since     uint32
	extension string
}

// envoyFeatures is the list of all features: each with the minor version of Envoy 1 that introduced
// it, 0 for all versions, and the extension that it needs, "" for none. The versions were found by
// loading all golden cases into each of them.
func envoyFeatures() [9]envoyFeature {
	return [9]envoyFeature{
		{BoundedStats, 39, "envoy.access_loggers.stats"},
		{FilterChain, 39, "envoy.filters.http.filter_chain"},
		{TransportSocketMatcher, 37, ""},
		{SelectedHostKey, 38, ""},
		{RetryBudgetInterval, 39, ""},
		{FormattedSpanTags, 37, ""},
		{DisabledContextPropagation, 38, ""},
		{OpenTelemetryLogService, 37, ""},
		{WasmRuntime, 0, "envoy.wasm.runtime.v8"},
	}
}

// FeatureExtensions returns the names of the extensions of Envoy that features need.
func FeatureExtensions() []string {
	var names []string
	for _, f := range envoyFeatures() {
		if f.extension != "" {
			names = append(names, f.extension)
		}
	}
	return names
}

// LackingEnvoys describes the Envoys that do not have the feature, for messages to users: "an Envoy
// before 1.39", "an Envoy built without envoy.wasm.runtime.v8", or both, because the proxies of one
// class may lack the feature for different reasons. f must be exactly one feature.
func (f EnvoyFeatures) LackingEnvoys() string {
	switch e := f.entry(); {
	case e.extension == "":
		return fmt.Sprintf("an Envoy before 1.%d", e.since)
	case e.since == 0:
		return "an Envoy built without " + e.extension
	default:
		return fmt.Sprintf("an Envoy before 1.%d or built without %s", e.since, e.extension)
	}
}

// entry returns the entry of the list of features for f, or the zero value if f is not exactly one
// feature.
func (f EnvoyFeatures) entry() envoyFeature {
	for _, e := range envoyFeatures() {
		if e.feature == f {
			return e
		}
	}
	return envoyFeature{}
}

// Has reports whether the set contains at least one of the features in feature.
func (f EnvoyFeatures) Has(feature EnvoyFeatures) bool { return f&feature != 0 }

// missingFeatures returns the features that the proxy's Envoy does not have. A version or extension
// list that the proxy does not report is assumed to be current, so a proxy without both (gRPC,
// istioctl, other clients) lacks nothing.
func missingFeatures(p *mesh.Proxy) EnvoyFeatures {
	var missing EnvoyFeatures
	stated := p.EnvoyVersion != mesh.EnvoyVersion{}
	for _, e := range envoyFeatures() {
		older := stated && p.EnvoyVersion.Compare(mesh.EnvoyVersion{Major: 1, Minor: e.since}) < 0
		without := false
		if e.extension != "" && p.Extensions != nil {
			_, found := slices.BinarySearch(p.Extensions, e.extension)
			without = !found
		}
		if older || without {
			missing |= e.feature
		}
	}
	return missing
}

// setMissingFeatures sets k.MissingFeatures to the features that the proxy's Envoy lacks.
// k.PoliciesInside becomes true if an EnvoyFilter in k patches security filters of listeners, or
// FilterChain is missing. k must have its EnvoyFilters and plugins. FilterChain is never in
// MissingFeatures, and WasmRuntime only if a plugin applies to the proxy, because they would split
// classes without effect.
func (k *Key) setMissingFeatures(s *snapshot.Snapshot, p *mesh.Proxy) {
	k.MissingFeatures = missingFeatures(p)
	k.PoliciesInside = s.PatchesSecurityFilters(k.EnvoyFilterPatches.Listeners) || k.MissingFeatures.Has(FilterChain)
	k.MissingFeatures &^= FilterChain
	if k.Plugins == (snapshot.PluginNames{}) {
		k.MissingFeatures &^= WasmRuntime
	}
}
