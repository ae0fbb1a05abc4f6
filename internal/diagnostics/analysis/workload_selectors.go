package analysis

import (
	"fmt"
	"maps"
	"slices"

	networking "istio.io/api/networking/v1alpha3"
	security "istio.io/api/security/v1beta1"
	telemetry "istio.io/api/telemetry/v1alpha1"
	typev1beta1 "istio.io/api/type/v1beta1"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/code"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// labelSets are the distinct labels of the workloads of each namespace.
type labelSets map[string][]map[string]string

// collectLabelSets returns the labels of all workloads by namespace. Workloads of one owner usually
// have the same labels, which are listed once. The maps are the snapshot's and must not be
// modified.
func collectLabelSets(s *snapshot.Snapshot) labelSets {
	type owner struct{ namespace, name string }
	sets, byOwner := labelSets{}, map[owner][]map[string]string{}
	for _, w := range s.Workloads() {
		o := owner{w.Namespace, w.Owner}
		if slices.ContainsFunc(byOwner[o], func(l map[string]string) bool { return maps.Equal(l, w.Labels) }) {
			continue
		}
		byOwner[o] = append(byOwner[o], w.Labels)
		sets[w.Namespace] = append(sets[w.Namespace], w.Labels)
	}
	return sets
}

// has reports whether a workload of the namespace, or of any namespace if it is "", matches a
// selector. An empty selector matches nothing. A namespace without workloads has none.
func (l labelSets) has(namespace string, selector map[string]string) bool {
	matches := func(labels map[string]string) bool { return snapshot.SelectorMatches(selector, labels) }
	if namespace != "" {
		return slices.ContainsFunc(l[namespace], matches)
	}
	for _, list := range l {
		if slices.ContainsFunc(list, matches) {
			return true
		}
	}
	return false
}

// selectorField returns the label selector of an object that applies to workloads, and its field.
// The selector is empty for objects without one; both are empty for objects of other kinds.
func selectorField(c *config.Config) (field string, selector map[string]string) {
	switch spec := c.Spec.(type) {
	case *networking.Sidecar:
		return "spec.workloadSelector", spec.GetWorkloadSelector().GetLabels()
	case *networking.EnvoyFilter:
		return "spec.workloadSelector", spec.GetWorkloadSelector().GetLabels()
	case *security.AuthorizationPolicy, *security.RequestAuthentication, *security.PeerAuthentication,
		*telemetry.Telemetry:
		withSelector, ok := spec.(interface {
			GetSelector() *typev1beta1.WorkloadSelector
		})
		if !ok {
			return "", nil
		}
		return "spec.selector", withSelector.GetSelector().GetMatchLabels()
	default:
		return "", nil
	}
}

// reportWorkloadSelectors adds a Warning for each policy, Telemetry, Sidecar or EnvoyFilter that
// selects no known workload. If no workload is known at all, as with manually started proxies, it
// does nothing. In the root namespace, the selector is for the whole mesh; PeerAuthentications and
// Sidecars there are skipped. So are converted objects (Extension) and objects without a selector.
// It then calls reportSidecarSelectors.
func (a *analyzer) reportWorkloadSelectors() {
	sets := collectLabelSets(a.s)
	if len(sets) == 0 {
		return
	}
	for _, kind := range []api.Kind{
		api.AuthorizationPolicy,
		api.RequestAuthentication,
		api.PeerAuthentication,
		api.Telemetry,
		api.Sidecar,
		api.EnvoyFilter,
	} {
		for _, c := range a.s.Configs(kind) {
			field, selector := selectorField(c)
			if len(selector) == 0 || c.Extension != nil {
				continue
			}
			namespace := c.Namespace
			if namespace == a.s.Settings.RootNamespace {
				if kind == api.PeerAuthentication || kind == api.Sidecar {
					continue // peerAuthentications reports the former; the latter is for the namespace alone
				}
				namespace = "" // the whole mesh
			}
			if !sets.has(namespace, selector) {
				a.warn(code.NoMatchingWorkloadsFound, c, field, fmt.Sprintf(
					"no known workload has the labels %s: the object applies to nothing",
					snapshot.SelectorText(selector)))
			}
		}
	}
	a.reportSidecarSelectors(sets)
}

// reportSidecarSelectors adds a Warning for each Sidecar whose selector matches a workload that an
// older Sidecar of the namespace also selects. Each has one Warning, about the oldest such Sidecar.
// Sidecars without a selector are skipped.
func (a *analyzer) reportSidecarSelectors(sets labelSets) {
	older := map[string][]*config.Config{}
	for _, c := range slices.SortedStableFunc(slices.Values(a.s.Configs(api.Sidecar)), config.CompareAge) {
		field, selector := selectorField(c)
		if len(selector) == 0 {
			continue
		}
		for _, o := range older[c.Namespace] {
			_, first := selectorField(o)
			both := maps.Clone(selector)
			maps.Copy(both, first)
			if !labelsContradict(selector, first) && sets.has(c.Namespace, both) {
				a.warn(code.ConflictingSidecarWorkloadSelectors, c, field, fmt.Sprintf(
					"Sidecar %q is older and selects some of these workloads too: it applies to them instead", o.Name))
				break
			}
		}
		older[c.Namespace] = append(older[c.Namespace], c)
	}
}
