package bootstrap

import (
	"fmt"
	"strings"
)

// hostIPVariable is replaced by the node's address, in addresses and in the override. Tracing
// agents run on every node, and a pod knows its node's address only by environment variable.
// Kubernetes expands it in the pod's own variables, but not in mesh configuration or files.
const hostIPVariable = "$(HOST_IP)"

// SubstituteHostIP replaces $(HOST_IP) in a host:port by the node's address. An IPv6 address is put
// in brackets unless the user wrote them. It fails if the variable is used and hostIP is empty. An
// address without the variable is returned unchanged.
func SubstituteHostIP(address, hostIP string) (string, error) {
	if strings.Contains(hostIP, ":") {
		address = strings.ReplaceAll(address, "["+hostIPVariable+"]", hostIPVariable)
		return replaceHostIP(address, "["+hostIP+"]")
	}
	return replaceHostIP(address, hostIP)
}

// replaceHostIP returns text with the variable replaced by hostIP. It returns an error if the
// variable is used and hostIP is empty.
func replaceHostIP(text, hostIP string) (string, error) {
	if !strings.Contains(text, hostIPVariable) {
		return text, nil
	}
	if hostIP == "" {
		return "", fmt.Errorf("address uses %s, but the environment variable HOST_IP is not set", hostIPVariable)
	}
	return strings.ReplaceAll(text, hostIPVariable, hostIP), nil
}
