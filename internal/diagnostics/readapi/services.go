package readapi

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/meshpilot/meshpilot/internal/diagnostics/connectivity"
	"github.com/meshpilot/meshpilot/internal/diagnostics/debug"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// maxServices limits the services in an answer.
const maxServices = 20_000

// ServiceSummary is a row in the list of services.
type ServiceSummary struct {
	Service   string   `json:"service" doc:"Hostname."`
	Namespace string   `json:"namespace"`
	Registry  string   `json:"registry"`
	Ports     []uint32 `json:"ports"`
	Workloads int      `json:"workloads" doc:"Workloads that serve it, by their addresses."`
	NoProxy   int      `json:"noProxy,omitempty" doc:"Those of them without a proxy, where no policy is enforced."`
	Policies  int      `json:"policies,omitempty" doc:"AuthorizationPolicies that apply to its workloads; the largest number of one workload."`
}

// ServiceList are the services that the caller may read.
type ServiceList struct {
	Replica  string           `json:"replica,omitempty" doc:"The replica of the control plane that answers."`
	Snapshot uint64           `json:"snapshot" doc:"Number of the snapshot that it is computed from."`
	Services []ServiceSummary `json:"services" doc:"Sorted by hostname."`
	Omitted  int              `json:"omitted,omitempty" doc:"Further services, which are not listed."`
}

// CalleesRequest names a service.
type CalleesRequest struct {
	Service string `path:"service" doc:"Hostname of the service, or its beginning: reviews.default."`
}

// ServiceCallees is which services the workloads of a service have in their scope.
type ServiceCallees struct {
	Snapshot  uint64            `json:"snapshot" doc:"Number of the snapshot that it is computed from."`
	Service   string            `json:"service" doc:"Hostname."`
	Workloads []WorkloadCallees `json:"workloads" doc:"Those that serve the service and have a proxy, ten at most."`
}

// WorkloadCallees is which services a workload has in its scope.
type WorkloadCallees struct {
	Namespace string            `json:"namespace"`
	Name      string            `json:"name"`
	Proxy     connectivity.Role `json:"proxy" enum:"sidecar,gateway,none"`
	Sidecar   *Source           `json:"sidecar,omitempty" doc:"The Sidecar that limits them. Without one, everything that is exported to the namespace is in scope."`
	Services  []ServiceName     `json:"services"`
	Omitted   int               `json:"omitted,omitempty" doc:"Services of namespaces that the caller may not read."`
}

// ServiceName identifies a service.
type ServiceName struct {
	Service   string `json:"service" doc:"Hostname."`
	Namespace string `json:"namespace"`
}

// registerServices adds the operations that list services and what their workloads can call.
func (a *API) registerServices() {
	errs := []int{http.StatusUnauthorized, http.StatusForbidden}
	huma.Register(a.api, huma.Operation{
		OperationID: "list-services", Method: http.MethodGet, Path: Prefix + "/services",
		Summary: "The services with their workloads and the number of policies that apply to them", Errors: errs,
	}, a.services)
	huma.Register(a.api, huma.Operation{
		OperationID: "list-callees", Method: http.MethodGet, Path: Prefix + "/services/{service}/callees",
		Summary: "Which services the workloads of a service have in their scope",
		Errors:  append(errs, http.StatusBadRequest, http.StatusNotFound),
	}, a.callees)
}

// services serves the services of the namespaces that the caller may read. At most maxServices are
// listed; the others are counted in Omitted.
func (a *API) services(ctx context.Context, _ *struct{}) (*struct{ Body ServiceList }, error) {
	caller, m := callerOf(ctx), a.connectivity.mesh(a.Clock, a.Snapshot())
	x := ServiceList{Replica: a.Replica, Snapshot: m.Snapshot.Version, Services: []ServiceSummary{}}
	for _, svc := range m.Snapshot.Services() {
		switch {
		case !caller.CanRead(svc.Namespace):
		case len(x.Services) == maxServices:
			x.Omitted++
		default:
			x.Services = append(x.Services, newServiceSummary(m.Mesh, svc))
		}
	}
	return &struct{ Body ServiceList }{x}, nil
}

// newServiceSummary returns the row of a service. Workloads and NoProxy are numbers of instances.
// Policies is the largest number of policies that one workload has.
func newServiceSummary(m *connectivity.Mesh, svc *mesh.Service) ServiceSummary {
	x := ServiceSummary{Service: string(svc.Host), Namespace: svc.Namespace, Registry: string(svc.Provider),
		Ports: []uint32{}}
	for _, p := range svc.Ports {
		x.Ports = append(x.Ports, p.Number)
	}
	for _, w := range m.Servers(svc.ServiceKey) {
		x.Workloads += w.Instances
		if w.Role == connectivity.NoProxy {
			x.NoProxy += w.Instances
		}
		x.Policies = max(x.Policies, w.Policies())
	}
	return x
}

// readableService returns the service with a hostname or its beginning. The error is a response:
// 404 if there is none, 400 if the beginning fits several, 403 if the caller may not read its
// namespace.
func (a *API) readableService(name string, caller debug.Caller) (*mesh.Service, error) {
	svc, err := a.Pages.ServiceByName(name)
	switch {
	case err != nil:
		return nil, responseError(err)
	case !caller.CanRead(svc.Namespace):
		return nil, huma.Error403Forbidden("namespace " + caller.Namespace + " may not read services of namespace " +
			svc.Namespace)
	}
	return svc, nil
}

// callees serves what the workloads of a service have in their scope. Services of namespaces that
// the caller may not read count as omitted. It returns the errors of readableService.
func (a *API) callees(ctx context.Context, r *CalleesRequest) (*struct{ Body ServiceCallees }, error) {
	caller := callerOf(ctx)
	svc, err := a.readableService(r.Service, caller)
	if err != nil {
		return nil, err
	}
	m := a.connectivity.mesh(a.Clock, a.Snapshot())
	x := ServiceCallees{Snapshot: m.Snapshot.Version, Service: string(svc.Host), Workloads: []WorkloadCallees{}}
	for _, c := range m.Callees(svc.ServiceKey) {
		row := WorkloadCallees{Namespace: c.Namespace, Name: c.Name, Proxy: c.Role, Services: []ServiceName{}}
		if c.Sidecar != (config.Key{}) && caller.CanRead(c.Sidecar.Namespace) {
			source := SourceOf(c.Sidecar)
			row.Sidecar = &source
		}
		for _, s := range c.Services {
			if !caller.CanRead(s.Namespace) {
				row.Omitted++
				continue
			}
			row.Services = append(row.Services, ServiceName{string(s.Host), s.Namespace})
		}
		x.Workloads = append(x.Workloads, row)
	}
	return &struct{ Body ServiceCallees }{x}, nil
}
