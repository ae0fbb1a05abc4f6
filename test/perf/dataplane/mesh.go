package dataplane

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/meshpilot/meshpilot/test/perf/workload"
)

// Features are the parts of a mesh that are switched on and off.
type Features struct {
	// Metrics counts requests and connections in sidecars, as Istio does by default.
	Metrics bool
	// AccessLog writes a line for each request and connection.
	AccessLog bool
	// Policies restricts who may call the service, by ten rules of which the last one allows the client.
	Policies bool
	// Plaintext disables mutual TLS between client and service.
	Plaintext bool
}

// String returns the features that are switched on, "" if none is.
func (f Features) String() string {
	var list []string
	for _, x := range []struct {
		on   bool
		name string
	}{{f.Plaintext, "plain text"}, {f.Metrics, "metrics"}, {f.AccessLog, "access log"}, {f.Policies, "policies"}} {
		if x.on {
			list = append(list, x.name)
		}
	}
	return strings.Join(list, ", ")
}

// writeMesh writes the objects of a mesh of a number of services into a new directory: the mesh of
// the group main of meshbench, in which the sidecar sees all services.
func writeMesh(dir string, services int, f Features) error {
	const endpoints, routes, namespaces = 10, 4, 20
	m, err := workload.New(workload.Params{
		Services: services, Endpoints: endpoints, Routes: routes, Namespaces: min(namespaces, services/2),
		Seed: 1, Scope: workload.Everything,
	})
	if err != nil {
		return err
	}
	if err := m.WriteDir(dir); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "telemetry.yaml"), []byte(f.telemetry()), 0o644)
}

// telemetry returns the object that switches metrics and access logs on or off in the whole mesh.
func (f Features) telemetry() string {
	return fmt.Sprintf(`apiVersion: telemetry.istio.io/v1
kind: Telemetry
metadata: {name: mesh, namespace: istio-system}
spec:
  metrics: [{overrides: [{disabled: %t}]}]
  accessLogging: [{providers: [{name: envoy}], disabled: %t}]
`, !f.Metrics, !f.AccessLog)
}
