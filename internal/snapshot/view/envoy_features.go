package view

import (
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// EnvoyFeatures is a set of features of Envoy that generated configuration uses and that some
// supported version lacks (ADR 34).
type EnvoyFeatures uint8

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
)

// ClusterFeatures are the features that clusters depend on. ListenerFeatures are the features that
// listeners depend on. No other resources depend on a feature.
const (
	ClusterFeatures  = TransportSocketMatcher | RetryBudgetInterval | SelectedHostKey
	ListenerFeatures = BoundedStats | FormattedSpanTags | DisabledContextPropagation | OpenTelemetryLogService
)

// OldestEnvoy is the oldest minor version of Envoy 1 that is tested.
const OldestEnvoy = 36

// envoyFeature is a feature and the Envoys that have it: since a minor version of Envoy 1 and, if
// the feature is an extension, built with it.
type envoyFeature struct {
	feature   EnvoyFeatures
	since     uint32
	extension string
}

// envoyFeatures is the list of all features. The versions were found by loading all golden cases
// into each of them.
func envoyFeatures() [8]envoyFeature {
	return [8]envoyFeature{
		{BoundedStats, 39, "envoy.access_loggers.stats"},
		{FilterChain, 39, "envoy.filters.http.filter_chain"},
		{TransportSocketMatcher, 37, ""},
		{SelectedHostKey, 38, ""},
		{RetryBudgetInterval, 39, ""},
		{FormattedSpanTags, 37, ""},
		{DisabledContextPropagation, 38, ""},
		{OpenTelemetryLogService, 37, ""},
	}
}

// FirstMinorVersion returns the first minor version of Envoy 1 that has the feature, or 0 if f is
// not exactly one feature.
func (f EnvoyFeatures) FirstMinorVersion() uint32 {
	for _, e := range envoyFeatures() {
		if e.feature == f {
			return e.since
		}
	}
	return 0
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
