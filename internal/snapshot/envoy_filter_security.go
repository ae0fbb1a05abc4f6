package snapshot

import (
	"slices"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/config"
)

// SeekPolicies says whether patches look for the HTTP filters that policies make, or place others by them: then those must be where
// they are looked for, in the listener.
func (s *Snapshot) SeekPolicies(list PatchList) bool {
	if list == "" {
		return false
	}
	return slices.ContainsFunc(s.EnvoyPatches(list), func(p EnvoyPatch) bool {
		return seeksPolicies(config.Spec[*networking.EnvoyFilter](p.Filter).GetConfigPatches()[p.Index])
	})
}

func seeksPolicies(p *networking.EnvoyFilter_EnvoyConfigObjectPatch) bool {
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
	case "": // any filter, or those of the type of its value
		op := p.GetPatch().GetOperation()
		return op == networking.EnvoyFilter_Patch_MERGE || op == networking.EnvoyFilter_Patch_REMOVE || op == networking.EnvoyFilter_Patch_REPLACE
	default:
		return false
	}
}
