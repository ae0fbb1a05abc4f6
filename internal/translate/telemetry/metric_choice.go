package telemetry

import (
	"fmt"
	"maps"
	"slices"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"

	telemetry "istio.io/api/telemetry/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/snapshot/view"
)

// addMetrics adds the loggers of the metrics of a side to out, except disabled metrics. If opened
// connections are counted, it sets out.LogConnected: TCP proxies then also log when a connection is
// established. The TCP logs that were in out before are then limited to its end.
func (m *builder) addMetrics(s side, out *Side) {
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
		out.LogConnected = slices.ContainsFunc(
			tcp,
			func(t tailored) bool { return t.is == telemetry.MetricSelector_TCP_OPENED_CONNECTIONS },
		)
		if out.LogConnected {
			out.TCPLogs = atEnd(out.TCPLogs)
		}
		out.TCPLogs = append(out.TCPLogs, logs...)
	}
}

// chooseMetrics returns all standard metrics of a side, for the mesh's Prometheus, with the
// overrides of objects. Of the providers in effect, the first Prometheus in the order of names is
// used; an unknown one, or one of another kind, is a Warning. It returns nil if none is Prometheus.
// An entry without a provider is a Warning. For proxies whose Envoy lacks view.BoundedStats it
// returns nil, with a Warning.
func (m *builder) chooseMetrics(s side) []tailored {
	mesh := defaults("metrics", m.settings.Mesh.GetDefaultProviders().GetMetrics())
	all, counting := entries(
		m.layers,
		"metrics",
		(*telemetry.Telemetry).GetMetrics,
		func(*telemetry.Metrics) bool { return true },
		mesh,
	)
	said := map[string]named{}
	for _, n := range mesh {
		said[n.name] = n
	}
	for _, e := range all {
		if len(e.providers) == 0 {
			m.addWarning(
				e.origin,
				"names no provider, and the mesh has no default one (defaultProviders.metrics): there are no metrics",
			)
		}
		for _, n := range e.providers {
			said[n.name] = n
		}
	}
	var found []named
	for _, name := range slices.Sorted(maps.Keys(said)) {
		if counting[name] && m.isPrometheus(said[name]) {
			found = append(found, said[name])
		}
	}
	switch {
	case len(found) == 0:
		return nil
	case m.lacks.Has(view.BoundedStats):
		m.warnLackingEnvoy(found[0].origin, "there are no metrics", view.BoundedStats)
		return nil
	default: // All metrics are scraped from one endpoint, so one provider is sufficient.
		return tailorMetrics(s, all, found[0].name)
	}
}

// isPrometheus reports whether the provider exists and is of kind prometheus. If not, it adds a
// Warning.
func (m *builder) isPrometheus(n named) bool {
	p := m.providers.findProvider(n.name)
	switch {
	case p == nil:
		m.addWarning(n.origin, fmt.Sprintf("there is no extension provider %q in the mesh configuration", n.name))
	case p.GetPrometheus() == nil:
		m.addWarning(n.origin, notFor(p, "metrics"))
	default:
		return true
	}
	return false
}

// tailorMetrics returns all standard metrics with the overrides in the entries of a provider that
// apply to the side. Disabled ones are included.
func tailorMetrics(s side, all []entry[*telemetry.Metrics], provider string) []tailored {
	var list []tailored
	for _, standard := range standardMetrics() {
		t := tailored{metric: standard}
		for _, e := range all {
			if slices.ContainsFunc(e.providers, func(n named) bool { return n.name == provider }) {
				t.applyOverrides(s, e.value.GetOverrides())
			}
		}
		list = append(list, t)
	}
	return list
}

// atEnd returns copies of loggers of TCP proxies that log only when connections end, and not when
// they are established. The filters of logs apply in addition.
func atEnd(logs []*accesslogv3.AccessLog) []*accesslogv3.AccessLog {
	var list []*accesslogv3.AccessLog
	for _, l := range logs {
		list = append(
			list,
			&accesslogv3.AccessLog{
				Name:       l.GetName(),
				ConfigType: l.GetConfigType(),
				Filter:     allOf(onEnd(), l.GetFilter()),
			},
		)
	}
	return list
}
