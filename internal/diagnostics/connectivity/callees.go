package connectivity

import (
	"strings"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// Callees is the services that a workload has in its scope.
type Callees struct {
	*Workload
	// Sidecar is the Sidecar that limits them, or the zero Key.
	Sidecar config.Key
	// Services are sorted by hostname.
	Services []*mesh.Service
}

// Servers returns the workloads that serve a service, in the order of Workloads.
func (m *Mesh) Servers(k mesh.ServiceKey) []*Workload { return m.servers[k] }

// Policies returns the number of AuthorizationPolicies that apply to the workload.
func (w *Workload) Policies() int { return strings.Count(w.key.Policies.Authorization, ";") }

// Callees returns for each workload that serves a service, at most maxServers, the services that
// its proxy has clusters for: what its Sidecar imports, or the destinations of the routes of a
// gateway. Workloads without a proxy are left out: nothing limits them. The service itself is left
// out of them.
func (m *Mesh) Callees(k mesh.ServiceKey) []Callees {
	var list []Callees
	for _, w := range m.servers[k] {
		if w.class == nil || len(list) == maxServers {
			continue
		}
		x := Callees{Workload: w, Sidecar: w.class.sidecar}
		for _, svc := range w.class.view.Services {
			if svc.ServiceKey != k && w.class.reaches(svc) {
				x.Services = append(x.Services, svc)
			}
		}
		list = append(list, x)
	}
	return list
}
