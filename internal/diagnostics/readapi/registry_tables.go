package readapi

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/meshpilot/meshpilot/internal/diagnostics/debug"
)

// RegisteredServices are the services that the caller may read.
type RegisteredServices struct {
	Replica  string          `json:"replica,omitempty" doc:"The replica of the control plane that answers."`
	Services []debug.Service `json:"services" doc:"Sorted by hostname, in the form of istiod's page registryz."`
}

// RegisteredEndpoints are the endpoints of the services that the caller may read.
type RegisteredEndpoints struct {
	Replica string              `json:"replica,omitempty" doc:"The replica of the control plane that answers."`
	Ports   []debug.ServicePort `json:"ports" doc:"By service and port, in the form of istiod's page endpointz."`
}

// ClusterList are the clusters that services are read from.
type ClusterList struct {
	Replica  string          `json:"replica,omitempty" doc:"The replica of the control plane that answers."`
	Clusters []debug.Cluster `json:"clusters" doc:"The control plane's own cluster, then the remote ones."`
}

// registerRegistryTables adds the operations that list what registries report.
func (a *API) registerRegistryTables() {
	errs := []int{http.StatusUnauthorized, http.StatusForbidden}
	huma.Register(a.api, huma.Operation{
		OperationID: "list-registered-services", Method: http.MethodGet, Path: Prefix + "/registry/services",
		Summary: "The services as registries report them, with all attributes", Errors: errs,
	}, a.registeredServices)
	huma.Register(a.api, huma.Operation{
		OperationID: "list-registered-endpoints", Method: http.MethodGet, Path: Prefix + "/registry/endpoints",
		Summary: "The endpoints of services as registries report them, with all attributes", Errors: errs,
	}, a.registeredEndpoints)
	huma.Register(a.api, huma.Operation{
		OperationID: "list-clusters", Method: http.MethodGet, Path: Prefix + "/registry/clusters",
		Summary: "The clusters that services are read from, with their state", Errors: errs,
	}, a.clusters)
}

// registeredServices serves the services of the namespaces that the caller may read.
func (a *API) registeredServices(ctx context.Context, _ *struct{}) (*struct{ Body RegisteredServices }, error) {
	return &struct{ Body RegisteredServices }{
		RegisteredServices{a.Replica, a.Pages.RegisteredServices(callerOf(ctx))},
	}, nil
}

// registeredEndpoints serves the endpoints of the services of the namespaces that the caller may
// read.
func (a *API) registeredEndpoints(ctx context.Context, _ *struct{}) (*struct{ Body RegisteredEndpoints }, error) {
	return &struct{ Body RegisteredEndpoints }{
		RegisteredEndpoints{a.Replica, a.Pages.RegisteredEndpoints(callerOf(ctx))},
	}, nil
}

// clusters serves the clusters. It answers 403 to callers that may not read all namespaces, because
// the list names Secrets of the control plane's namespace.
func (a *API) clusters(ctx context.Context, _ *struct{}) (*struct{ Body ClusterList }, error) {
	if err := requireAllNamespaces(callerOf(ctx), "clusters"); err != nil {
		return nil, err
	}
	return &struct{ Body ClusterList }{ClusterList{a.Replica, a.Pages.AllClusters()}}, nil
}
