package options

import (
	"slices"
	"strings"

	"github.com/meshpilot/meshpilot/internal/model/api"
)

// IgnoredResources selects custom resources that are not read from any API server. A pattern is the
// name of a CustomResourceDefinition, such as "wasmplugins.extensions.istio.io", or "*." with the
// end of such names: "*.istio.io" matches all kinds of Istio. The zero value selects none.
type IgnoredResources struct {
	// Resources are patterns of the resources that are not read (PILOT_IGNORE_RESOURCES).
	Resources []string
	// Except are patterns of resources that are read although Resources matches them
	// (PILOT_INCLUDE_RESOURCES).
	Except []string
}

// Contains reports whether a kind is not read: an entry of Resources matches its name,
// "PLURAL.GROUP", and no entry of Except does. The entry "*.SUFFIX" matches all names that end in
// SUFFIX. It returns false for kinds that no CustomResourceDefinition defines.
func (r IgnoredResources) Contains(kind api.Kind) bool {
	info, ok := api.Info(kind)
	if !ok || !info.Custom {
		return false
	}
	matches := func(pattern string) bool {
		suffix, isSuffix := strings.CutPrefix(pattern, "*.")
		name := info.Plural + "." + info.Group
		return name == pattern || isSuffix && strings.HasSuffix(name, suffix)
	}
	return slices.ContainsFunc(r.Resources, matches) && !slices.ContainsFunc(r.Except, matches)
}
