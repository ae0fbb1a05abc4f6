package telemetry

import (
	"fmt"
	"maps"
	"slices"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"

	telemetry "istio.io/api/telemetry/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/snapshot/view"
)

// metrics fills in the metrics of a side.
func (m *maker) metrics(s side, out *Side) {
	var http, tcp []tailored
	for _, t := range m.chooseMetrics(s) {
		switch {
		case t.disabled:
		case t.tcp:
			tcp = append(tcp, t)
		default:
			http = append(http, t)
		}
	}
	if len(http) > 0 {
		out.HTTPLogs = append(slices.Clip(out.HTTPLogs), httpMetrics(s, http))
	}
	if len(tcp) > 0 {
		logs := tcpMetrics(s, tcp)
		out.LogConnected = slices.ContainsFunc(tcp, func(t tailored) bool { return t.is == telemetry.MetricSelector_TCP_OPENED_CONNECTIONS })
		if out.LogConnected {
			out.TCPLogs = atEnd(out.TCPLogs)
		}
		out.TCPLogs = append(out.TCPLogs, logs...)
	}
}

// chooseMetrics gives the metrics that the mesh's Prometheus is to find, as objects tailor them; nil for none.
func (m *maker) chooseMetrics(s side) []tailored {
	mesh := defaults("metrics", m.settings.Mesh.GetDefaultProviders().GetMetrics())
	all, counting := entries(m.layers, "metrics", (*telemetry.Telemetry).GetMetrics, func(*telemetry.Metrics) bool { return true }, mesh)
	said := map[string]named{}
	for _, n := range mesh {
		said[n.name] = n
	}
	for _, e := range all {
		if len(e.providers) == 0 {
			m.warn(e.origin, "names no provider, and the mesh has no default one (defaultProviders.metrics): there are no metrics")
		}
		for _, n := range e.providers {
			said[n.name] = n
		}
	}
	for _, name := range slices.Sorted(maps.Keys(said)) {
		if counting[name] && m.isPrometheus(said[name]) { // all that Prometheus finds is in one place, so one is enough
			if m.lacks.Has(view.BoundedStats) {
				m.warnOlderEnvoy(said[name].origin, "there are no metrics", view.BoundedStats)
				return nil
			}
			return tailor(s, all, name)
		}
	}
	return nil
}

func (m *maker) isPrometheus(n named) bool {
	p := m.providers.find(n.name)
	switch {
	case p == nil:
		m.warn(n.origin, fmt.Sprintf("there is no extension provider %q in the mesh configuration", n.name))
	case p.GetPrometheus() == nil:
		m.warn(n.origin, notFor(p, "metrics"))
	default:
		return true
	}
	return false
}

// tailor gives all metrics as the entries about a provider have them.
func tailor(s side, all []entry[*telemetry.Metrics], provider string) []tailored {
	var list []tailored
	for _, standard := range standardMetrics() {
		t := tailored{metric: standard}
		for _, e := range all {
			if slices.ContainsFunc(e.providers, func(n named) bool { return n.name == provider }) {
				t.over(s, e.value.GetOverrides())
			}
		}
		list = append(list, t)
	}
	return list
}

// atEnd makes loggers of TCP proxies log when connections end, and not also when they are made.
func atEnd(logs []*accesslogv3.AccessLog) []*accesslogv3.AccessLog {
	var list []*accesslogv3.AccessLog
	for _, l := range logs {
		list = append(list, &accesslogv3.AccessLog{Name: l.GetName(), ConfigType: l.GetConfigType(), Filter: allOf(onEnd(), l.GetFilter())})
	}
	return list
}
