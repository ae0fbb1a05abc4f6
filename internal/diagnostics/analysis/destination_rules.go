package analysis

import (
	"fmt"
	"slices"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/code"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// reportDestinationRules adds Warnings for rules for hosts without a service, and for settings that
// an older rule overrides (reportOverriddenSettings). The older rule must have the same namespace,
// host and workloadSelector.
func (a *analyzer) reportDestinationRules() {
	older := map[sharedHost][]*config.Config{}
	rules := slices.SortedStableFunc(slices.Values(a.s.Configs(api.DestinationRule)), config.CompareAge)
	for _, c := range rules {
		spec := config.Spec[*networking.DestinationRule](c)
		host := a.reportRuleHost(c)
		shared := sharedHost{namespace: c.Namespace, host: host, selects: spec.WorkloadSelector != nil}
		shared.selector = snapshot.SelectorText(spec.GetWorkloadSelector().GetMatchLabels())
		a.reportOverriddenSettings(c, older[shared])
		older[shared] = append(older[shared], c)
	}
}

// reportRuleHost adds a Warning for a rule for a host without a service. In any case it returns the
// full name of the host. A wildcard and an empty host are not reported.
func (a *analyzer) reportRuleHost(c *config.Config) mesh.Hostname {
	host := a.ruleHost(c)
	if host != "" && !host.IsWildcard() && len(a.servicesFor(host)) == 0 {
		a.warn(code.UnknownDestinationRuleHost, c, "spec.host",
			fmt.Sprintf("no service has the host %q: the rule applies to nothing", host))
	}
	return host
}

// sharedHost identifies the DestinationRules that are merged for the same clients of a host.
type sharedHost struct {
	namespace string
	host      mesh.Hostname
	selects   bool // also true without labels, for all workloads of the namespace
	selector  string
}

// reportOverriddenSettings adds Warnings on c for its traffic policy and for each of its subsets
// that is also set by a rule of older. There is a Warning for each such older rule. Subsets are
// compared by name.
func (a *analyzer) reportOverriddenSettings(c *config.Config, older []*config.Config) {
	spec := config.Spec[*networking.DestinationRule](c)
	for _, o := range older {
		first := config.Spec[*networking.DestinationRule](o)
		if spec.TrafficPolicy != nil && first.TrafficPolicy != nil {
			a.warn(
				code.OverriddenObject,
				c,
				"spec.trafficPolicy",
				fmt.Sprintf(
					"DestinationRule %q is older and has one for this host: clients that see both go by that one",
					o.Name),
			)
		}
		for i, s := range spec.Subsets {
			if config.Subset(first, s.Name) != nil {
				a.warn(
					code.OverriddenObject,
					c,
					fmt.Sprintf("spec.subsets[%d]", i),
					fmt.Sprintf(
						"DestinationRule %q is older and has a subset %q of this host: clients that see both go by that one",
						o.Name, s.Name),
				)
			}
		}
	}
}
