package telemetry

import (
	"fmt"
	"slices"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/translate/destination"
	"github.com/meshpilot/meshpilot/internal/translate/memo"
)

// Telemetry is what the proxies of some Views tell of traffic. It is immutable; equal ones have one pointer.
type Telemetry struct {
	// Client is for the calls of the workload, and for all that a gateway passes on; Server for those that it serves.
	Client, Server Side
	// Clusters are those of the services that it is sent to, sorted.
	Clusters []string
	// From are the objects that it is made of.
	From []config.Key
	// Problems are Warnings without Origin; those of the MeshConfig have no Key, and its Origin.
	Problems []config.Problem
}

// Side is the part for one direction of traffic.
type Side struct {
	// HTTPLogs are the access logs of connection managers, TCPLogs those of TCP proxies. Metrics are among them.
	HTTPLogs, TCPLogs []*accesslogv3.AccessLog
	// ListenerLogs are the access logs of listeners: they log the connections that no filter chain takes.
	ListenerLogs []*accesslogv3.AccessLog
	// LogConnected has TCP proxies log also when the upstream connection is made; the logs know which of the two they want.
	LogConnected bool
	// Tracing is nil where no spans are made.
	Tracing *hcmv3.HttpConnectionManager_Tracing
	// IgnoreRequestID says that the sampling of a trace is not read from the request's id, nor written into it.
	IgnoreRequestID bool
}

// Table makes Telemetries, each distinct one once. It is for use by many goroutines.
type Table struct {
	made *memo.Table[input, *Telemetry]
}

// NewTable makes a Table that remembers nothing yet.
func NewTable() *Table { return &Table{memo.New(build)} }

// input is all that a Telemetry depends on.
type input struct {
	settings *snapshot.Settings
	rows     snapshot.TelemetryRows
	// services is what the services of providers are to the View.
	services memo.List[destination.NamedProvider]
	// logService says that the proxies have the cluster of the mesh's access log service.
	logService bool
	// lacks is which of view.ListenerFeatures the proxies' Envoy does not have.
	lacks view.EnvoyFeatures
}

// For gives what the proxies of a View tell.
func (t *Table) For(v *view.View) *Telemetry {
	in := input{
		settings: v.Settings, rows: v.Snapshot.Telemetries(v.Key.Telemetry), services: servicesOf(v), logService: v.Key.LogService,
		lacks: v.Key.Lacks & view.ListenerFeatures,
	}
	return t.made.Get(in)
}

// Problems gives what of the objects about a View's proxies has no effect, sorted: the Problems of the Telemetry, and objects
// in whose place there is another.
func (t *Table) Problems(v *view.View) []config.Problem {
	list := slices.Clone(t.For(v).Problems)
	for _, namespace := range []string{v.Settings.RootNamespace, v.Key.Namespace} {
		for _, s := range v.Snapshot.SpareTelemetries(namespace) {
			list = append(list, config.Problem{Key: s.Key, Field: "spec.selector", Severity: config.Warning,
				Reason: fmt.Sprintf("has no effect: the older %s is for the same workloads", s.Older)})
		}
	}
	if k := v.Key.Telemetry; k.Passed != (config.Key{}) {
		list = append(list, config.Problem{Key: k.Passed, Field: "spec.selector", Severity: config.Warning,
			Reason: fmt.Sprintf("has no effect for workloads that the older %s selects too", k.Workload)})
	}
	slices.SortFunc(list, config.Problem.Compare)
	return slices.Compact(list)
}

// Touched says whether a change may alter what For gives for a View; s is the snapshot after it.
func (t *Table) Touched(v *view.View, s *snapshot.Snapshot, d snapshot.Delta) bool {
	if d.All {
		return true
	}
	for _, k := range v.Key.Telemetry.All() {
		if _, changed := d.Configs[k]; changed {
			return true
		}
	}
	return d.ChangesVisibility() && len(v.Settings.Mesh.GetExtensionProviders()) > 0 && servicesOf(v) != servicesOf(view.Build(s, v.Key))
}

// maker makes one Telemetry.
type maker struct {
	input
	providers providers
	layers    []layer
	out       *Telemetry
}

func build(in input) *Telemetry {
	m := &maker{input: in, providers: newProviders(in), layers: layersOf(in.rows), out: new(Telemetry)}
	for _, l := range m.layers {
		m.out.From = append(m.out.From, l.key)
	}
	for _, s := range []side{client, server} {
		to := &m.out.Client
		if s == server {
			to = &m.out.Server
		}
		m.accessLogs(s, to)
		m.tracing(s, to)
		m.metrics(s, to)
	}
	slices.Sort(m.out.Clusters)
	m.out.Clusters = slices.Compact(m.out.Clusters)
	slices.SortFunc(m.out.Problems, config.Problem.Compare)
	m.out.Problems = slices.Compact(m.out.Problems)
	return m.out
}

// origin is whose field asks for something: a Telemetry object's, or (zero Key) the MeshConfig's.
type origin struct {
	key   config.Key
	field string
}

func (m *maker) warn(o origin, reason string) {
	p := config.Problem{Key: o.key, Field: o.field, Reason: reason, Severity: config.Warning}
	if o.key == (config.Key{}) {
		p.Origin = "mesh configuration"
	}
	m.out.Problems = append(m.out.Problems, p)
}

// warnOlderEnvoy adds a Warning that the field has no effect on an Envoy without the feature. effect describes the behaviour of
// that Envoy.
func (m *maker) warnOlderEnvoy(o origin, effect string, missing view.EnvoyFeatures) {
	m.warn(o, fmt.Sprintf("has no effect on proxies with an Envoy before 1.%d: %s", missing.Since(), effect))
}
