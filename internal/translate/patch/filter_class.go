package patch

import (
	"slices"

	networking "istio.io/api/networking/v1alpha3"
)

type filterClass = networking.EnvoyFilter_Patch_FilterClass

// filterClasses says which filters of a list are of which class, by name: those that are generated, and those that patches
// have added and others go behind.
type filterClasses map[filterClass][]string

func (c filterClasses) put(class filterClass, name string) {
	if class == networking.EnvoyFilter_Patch_AUTHN || class == networking.EnvoyFilter_Patch_AUTHZ {
		c[class] = append(c[class], name)
	}
}

func httpClasses() filterClasses {
	return filterClasses{
		// The first two come before authentication, and so before what comes behind it.
		networking.EnvoyFilter_Patch_AUTHN: {"envoy.filters.http.grpc_web", "istio.metadata_exchange", "envoy.filters.http.jwt_authn", "istio_authn"},
		networking.EnvoyFilter_Patch_AUTHZ: {"envoy.filters.http.rbac", "envoy.filters.http.ext_authz"},
		networking.EnvoyFilter_Patch_STATS: {"istio.stats"},
	}
}

func networkClasses() filterClasses {
	return filterClasses{
		networking.EnvoyFilter_Patch_AUTHZ: {"envoy.filters.network.rbac", "envoy.filters.network.ext_authz"},
		networking.EnvoyFilter_Patch_STATS: {"istio.stats"},
	}
}

// filterName is what of a filter matters for where another goes.
type filterName struct {
	name     string
	terminal bool
}

// placeOfClass gives the place of a filter that is added (Patch.FilterClass): behind those that authenticate, behind those
// that authorize, before those that count, or else at the end; always before the filter that ends the list. Of a class of
// which there are none it goes where they would be, which is in front of what comes later.
func placeOfClass(filters []filterName, classes filterClasses, class filterClass) int {
	end := len(filters)
	if end > 0 && filters[end-1].terminal {
		end--
	}
	is := func(f filterName, class filterClass) bool { return slices.Contains(classes[class], f.name) }
	behind := 0 // the last that must come before
	for i, f := range filters[:end] {
		if is(f, networking.EnvoyFilter_Patch_AUTHN) || class == networking.EnvoyFilter_Patch_AUTHZ && is(f, networking.EnvoyFilter_Patch_AUTHZ) {
			behind = i + 1
		}
	}
	switch class {
	case networking.EnvoyFilter_Patch_AUTHN, networking.EnvoyFilter_Patch_AUTHZ:
		return behind
	case networking.EnvoyFilter_Patch_STATS:
		if i := slices.IndexFunc(filters[:end], func(f filterName) bool { return is(f, networking.EnvoyFilter_Patch_STATS) }); i >= 0 {
			return i
		}
	}
	return end
}
