package inject

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"istio.io/api/annotation"
)

// annotationWarnings returns warnings about annotations without effect or with an unexpected one,
// nil if there are none. These are names that differ from Istio's in case only,
// rewriteAppHTTPProbers and nativeSidecar without a boolean, and the unsupported readiness of
// application ports. A nativeSidecar such as "0" or "False", which is taken as true, is one too.
func annotationWarnings(annotations map[string]string) []string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(annotations)) {
		if known, near := nearAnnotation(name); near {
			list = append(list, fmt.Sprintf("annotation %s is unknown; did you mean %s?", name, known))
		}
	}
	for _, name := range []string{annotation.SidecarRewriteAppHTTPProbers.Name, annotation.SidecarNativeSidecar.Name} {
		v, ok := annotations[name]
		on, err := strconv.ParseBool(v)
		switch {
		case !ok:
		case name == annotation.SidecarNativeSidecar.Name && !on && v != "false" && v != "":
			list = append(list, fmt.Sprintf("annotation %s: %q is not false and counts as true", name, v))
		case err != nil:
			list = append(list, fmt.Sprintf("annotation %s: %q is neither true nor false and is ignored", name, v))
		}
	}
	if _, ok := annotations[annotation.SidecarStatusReadinessApplicationPorts.Name]; ok {
		list = append(
			list,
			fmt.Sprintf(
				"annotation %s is ignored: the proxy's readiness does not depend on the application's ports",
				annotation.SidecarStatusReadinessApplicationPorts.Name),
		)
	}
	return list
}

// nearAnnotation returns the Istio annotation that differs from name in case only. It returns false
// if there is none, or name is right or of another domain.
func nearAnnotation(name string) (string, bool) {
	if domain, _, _ := strings.Cut(name, "/"); domain != "istio.io" && !strings.HasSuffix(domain, ".istio.io") {
		return "", false
	}
	for _, a := range annotation.AllResourceAnnotations() {
		if a.Name != name && strings.EqualFold(a.Name, name) {
			return a.Name, true
		}
	}
	return "", false
}
