package inject

import (
	"strconv"
	"strings"

	"istio.io/api/annotation"
)

// nativeMinor is the minor version of Kubernetes 1.x in which native sidecars (init containers that
// keep running) are stable.
const nativeMinor = 33

// SupportsNativeSidecars reports whether a node with this kubelet version, such as v1.33.2+k3s1,
// supports native sidecars: 1.33 or later. It returns false for versions that it cannot parse.
func SupportsNativeSidecars(kubelet string) bool {
	parts := strings.SplitN(strings.TrimPrefix(kubelet, "v"), ".", 3)
	if len(parts) < 2 {
		return false
	}
	major, err1 := strconv.Atoi(parts[0])
	minor, err2 := strconv.Atoi(strings.TrimRight(parts[1], "+"))
	return err1 == nil && err2 == nil && (major > 1 || major == 1 && minor >= nativeMinor)
}

// usesNativeSidecar reports whether the proxy must be a native sidecar, by the pod's annotation or
// else by the request. As in the templates, also in Istio's, each value but "false" and "" counts
// as true.
func (j *injection) usesNativeSidecar() bool {
	if v := j.pod.Annotations[annotation.SidecarNativeSidecar.Name]; v != "" {
		return v != "false"
	}
	return j.NativeSidecars
}
