package inject

import (
	"strconv"
	"strings"
)

// nativeMinor is the minor version 1.x of Kubernetes in which init containers that keep running (sidecars) are stable.
const nativeMinor = 33

// NativeSidecars says whether a node whose kubelet has this version, like v1.33.2+k3s1, runs sidecars as init containers.
func NativeSidecars(kubelet string) bool {
	parts := strings.SplitN(strings.TrimPrefix(kubelet, "v"), ".", 3)
	if len(parts) < 2 {
		return false
	}
	major, err1 := strconv.Atoi(parts[0])
	minor, err2 := strconv.Atoi(strings.TrimRight(parts[1], "+"))
	return err1 == nil && err2 == nil && (major > 1 || major == 1 && minor >= nativeMinor)
}
