package view

import (
	"slices"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// sidecarFor returns the Sidecar that applies to a proxy: the oldest in its namespace whose
// selector matches labels, else the oldest there without a selector, else the oldest in the root
// namespace without a selector. It returns nil if there is none.
func sidecarFor(s *snapshot.Snapshot, namespace string, labels map[string]string) *config.Config {
	type key struct{ namespace string }
	byAge := func(ns string) []*config.Config {
		return snapshot.Derive(s.Visibility, key{ns}, func() []*config.Config {
			var list []*config.Config
			for _, c := range s.Configs(api.Sidecar) {
				if c.Namespace == ns {
					list = append(list, c)
				}
			}
			slices.SortFunc(list, config.CompareAge)
			return list
		})
	}
	var general *config.Config
	for _, c := range byAge(namespace) {
		selector := config.Spec[*networking.Sidecar](c).GetWorkloadSelector()
		if selector == nil || len(selector.Labels) == 0 {
			if general == nil {
				general = c
			}
		} else if snapshot.SelectorMatches(selector.Labels, labels) {
			return c
		}
	}
	if general != nil || namespace == s.Settings.RootNamespace {
		return general
	}
	for _, c := range byAge(s.Settings.RootNamespace) {
		if len(config.Spec[*networking.Sidecar](c).GetWorkloadSelector().GetLabels()) == 0 {
			return c
		}
	}
	return nil
}
