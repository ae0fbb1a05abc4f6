package telemetry

import (
	"fmt"
	"maps"
	"slices"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	dataaccesslogv3 "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"
	celv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/filters/cel/v3"

	"google.golang.org/protobuf/proto"

	meshconfig "istio.io/api/mesh/v1alpha1"
	telemetry "istio.io/api/telemetry/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/model/resource"
)

// logChoice is a provider that is to log, and what.
type logChoice struct {
	named
	disabled bool
	// condition is a CEL expression, "" for everything.
	condition string
}

// accessLogs fills in the access logs of a side. Objects and default providers of the mesh count first; without either,
// MeshConfig's own fields do.
func (m *maker) accessLogs(s side, out *Side) {
	chosen, any := m.chooseLogs(s)
	if !any {
		m.meshLogs(out)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(chosen)) {
		if c := chosen[name]; !c.disabled {
			m.log(c, out)
		}
	}
}

// chooseLogs gives what providers are to log; any false: nobody says anything.
func (m *maker) chooseLogs(s side) (chosen map[string]logChoice, any bool) {
	mesh := defaults("accessLogging", m.settings.Mesh.GetDefaultProviders().GetAccessLogging())
	says := func(l layer) bool { return len(l.spec.GetAccessLogging()) > 0 }
	chosen = map[string]logChoice{}
	if !slices.ContainsFunc(m.layers, says) {
		for _, n := range mesh {
			chosen[n.name] = logChoice{named: n}
		}
		return chosen, len(mesh) > 0
	}
	all, counting := entries(m.layers, "accessLogging", (*telemetry.Telemetry).GetAccessLogging,
		func(l *telemetry.AccessLogging) bool { return s.plays(l.GetMatch().GetMode()) }, mesh)
	for _, e := range all {
		if len(e.providers) == 0 && !e.value.GetDisabled().GetValue() {
			m.warn(e.origin, "names no provider, and the mesh has no default one (defaultProviders.accessLogging): nothing is logged")
		}
		for _, n := range e.providers {
			if counting[n.name] {
				chosen[n.name] = logChoice{n, e.value.GetDisabled().GetValue(), e.value.GetFilter().GetExpression()}
			}
		}
	}
	return chosen, true
}

// log adds the log of one provider.
func (m *maker) log(c logChoice, out *Side) {
	p := m.providers.find(c.name)
	if p == nil {
		m.warn(c.origin, fmt.Sprintf("there is no extension provider %q in the mesh configuration", c.name))
		return
	}
	connections := func(name string, config proto.Message) {
		l := accessLog(name, config, c.condition)
		out.TCPLogs, out.ListenerLogs = append(out.TCPLogs, l), append(out.ListenerLogs, unmatchedOnly(l))
	}
	both := func(name string, config proto.Message) {
		out.HTTPLogs = append(out.HTTPLogs, accessLog(name, config, c.condition))
		connections(name, config)
	}
	switch x := p.GetProvider().(type) {
	case *meshconfig.MeshConfig_ExtensionProvider_EnvoyFileAccessLog:
		both(fileLog, fileProvider(x.EnvoyFileAccessLog))
	case *meshconfig.MeshConfig_ExtensionProvider_EnvoyHttpAls:
		if at, ok := m.service(c.named, p); ok {
			out.HTTPLogs = append(out.HTTPLogs, accessLog(httpServiceLog, httpService(x.EnvoyHttpAls, at), c.condition))
		}
	case *meshconfig.MeshConfig_ExtensionProvider_EnvoyTcpAls:
		if at, ok := m.service(c.named, p); ok {
			connections(tcpServiceLog, tcpService(x.EnvoyTcpAls, at))
		}
	case *meshconfig.MeshConfig_ExtensionProvider_EnvoyOtelAls:
		if at, ok := m.service(c.named, p); ok {
			both(openTelemetryLog, m.openTelemetryService(x.EnvoyOtelAls, at))
		}
	default:
		m.warn(c.origin, notFor(p, "logs"))
	}
}

// service gives where a provider is; ok false, with a warning, where it is not.
func (m *maker) service(n named, p *provider) (service, bool) {
	s := m.providers.services[p.GetName()]
	if s.cluster == "" {
		m.warn(n.origin, fmt.Sprintf("provider %q: %s", p.GetName(), s.fault))
		return s, false
	}
	m.out.Clusters = append(m.out.Clusters, s.cluster)
	return s, true
}

// accessLog is a logger, with a condition if there is one.
func accessLog(name string, config proto.Message, condition string) *accesslogv3.AccessLog {
	return &accesslogv3.AccessLog{
		Name: name, Filter: conditionFilter(condition),
		ConfigType: &accesslogv3.AccessLog_TypedConfig{TypedConfig: resource.Pack(config)},
	}
}

// unmatchedOnly returns a copy of l that logs only connections that no filter chain takes. All others are logged by the
// filters of their chain.
func unmatchedOnly(l *accesslogv3.AccessLog) *accesslogv3.AccessLog {
	unmatched := &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_ResponseFlagFilter{
		ResponseFlagFilter: &accesslogv3.ResponseFlagFilter{Flags: []string{"NR"}}, // NoRouteFound
	}}
	return &accesslogv3.AccessLog{Name: l.GetName(), Filter: allOf(unmatched, l.GetFilter()), ConfigType: l.GetConfigType()}
}

func conditionFilter(condition string) *accesslogv3.AccessLogFilter {
	if condition == "" {
		return nil
	}
	return &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_ExtensionFilter{
		ExtensionFilter: &accesslogv3.ExtensionFilter{
			Name: "envoy.access_loggers.extension_filters.cel",
			ConfigType: &accesslogv3.ExtensionFilter_TypedConfig{
				TypedConfig: resource.Pack(&celv3.ExpressionFilter{Expression: condition}),
			},
		},
	}}
}

func logTypes(types ...dataaccesslogv3.AccessLogType) *accesslogv3.AccessLogFilter {
	return &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_LogTypeFilter{
		LogTypeFilter: &accesslogv3.LogTypeFilter{Types: types},
	}}
}

// allOf joins two filters, the second of which may be none.
func allOf(a, b *accesslogv3.AccessLogFilter) *accesslogv3.AccessLogFilter {
	if b == nil {
		return a
	}
	return &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_AndFilter{
		AndFilter: &accesslogv3.AndFilter{Filters: []*accesslogv3.AccessLogFilter{a, b}},
	}}
}
