package dataplane

import (
	"fmt"
	"net/netip"
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

// The called service, whose name is that of its workload and account too.
const (
	serverName  = "server"
	serviceHost = serverName + "." + workload.SharedNamespace + ".svc.cluster.local"
)

// serviceAddress is the virtual address of the called service.
var serviceAddress = netip.AddrFrom4([4]byte{10, 120, 0, 1}) //nolint:gochecknoglobals // a constant

// writeService adds the called service, with one endpoint, to the mesh in dir.
func writeService(dir string, endpoint netip.Addr, f Features) error {
	var text strings.Builder
	fmt.Fprintf(&text, `apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: %[1]s, namespace: %[2]s}
spec:
  hosts: [%[3]s]
  addresses: [%[4]s]
  location: MESH_INTERNAL
  resolution: STATIC
  ports:
  - {name: http, number: %[6]d, protocol: HTTP}
  - {name: http2, number: %[7]d, protocol: HTTP2}
  - {name: grpc, number: %[8]d, protocol: GRPC}
  - {name: tcp, number: %[9]d, protocol: TCP}
  endpoints: [{address: %[5]s, serviceAccount: %[1]s, labels: {app: %[1]s, security.istio.io/tlsMode: istio}}]
`, serverName, workload.SharedNamespace, serviceHost, serviceAddress, endpoint, httpPort, http2Port, grpcPort, tcpPort)
	if f.Plaintext {
		fmt.Fprintf(&text, `---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: %[1]s, namespace: %[2]s}
spec: {host: %[3]s, trafficPolicy: {tls: {mode: DISABLE}}}
---
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: %[1]s, namespace: %[2]s}
spec: {selector: {matchLabels: {app: %[1]s}}, mtls: {mode: DISABLE}}
`, serverName, workload.SharedNamespace, serviceHost)
	}
	if f.Policies {
		fmt.Fprintf(&text, `---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: %[1]s, namespace: %[2]s}
spec:
  selector: {matchLabels: {app: %[1]s}}
  action: ALLOW
  rules:
`, serverName, workload.SharedNamespace)
		for i := range 9 {
			fmt.Fprintf(&text, "  - from: [{source: {principals: [cluster.local/ns/other/sa/caller-%d]}}]\n", i)
		}
		fmt.Fprintf(&text, "  - from: [{source: {namespaces: [%s]}}]\n", workload.SharedNamespace)
	}
	return os.WriteFile(filepath.Join(dir, "service.yaml"), []byte(text.String()), 0o644)
}
