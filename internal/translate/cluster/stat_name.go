package cluster

import (
	"strconv"
	"strings"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// outboundStatName returns the pattern of MeshConfig.outboundClusterStatName with its variables
// replaced, or "" if pattern is "" or svc is nil. Envoy then uses the cluster's name.
func outboundStatName(pattern string, svc *mesh.Service, port mesh.Port, subset string) string {
	return statName(pattern, svc, port, subset, 0)
}

// inboundStatName returns the pattern of MeshConfig.inboundClusterStatName with its variables
// replaced, or "" if pattern is "" or svc is nil. Envoy then uses the cluster's name. target is the
// port on the workload.
func inboundStatName(pattern string, svc *mesh.Service, port mesh.Port, target uint32) string {
	return statName(pattern, svc, port, "", target)
}

// statName replaces the variables of a pattern (MeshConfig.inboundClusterStatName,
// outboundClusterStatName). It returns "" if pattern is "" or svc is nil. %SERVICE% is
// "NAME.NAMESPACE" for Kubernetes Services, otherwise the host. target is the port on the workload,
// 0 for outbound clusters.
func statName(pattern string, svc *mesh.Service, port mesh.Port, subset string, target uint32) string {
	if pattern == "" || svc == nil {
		return ""
	}
	short, n := string(svc.Host), nameOf(svc)
	if svc.Provider == mesh.Kubernetes {
		short = svc.Name + "." + svc.Namespace
	}
	return strings.NewReplacer(
		"%SERVICE%", short,
		"%SERVICE_NAME%", n.Name,
		"%SERVICE_FQDN%", string(svc.Host),
		"%SERVICE_PORT%", formatNumber(port.Number),
		"%SERVICE_PORT_NAME%", port.Name,
		"%TARGET_PORT%", formatNumber(target),
		"%SUBSET_NAME%", subset,
	).Replace(pattern)
}

// formatNumber returns n in decimal.
func formatNumber(n uint32) string { return strconv.FormatUint(uint64(n), 10) }
