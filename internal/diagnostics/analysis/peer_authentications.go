package analysis

import (
	"fmt"
	"maps"
	"slices"

	security "istio.io/api/security/v1beta1"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/code"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// reportPeerAuthentications adds a Warning for each policy without effect: one with a selector in
// the root namespace, or with the same selector as an older policy of its namespace. An unset
// selector is for all workloads of the namespace. Each policy has one Warning, about the oldest
// such policy.
func (a *analyzer) reportPeerAuthentications() {
	list := slices.SortedFunc(slices.Values(a.s.Configs(api.PeerAuthentication)), config.CompareAge)
	for i, c := range list {
		labels := config.Spec[*security.PeerAuthentication](c).GetSelector().GetMatchLabels()
		if c.Namespace == a.s.Settings.RootNamespace && len(labels) > 0 {
			a.warn(
				code.IneffectivePolicy,
				c,
				"spec.selector",
				"selects nothing in the root namespace, where only a policy for all workloads of the mesh has effect",
			)
			continue
		}
		older := slices.IndexFunc(list[:i], func(o *config.Config) bool {
			return o.Namespace == c.Namespace &&
				maps.Equal(labels, config.Spec[*security.PeerAuthentication](o).GetSelector().GetMatchLabels())
		})
		if older >= 0 {
			a.warn(
				code.OverriddenObject,
				c,
				"spec.selector",
				fmt.Sprintf("has no effect: the older %s is for the same workloads", list[older].Key),
			)
		}
	}
}
