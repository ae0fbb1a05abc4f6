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

// logChoice is the effective setting of one access log provider.
type logChoice struct {
	named
	disabled bool
	// condition is a CEL expression, or "" to log everything.
	condition string
}

// addAccessLogs adds the access logs of a side to out, sorted by provider, except disabled ones.
// Telemetry objects and the mesh's default providers take precedence. The fields of MeshConfig
// apply (addMeshLogs) if no chosen provider can log, unless an entry without any disables logging.
func (m *builder) addAccessLogs(s side, out *Side) {
	chosen, isOff := m.chooseLogs(s)
	usable := false
	for _, name := range slices.Sorted(maps.Keys(chosen)) {
		usable = usable || m.canLog(name)
		if c := chosen[name]; !c.disabled {
			m.addLog(c, out)
		}
	}
	if !usable && !isOff {
		m.addMeshLogs(out)
	}
}

// chooseLogs returns the effective settings of a side's access logs, by provider, from the
// Telemetry objects. If none has accessLogging, it uses the mesh's default providers. Later entries
// override, and only providers in effect are included (entries). isOff reports whether the last
// entry without any provider disables logging; one that does not is a Warning.
func (m *builder) chooseLogs(s side) (chosen map[string]logChoice, isOff bool) {
	mesh := defaults("accessLogging", m.settings.Mesh.GetDefaultProviders().GetAccessLogging())
	says := func(l layer) bool { return len(l.spec.GetAccessLogging()) > 0 }
	chosen = map[string]logChoice{}
	if !slices.ContainsFunc(m.layers, says) {
		for _, n := range mesh {
			chosen[n.name] = logChoice{named: n}
		}
		return chosen, false
	}
	all, counting := entries(m.layers, "accessLogging", (*telemetry.Telemetry).GetAccessLogging,
		func(l *telemetry.AccessLogging) bool { return s.matchesMode(l.GetMatch().GetMode()) }, mesh)
	for _, e := range all {
		if len(e.providers) == 0 {
			isOff = e.value.GetDisabled().GetValue()
		}
		if len(e.providers) == 0 && !isOff {
			m.addWarning(
				e.origin,
				"names no provider, and the mesh has no default one (defaultProviders.accessLogging): it has no effect",
			)
		}
		for _, n := range e.providers {
			if counting[n.name] {
				chosen[n.name] = logChoice{n, e.value.GetDisabled().GetValue(), e.value.GetFilter().GetExpression()}
			}
		}
	}
	return chosen, isOff
}

// canLog reports whether the provider with a name exists, can log, and has a service if it needs
// one.
func (m *builder) canLog(name string) bool {
	p := m.providers.findProvider(name)
	switch {
	case p == nil:
		return false
	case p.GetEnvoyFileAccessLog() != nil:
		return true
	default:
		return isLog(p) && m.providers.services[p.GetName()].cluster != ""
	}
}

// addLog adds the access log of one provider to the logs of out that it supports, and the cluster
// of its service to m.out.Clusters. It adds a Warning instead if the provider does not exist,
// cannot log, or its service does not exist. HTTP services (EnvoyHttpAls) log requests only, TCP
// services connections only; files and OpenTelemetry log both. A log of connections is also added
// for listeners, for connections that match no chain.
func (m *builder) addLog(c logChoice, out *Side) {
	p := m.providers.findProvider(c.name)
	if p == nil {
		m.addWarning(c.origin, fmt.Sprintf("there is no extension provider %q in the mesh configuration", c.name))
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
		both(fileLog, m.fileProvider(p.GetName(), x.EnvoyFileAccessLog))
	case *meshconfig.MeshConfig_ExtensionProvider_EnvoyHttpAls:
		if at, ok := m.serviceOf(c.named, p); ok {
			out.HTTPLogs = append(out.HTTPLogs, accessLog(httpServiceLog, httpService(x.EnvoyHttpAls, at), c.condition))
		}
	case *meshconfig.MeshConfig_ExtensionProvider_EnvoyTcpAls:
		if at, ok := m.serviceOf(c.named, p); ok {
			connections(tcpServiceLog, tcpService(x.EnvoyTcpAls, at))
		}
	case *meshconfig.MeshConfig_ExtensionProvider_EnvoyOtelAls:
		if at, ok := m.serviceOf(c.named, p); ok {
			both(openTelemetryLog, m.openTelemetryService(x.EnvoyOtelAls, at))
		}
	default:
		m.addWarning(c.origin, notFor(p, "logs"))
	}
}

// serviceOf returns the service of a provider, and adds its cluster to m.out.Clusters. If the
// service does not exist, ok is false, and it adds a Warning instead.
func (m *builder) serviceOf(n named, p *provider) (service, bool) {
	s := m.providers.services[p.GetName()]
	if s.cluster == "" {
		m.addWarning(n.origin, fmt.Sprintf("provider %q: %s", p.GetName(), s.fault))
		return s, false
	}
	m.out.Clusters = append(m.out.Clusters, s.cluster)
	return s, true
}

// accessLog returns a logger with a name and config. It logs only what the CEL expression condition
// accepts, or everything if that is "".
func accessLog(name string, config proto.Message, condition string) *accesslogv3.AccessLog {
	return &accesslogv3.AccessLog{
		Name: name, Filter: conditionFilter(condition),
		ConfigType: &accesslogv3.AccessLog_TypedConfig{TypedConfig: resource.Pack(config)},
	}
}

// unmatchedOnly returns a copy of l that logs only connections that match no filter chain. All
// others are logged by the filters of their chain.
func unmatchedOnly(l *accesslogv3.AccessLog) *accesslogv3.AccessLog {
	unmatched := &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_ResponseFlagFilter{
		ResponseFlagFilter: &accesslogv3.ResponseFlagFilter{Flags: []string{"NR"}}, // NoRouteFound
	}}
	return &accesslogv3.AccessLog{
		Name:       l.GetName(),
		Filter:     allOf(unmatched, l.GetFilter()),
		ConfigType: l.GetConfigType(),
	}
}

// conditionFilter returns a filter by a CEL expression, or nil for "".
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

// logTypes returns a filter that matches log entries of any of these types.
func logTypes(types ...dataaccesslogv3.AccessLogType) *accesslogv3.AccessLogFilter {
	return &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_LogTypeFilter{
		LogTypeFilter: &accesslogv3.LogTypeFilter{Types: types},
	}}
}

// allOf returns a filter that matches if both a and b match, or a itself if b is nil.
func allOf(a, b *accesslogv3.AccessLogFilter) *accesslogv3.AccessLogFilter {
	if b == nil {
		return a
	}
	return &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_AndFilter{
		AndFilter: &accesslogv3.AndFilter{Filters: []*accesslogv3.AccessLogFilter{a, b}},
	}}
}
