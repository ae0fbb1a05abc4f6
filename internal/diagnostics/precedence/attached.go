package precedence

import (
	"slices"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
)

// sidecarRelations compares the Sidecar c with the Sidecar that applies to the View's proxies,
// which have the given labels. It returns nil if c is in another namespace or selects other
// workloads, or if no Sidecar applies. Only one applies: the oldest that selects the workload, else
// the oldest of the namespace without a selector, else the oldest without a selector in the root
// namespace.
func sidecarRelations(v *view.View, labels map[string]string, c *config.Config) []Relation {
	if v.Sidecar == nil || !isSidecarCandidate(v, labels, c) {
		return nil
	}
	if v.Sidecar.Key != c.Key {
		return []Relation{{
			Effect: Loses, Object: v.Sidecar.Key, Subject: "proxies of namespace " + v.Key.Namespace,
			Reason: sidecarReason(v.Sidecar, c),
		}}
	}
	var list []Relation
	for _, other := range v.Snapshot.Configs(api.Sidecar) {
		if other != c && isSidecarCandidate(v, labels, other) {
			list = append(list, Relation{
				Effect: Prevails, Object: other.Key, Subject: "proxies of namespace " + v.Key.Namespace,
				Reason: sidecarReason(c, other),
			})
		}
	}
	return list
}

// isSidecarCandidate reports whether a Sidecar could apply to proxies of the View with the given
// labels if there were no other one: it is in their namespace and has no selector or a selector
// that matches the labels, or it is in the root namespace and has no selector.
func isSidecarCandidate(v *view.View, labels map[string]string, c *config.Config) bool {
	selector := sidecarSelector(c)
	if c.Namespace == v.Key.Namespace && len(selector) > 0 {
		return snapshot.SelectorMatches(selector, labels)
	}
	return len(selector) == 0 && (c.Namespace == v.Key.Namespace || c.Namespace == v.Settings.RootNamespace)
}

// sidecarSelector returns the labels of the workloadSelector of a Sidecar, or nil if it has none.
func sidecarSelector(c *config.Config) map[string]string {
	return config.Spec[*networking.Sidecar](c).GetWorkloadSelector().GetLabels()
}

// sidecarReason returns the reason why the Sidecar used applies and other does not. Both are
// candidates. A selector precedes none, the namespace of the proxies the root namespace, and older
// objects younger ones.
func sidecarReason(used, other *config.Config) string {
	switch {
	case len(sidecarSelector(used)) > 0 && len(sidecarSelector(other)) == 0:
		return "it selects the workload"
	case used.Namespace != other.Namespace:
		return "it is in the namespace of the proxies"
	default:
		return "it is older, or of equal age and the first by name"
	}
}

// telemetryRelations returns the other Telemetry objects of the View's proxies, each of which is
// merged over the preceding ones. It also returns objects that make the object k ineffective, or
// that it makes so, because the older of two without a selector applies.
func telemetryRelations(v *view.View, k config.Key) []Relation {
	keys := v.Key.Telemetry
	var list []Relation
	for _, x := range v.Snapshot.ShadowedTelemetries(k.Namespace) {
		switch k {
		case x.Key:
			list = append(list, Relation{Effect: Loses, Object: x.Older, Reason: "it is older and has the same scope"})
		case x.Older:
			list = append(list, Relation{Effect: Prevails, Object: x.Key, Reason: "it is older and has the same scope"})
		}
	}
	all := []config.Key{keys.Mesh, keys.Namespace}
	for _, c := range v.Snapshot.Policies(api.Telemetry, keys.Workload) {
		all = append(all, c.Key)
	}
	return append(list, layered(all, k)...)
}

// peerAuthenticationRelations returns the other PeerAuthentications of the View's proxies. It
// returns nil if k does not apply to them.
func peerAuthenticationRelations(v *view.View, k config.Key) []Relation {
	p := v.Key.PeerAuthentications
	return layered([]config.Key{p.Mesh, p.Namespace, p.Workload}, k)
}

// layered returns the relations of an object to the others in a list. keys are the mesh's, the
// namespace's and the workload's, oldest first; each object overrides the preceding ones.
// Preceding objects have the effect MergedFirst, later ones MergedAfter. Empty keys are skipped. It
// returns nil if the object is not in the list.
func layered(keys []config.Key, k config.Key) []Relation {
	at := slices.Index(keys, k)
	if at < 0 {
		return nil
	}
	const reason = "settings of the workload precede those of the namespace, which precede those of the mesh"
	var list []Relation
	for i, other := range keys {
		switch {
		case other == (config.Key{}) || i == at:
		case i < at:
			list = append(list, Relation{Effect: MergedFirst, Object: other, Reason: reason})
		default:
			list = append(list, Relation{Effect: MergedAfter, Object: other, Reason: reason})
		}
	}
	return list
}

// policyRelations returns a relation Combined to each other policy of k's kind that applies to the
// View's proxies. names is their list in the View's Key. It returns nil if k does not apply.
func policyRelations(v *view.View, k config.Key, names string) []Relation {
	reason := "CUSTOM policies are evaluated first, then DENY, then ALLOW"
	if k.Kind == api.RequestAuthentication {
		reason = "a token of any of their issuers is accepted"
	}
	list := v.Snapshot.Policies(k.Kind, names)
	if !slices.ContainsFunc(list, func(c *config.Config) bool { return c.Key == k }) {
		return nil
	}
	var found []Relation
	for _, c := range list {
		if c.Key != k {
			found = append(found, Relation{Effect: Combined, Object: c.Key, Reason: reason})
		}
	}
	return found
}

// pluginRelations returns a relation Combined to each other WasmPlugin and TrafficExtension that
// applies to the View's proxies. It returns nil if k does not apply.
func pluginRelations(v *view.View, k config.Key) []Relation {
	list := v.Snapshot.Plugins(v.Key.Plugins)
	if !v.Key.Plugins.Has(k) {
		return nil
	}
	var found []Relation
	for _, c := range list {
		if c.Key != k {
			found = append(found, Relation{
				Effect: Combined, Object: c.Key, Reason: "filters are ordered by phase, then by priority, then by age",
			})
		}
	}
	return found
}

// envoyFilterRelations returns the relations of k to other EnvoyFilters that patch the same type of
// resources of the View's proxies: one for each of their patches, so with duplicates. The effect is
// AppliedAfter for patches before the ones of k, and AppliedBefore for later ones. Types that k
// does not patch are skipped.
func envoyFilterRelations(v *view.View, k config.Key) []Relation {
	n := v.Key.EnvoyFilterPatches
	var found []Relation
	for _, names := range []snapshot.PatchList{n.Clusters, n.Listeners, n.Routes, n.Extensions} {
		if !names.Has(k) {
			continue
		}
		effect := AppliedAfter
		for _, patch := range v.Snapshot.EnvoyPatches(names) {
			if patch.Filter.Key == k {
				effect = AppliedBefore
				continue
			}
			found = append(found, Relation{
				Effect: effect, Object: patch.Filter.Key,
				Reason: "the order is by priority, then the root namespace first, then by age",
			})
		}
	}
	return found
}
