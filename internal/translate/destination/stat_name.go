package destination

import (
	"strconv"
	"strings"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// StatName returns a pattern of MeshConfig (inboundClusterStatName, outboundClusterStatName) with
// its variables replaced. It returns "" if pattern is "" or svc is nil: statistics then have the
// name of the cluster. %SERVICE% is "NAME.NAMESPACE" for Kubernetes Services, otherwise the host.
// target is the port on the workload, 0 for outbound clusters.
func StatName(pattern string, svc *mesh.Service, port mesh.Port, subset string, target uint32) string {
	if pattern == "" || svc == nil {
		return ""
	}
	short, name := string(svc.Host), string(svc.Host)
	if svc.Provider == mesh.Kubernetes {
		short, name = svc.Name+"."+svc.Namespace, svc.Name
	}
	number := func(n uint32) string { return strconv.FormatUint(uint64(n), 10) }
	return strings.NewReplacer(
		"%SERVICE%", short,
		"%SERVICE_NAME%", name,
		"%SERVICE_FQDN%", string(svc.Host),
		"%SERVICE_PORT%", number(port.Number),
		"%SERVICE_PORT_NAME%", port.Name,
		"%TARGET_PORT%", number(target),
		"%SUBSET_NAME%", subset,
	).Replace(pattern)
}
