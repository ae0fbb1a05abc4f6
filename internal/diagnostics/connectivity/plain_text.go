package connectivity

import (
	"cmp"
	"slices"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/translate/cluster"
)

// maxTransports limits the pairs of a class of callers and a service whose transport is computed.
const maxTransports = 500_000

// PlainTextCall is a cluster by which proxies call a service in plain text although its workloads
// accept mutual TLS.
type PlainTextCall struct {
	Service mesh.ServiceKey
	Port    uint32
	Subset  string
	// Rules are the DestinationRules that apply to the calls; none if MeshConfig or the kind of
	// service is the reason.
	Rules []config.Key
	// Namespaces are the namespaces of the callers, sorted.
	Namespaces []string

	labels map[string]string // of the subset
}

// PlainTextCalls returns the calls in plain text of workloads with a proxy, by service, port and
// subset. Services that no sidecar serves are left out. complete is false if the mesh is so large
// that not all services were considered.
func (m *Mesh) PlainTextCalls() (calls []PlainTextCall, complete bool) {
	suspects, n := m.suspectServices(), 0
	for _, svc := range suspects {
		if n += len(m.classes); n > maxTransports {
			return calls, false
		}
		calls = append(calls, m.plainTextCallsOf(svc)...)
	}
	return calls, true
}

// CallsTo returns the elements of calls that may reach the workload w: of its service ports, and of
// subsets whose labels it has. A subset without labels selects all workloads. refused[i] reports
// whether w refuses list[i], because its mode is STRICT at that port.
func (w *Workload) CallsTo(calls []PlainTextCall) (list []PlainTextCall, refused []bool) {
	for _, c := range calls {
		i := slices.IndexFunc(w.Served, func(x Served) bool { return x.Service == c.Service && x.Port == c.Port })
		if i < 0 || len(c.labels) > 0 && !snapshot.SelectorMatches(c.labels, w.labels) {
			continue
		}
		list = append(list, c)
		refused = append(refused, w.Modes.At(w.Served[i].Target).String() == "STRICT")
	}
	return list, refused
}

// suspectServices returns the services of sidecars that some proxy may call in plain text: all of
// them if automatic mutual TLS is off, and otherwise those whose callers choose the address, and
// those with a DestinationRule that has TLS settings. Services that no sidecar serves are left out.
func (m *Mesh) suspectServices() []*mesh.Service {
	exact, wildcards := map[mesh.Hostname]bool{}, []mesh.Hostname{}
	for _, c := range m.Snapshot.Configs(api.DestinationRule) {
		rule := config.Spec[*networking.DestinationRule](c)
		if !cluster.MayAvoidTLS(rule) {
			continue
		}
		host := mesh.ResolveShortName(rule.GetHost(), c.Namespace, m.Snapshot.Settings.Domain)
		exact[host] = true
		if host.IsWildcard() {
			wildcards = append(wildcards, host)
		}
	}
	all := !m.Snapshot.Settings.Mesh.GetEnableAutoMtls().GetValue()
	var list []*mesh.Service
	for _, svc := range m.Snapshot.Services() {
		suspect := all || svc.Resolution == mesh.Passthrough || exact[svc.Host] ||
			slices.ContainsFunc(wildcards, func(h mesh.Hostname) bool { return h.Covers(svc.Host) })
		if suspect && slices.ContainsFunc(m.servers[svc.ServiceKey],
			func(w *Workload) bool { return w.Role == Sidecar }) {
			list = append(list, svc)
		}
	}
	return list
}

// plainTextCallsOf returns the calls of a service in plain text. Calls with the same port, subset
// and DestinationRule are one, with the namespaces of its callers. The result is sorted by port and
// subset.
func (m *Mesh) plainTextCallsOf(svc *mesh.Service) []PlainTextCall {
	type key struct {
		port   uint32
		subset string
		rule   *snapshot.DestinationRule
	}
	found := map[key]*PlainTextCall{}
	for _, c := range m.classes {
		if own := c.view.Service(svc.Host); own == nil || own.ServiceKey != svc.ServiceKey {
			continue
		}
		rule := c.view.DestinationRule(svc.Host)
		for name, transport := range cluster.Transports(c.view, c.view.Service(svc.Host)) {
			if transport.ForEndpoint(true) != cluster.PlainText {
				continue
			}
			k := key{name.Port, name.Subset, rule}
			if found[k] == nil {
				found[k] = newPlainTextCall(svc, name, rule)
			}
			if x := found[k]; !slices.Contains(x.Namespaces, c.namespace) {
				x.Namespaces = append(x.Namespaces, c.namespace)
			}
		}
	}
	list := make([]PlainTextCall, 0, len(found))
	for _, x := range found {
		slices.Sort(x.Namespaces)
		list = append(list, *x)
	}
	slices.SortFunc(list, func(a, b PlainTextCall) int {
		return cmp.Or(cmp.Compare(a.Port, b.Port), cmp.Compare(a.Subset, b.Subset),
			slices.Compare(a.Namespaces, b.Namespaces))
	})
	return list
}

// newPlainTextCall returns the call of a cluster of svc, without callers. rule may be nil.
func newPlainTextCall(svc *mesh.Service, name mesh.ClusterName, rule *snapshot.DestinationRule) *PlainTextCall {
	x := &PlainTextCall{Service: svc.ServiceKey, Port: name.Port, Subset: name.Subset}
	if rule != nil {
		x.Rules = rule.From
		x.labels = config.Subset(rule.Spec, name.Subset).GetLabels()
	}
	return x
}
