package analysis

import (
	"fmt"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/code"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// reportWorkloadAddresses adds a Warning for each WorkloadEntry and service that selects it without
// accepting its address, so that the service lacks the endpoint. It skips services that proxies
// call at the address that the caller chose.
func (a *analyzer) reportWorkloadAddresses() {
	for _, c := range a.s.Configs(api.WorkloadEntry) {
		spec := config.Spec[*networking.WorkloadEntry](c)
		for _, svc := range a.s.ServicesWithSelector(c.Namespace) {
			need := requiredAddress(svc)
			if need == "" || !svc.SelectsWorkloadEntries || snapshot.AcceptsAddress(svc, spec.GetAddress()) ||
				!selectsEntry(svc, c) {
				continue
			}
			a.warn(code.FieldWithoutEffect, c, "spec.address", fmt.Sprintf(
				"%q is not %s, which %s %q requires of its endpoints: the workload gets no requests to %q",
				spec.GetAddress(), need, svc.From.Kind, svc.From.Name, svc.Host))
		}
	}
}

// requiredAddress returns, as a phrase, the kinds of addresses that endpoints of a service can
// have. It returns "" for a service whose proxies do not read its endpoints.
func requiredAddress(svc *mesh.Service) string {
	switch {
	case svc.Resolution == mesh.DNS, svc.Resolution == mesh.DNSRoundRobin:
		return "an IP address or host name"
	case svc.Resolution != mesh.Static:
		return ""
	case svc.Provider.IsEntry():
		return "an IP address or Unix socket"
	default:
		return "an IP address"
	}
}

// selectsEntry reports whether the selector of a service matches the labels of a WorkloadEntry. An
// empty selector matches all.
func selectsEntry(svc *mesh.Service, c *config.Config) bool {
	return len(svc.Selector) == 0 || snapshot.SelectorMatches(svc.Selector, config.WorkloadEntryLabels(c))
}
