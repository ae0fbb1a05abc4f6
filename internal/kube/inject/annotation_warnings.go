package inject

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"istio.io/api/annotation"
)

// annotationWarnings say what of a pod's annotations will not do what it looks like: names that are nearly known ones, values
// that do not count.
func annotationWarnings(annotations map[string]string) []string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(annotations)) {
		if known, near := nearAnnotation(name); near {
			list = append(list, fmt.Sprintf("annotation %s: there is none of this name; is %s meant?", name, known))
		}
	}
	for _, name := range []string{annotation.SidecarRewriteAppHTTPProbers.Name, annotation.SidecarNativeSidecar.Name} {
		v, ok := annotations[name]
		if _, err := strconv.ParseBool(v); ok && err != nil {
			list = append(list, fmt.Sprintf("annotation %s: %q is neither true nor false: it does not count", name, v))
		}
	}
	if _, ok := annotations[annotation.SidecarStatusReadinessApplicationPorts.Name]; ok {
		list = append(list, fmt.Sprintf("annotation %s: the proxy's readiness does not depend on the ports of the application: it does not count",
			annotation.SidecarStatusReadinessApplicationPorts.Name))
	}
	return list
}

// nearAnnotation finds the annotation of Istio that a name must mean, which is spelled otherwise in nothing but case.
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
