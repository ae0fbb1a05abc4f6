package patch

import (
	"slices"

	networking "istio.io/api/networking/v1alpha3"
)

type filterClass = networking.EnvoyFilter_Patch_FilterClass

// filterClasses has the names of the filters of each class: generated filters, and filters that
// patches have added with the class.
type filterClasses map[filterClass][]string

// addFilter records that a filter with the name was added with class AUTHN or AUTHZ. It ignores
// other classes.
func (c filterClasses) addFilter(class filterClass, name string) {
	if class == networking.EnvoyFilter_Patch_AUTHN || class == networking.EnvoyFilter_Patch_AUTHZ {
		c[class] = append(c[class], name)
	}
}

// httpClasses returns the names of HTTP filters by class: AUTHN, AUTHZ and STATS. AUTHN also has
// grpc_web and Istio's metadata exchange, which come before authentication.
func httpClasses() filterClasses {
	return filterClasses{
		// The first two come before authentication, and so before filters that follow it.
		networking.EnvoyFilter_Patch_AUTHN: {
			"envoy.filters.http.grpc_web", "istio.metadata_exchange",
			"envoy.filters.http.jwt_authn", "istio_authn",
		},
		networking.EnvoyFilter_Patch_AUTHZ: {"envoy.filters.http.rbac", "envoy.filters.http.ext_authz"},
		networking.EnvoyFilter_Patch_STATS: {"istio.stats"},
	}
}

// networkClasses returns the names of the generated network filters of the classes AUTHZ and STATS.
// Class AUTHN has none.
func networkClasses() filterClasses {
	return filterClasses{
		networking.EnvoyFilter_Patch_AUTHZ: {"envoy.filters.network.rbac", "envoy.filters.network.ext_authz"},
		networking.EnvoyFilter_Patch_STATS: {"istio.stats"},
	}
}

// filterName has the properties of a filter that determine the position of an added one.
type filterName struct {
	name     string
	terminal bool
}

// positionOfClass returns the index at which to add a filter with a class (Patch.FilterClass). For
// AUTHN it is after all filters of class AUTHN, for AUTHZ after all of AUTHN and AUTHZ; 0 without
// any. For STATS it is before the first filter of that class. Without one, and for other classes,
// it is the end, but before a terminal filter.
func positionOfClass(filters []filterName, classes filterClasses, class filterClass) int {
	end := len(filters)
	if end > 0 && filters[end-1].terminal {
		end--
	}
	is := func(f filterName, class filterClass) bool { return slices.Contains(classes[class], f.name) }
	behind := 0 // index after the last filter that must come before
	for i, f := range filters[:end] {
		if is(f, networking.EnvoyFilter_Patch_AUTHN) ||
			class == networking.EnvoyFilter_Patch_AUTHZ && is(f, networking.EnvoyFilter_Patch_AUTHZ) {
			behind = i + 1
		}
	}
	switch class {
	case networking.EnvoyFilter_Patch_AUTHN, networking.EnvoyFilter_Patch_AUTHZ:
		return behind
	case networking.EnvoyFilter_Patch_STATS:
		if i := slices.IndexFunc(
			filters[:end],
			func(f filterName) bool { return is(f, networking.EnvoyFilter_Patch_STATS) },
		); i >= 0 {
			return i
		}
	}
	return end
}
