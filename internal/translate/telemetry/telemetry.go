package telemetry

import (
	"fmt"
	"slices"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/code"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/translate/destination"
	"github.com/meshpilot/meshpilot/internal/translate/memo"
)

// Telemetry is the observability configuration for the proxies of some Views. It is immutable;
// equal ones have the same pointer.
type Telemetry struct {
	// Client applies to the calls of the workload, and to all traffic of a gateway; Server to the
	// calls that it serves.
	Client, Server Side
	// Clusters are the clusters of services that receive telemetry, sorted.
	Clusters []string
	// From are the objects that it derives from.
	From []config.Key
	// Problems are Warnings without Origin; Problems of the MeshConfig have no Key, and its Origin.
	Problems []config.Problem
}

// Side is the part for one direction of traffic.
type Side struct {
	// HTTPLogs are the access logs of connection managers, TCPLogs of TCP proxies, metrics
	// included.
	HTTPLogs, TCPLogs []*accesslogv3.AccessLog
	// ListenerLogs are the access logs of listeners, which log the connections that match no filter
	// chain.
	ListenerLogs []*accesslogv3.AccessLog
	// LogConnected makes TCP proxies log when the upstream connection is established too; the
	// filters of the logs select the records.
	LogConnected bool
	// Tracing is nil if tracing is disabled.
	Tracing *hcmv3.HttpConnectionManager_Tracing
	// SamplesByRequestID reads the sampling decision from the request ID and writes it there. It is
	// true unless a Telemetry object disables it.
	SamplesByRequestID bool
}

// Table generates Telemetries and caches each distinct one. It is safe for concurrent use.
type Table struct {
	made *memo.Table[input, *Telemetry]
}

// NewTable returns a Table with an empty cache.
func NewTable() *Table { return &Table{memo.New(newTelemetry)} }

// input is everything that a Telemetry depends on.
type input struct {
	settings *snapshot.Settings
	rows     memo.List[*config.Config]
	// services are the services of providers, as the View sees them.
	services memo.List[destination.NamedProvider]
	// logService is set if the proxies have the cluster of the mesh's access log service.
	logService bool
	// router is set for gateways, whose calls are requests of others.
	router bool
	// lacks is the subset of view.TelemetryFeatures that the proxies' Envoy does not support.
	lacks view.EnvoyFeatures
}

// For returns the observability configuration for the proxies of a View. It is never nil.
func (t *Table) For(v *view.View) *Telemetry {
	in := input{
		settings:   v.Settings,
		rows:       memo.ListOf(v.Snapshot.Telemetries(v.Key.Telemetry)),
		services:   servicesOf(v),
		logService: v.Key.LogService,
		router:     v.Key.Type == mesh.RouterProxy,
		lacks:      v.Key.MissingFeatures & view.TelemetryFeatures,
	}
	return t.made.Get(in)
}

// Problems returns what has no effect in the Telemetry objects for a View's proxies, sorted without
// duplicates. It includes the Problems of the Telemetry, and objects that an older one overrides.
func (t *Table) Problems(v *view.View) []config.Problem {
	list := slices.Clone(t.For(v).Problems)
	for _, namespace := range []string{v.Settings.RootNamespace, v.Key.Namespace} {
		for _, s := range v.Snapshot.ShadowedTelemetries(namespace) {
			list = append(list, config.Problem{Code: code.MultipleTelemetriesWithoutWorkloadSelectors, Key: s.Key,
				Field: "spec.selector", Severity: config.Warning,
				Reason: fmt.Sprintf("is empty, as that of the older %s: this object has no effect", s.Older)})
		}
	}
	slices.SortFunc(list, config.Problem.Compare)
	return slices.Compact(list)
}

// Touched reports whether a change may alter the result of For for a View; s is the snapshot after
// the change. It returns true for d.All and if a Telemetry attached by v.Key changed. A change of
// visibility matters if it alters the services of the mesh's extension providers. A new Telemetry
// changes the Key, not the View.
func (t *Table) Touched(v *view.View, s *snapshot.Snapshot, d snapshot.Delta) bool {
	if d.All || v.IsAnyAttachedChanged(d, api.Telemetry) {
		return true
	}
	return d.ChangesVisibility() && len(v.Settings.Mesh.GetExtensionProviders()) > 0 &&
		servicesOf(v) != servicesOf(view.Build(s, v.Key))
}

// builder builds one Telemetry.
type builder struct {
	input
	providers providers
	layers    []layer
	out       *Telemetry
}

// newTelemetry returns the access logs, tracing and metrics of both sides, and the keys of the
// Telemetry objects in their order (From). Its Problems and Clusters are sorted and without
// duplicates.
func newTelemetry(in input) *Telemetry {
	m := &builder{input: in, providers: newProviders(in), layers: layersOf(in.rows), out: new(Telemetry)}
	for _, l := range m.layers {
		m.out.From = append(m.out.From, l.key)
	}
	for _, s := range []side{client, server} {
		to := &m.out.Client
		if s == server {
			to = &m.out.Server
		}
		m.addAccessLogs(s, to)
		m.addTracing(s, to)
		m.addMetrics(s, to)
	}
	slices.Sort(m.out.Clusters)
	m.out.Clusters = slices.Compact(m.out.Clusters)
	slices.SortFunc(m.out.Problems, config.Problem.Compare)
	m.out.Problems = slices.Compact(m.out.Problems)
	return m.out
}

// origin is the field that configures something, of a Telemetry object or (zero Key) of the
// MeshConfig.
type origin struct {
	key   config.Key
	field string
}

// addWarning adds a Warning about the field o to m.out.Problems. Without an object, its Origin is
// "mesh configuration".
func (m *builder) addWarning(o origin, reason string) {
	p := config.Problem{Code: code.FieldWithoutEffect, Key: o.key, Field: o.field, Reason: reason,
		Severity: config.Warning}
	if o.key == (config.Key{}) {
		p.Origin = "mesh configuration"
	}
	m.out.Problems = append(m.out.Problems, p)
}

// warnLackingEnvoy adds a Warning that the field has no effect on an Envoy without the feature.
// effect describes the behaviour of that Envoy.
func (m *builder) warnLackingEnvoy(o origin, effect string, missing view.EnvoyFeatures) {
	m.addWarning(o, fmt.Sprintf("has no effect on proxies with %s: %s", missing.LackingEnvoys(), effect))
}
