package snapshot

import (
	"slices"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/config"
)

// PatchesSecurityFilters reports whether a patch of the list modifies the HTTP filters of security
// policies or is placed relative to them. These filters must then be part of the listener, where
// the patch looks for them. It returns false for an empty list.
func (s *Snapshot) PatchesSecurityFilters(list PatchList) bool {
	if list == "" {
		return false
	}
	return slices.ContainsFunc(s.EnvoyPatches(list), func(p EnvoyPatch) bool {
		return patchesSecurityFilters(config.Spec[*networking.EnvoyFilter](p.Filter).GetConfigPatches()[p.Index])
	})
}

// patchesSecurityFilters reports whether a patch of HTTP filters may change or remove filters of
// security policies, or is placed relative to them, by its filterClass or the filter that it
// matches. A patch that matches no named filter does so if it merges, removes or replaces. For
// patches of anything but HTTP filters it returns false.
func patchesSecurityFilters(p *networking.EnvoyFilter_EnvoyConfigObjectPatch) bool {
	if p.GetApplyTo() != networking.EnvoyFilter_HTTP_FILTER {
		return false
	}
	switch p.GetPatch().GetFilterClass() {
	case networking.EnvoyFilter_Patch_AUTHN, networking.EnvoyFilter_Patch_AUTHZ:
		return true
	}
	switch p.GetMatch().GetListener().GetFilterChain().GetFilter().GetSubFilter().GetName() {
	case "envoy.filters.http.jwt_authn", "envoy.filters.http.rbac", "envoy.filters.http.ext_authz":
		return true
	case "": // any filter, or the filters with the type of its value
		op := p.GetPatch().GetOperation()
		return op == networking.EnvoyFilter_Patch_MERGE || op == networking.EnvoyFilter_Patch_REMOVE ||
			op == networking.EnvoyFilter_Patch_REPLACE
	default:
		return false
	}
}
