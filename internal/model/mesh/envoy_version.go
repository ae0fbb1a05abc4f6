package mesh

import (
	"cmp"
	"fmt"
)

// EnvoyVersion is the release of a proxy's Envoy. The zero value means that the proxy did not state
// it.
type EnvoyVersion struct{ Major, Minor, Patch uint32 }

// Compare orders releases, older ones first.
func (v EnvoyVersion) Compare(o EnvoyVersion) int {
	return cmp.Or(cmp.Compare(v.Major, o.Major), cmp.Compare(v.Minor, o.Minor), cmp.Compare(v.Patch, o.Patch))
}

// String returns "1.36.4", or "" for the zero value.
func (v EnvoyVersion) String() string {
	if v == (EnvoyVersion{}) {
		return ""
	}
	return fmt.Sprintf("%d.%d.%d", v.Major, v.Minor, v.Patch)
}
