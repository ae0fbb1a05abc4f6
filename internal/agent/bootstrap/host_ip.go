package bootstrap

import (
	"fmt"
	"strings"
)

// hostIPVariable stands for the node's address in addresses and in the override. Agents for tracing run on every node,
// and a pod knows its node by variable only. Kubernetes replaces it in the pod's own variables, but not in what comes
// from the mesh configuration or a file.
const hostIPVariable = "$(HOST_IP)"

// WithHostIP puts the node's address into a host:port. One of IPv6 takes brackets, which the user may have written.
func WithHostIP(address, hostIP string) (string, error) {
	if strings.Contains(hostIP, ":") {
		address = strings.ReplaceAll(address, "["+hostIPVariable+"]", hostIPVariable)
		return replaceHostIP(address, "["+hostIP+"]")
	}
	return replaceHostIP(address, hostIP)
}

func replaceHostIP(text, hostIP string) (string, error) {
	if !strings.Contains(text, hostIPVariable) {
		return text, nil
	}
	if hostIP == "" {
		return "", fmt.Errorf("it names %s, but the environment variable HOST_IP is not set", hostIPVariable)
	}
	return strings.ReplaceAll(text, hostIPVariable, hostIP), nil
}
