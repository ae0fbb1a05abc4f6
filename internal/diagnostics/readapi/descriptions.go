package readapi

import (
	"context"
	"net/http"
	"net/url"

	"github.com/danielgtaylor/huma/v2"
)

// ServiceRequest names a service.
type ServiceRequest struct {
	Service string `path:"service" doc:"Hostname of the service, or its beginning: reviews.default."`
}

// Description is what applies to a proxy or a service.
type Description struct {
	// Description is a *describe.Proxy or a *describe.Service.
	Description any `json:"description" doc:"Services, rules, policies and warnings, as pilotctl describe -o json has them."`
}

// registerDescriptions adds the operations that describe a proxy and a service.
func (a *API) registerDescriptions() {
	errs := []int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound}
	huma.Register(a.api, huma.Operation{
		OperationID: "describe-proxy", Method: http.MethodGet, Path: Prefix + "/proxies/{proxy}/description",
		Summary: "The services, rules and policies that apply to a proxy", Errors: errs,
	}, a.describeProxy)
	huma.Register(a.api, huma.Operation{
		OperationID: "describe-service", Method: http.MethodGet, Path: Prefix + "/services/{service}/description",
		Summary: "The ports, rules, routes and gateways of a service", Errors: errs,
	}, a.describeService)
}

// describeProxy serves the description of a proxy, from the replica to which it is connected, or
// only from this one with r.Local. It answers 403 to callers that may not read all namespaces,
// because descriptions name objects of any namespace that apply. It answers 404 if the proxy is
// connected to none of the replicas, and also if its replica does not answer.
func (a *API) describeProxy(ctx context.Context, r *ProxyRequest) (*struct{ Body Description }, error) {
	if err := requireAllNamespaces(callerOf(ctx), "descriptions"); err != nil {
		return nil, err
	}
	d, err := a.Pages.DescribeProxy(r.Proxy)
	if !isRefusedWith(err, http.StatusNotFound) {
		return describedAnswer(d, err)
	}
	answers, _ := collectFromPeers[Description](ctx, a, r.Aggregation,
		"/proxies/"+url.PathEscape(r.Proxy)+"/description", url.Values{})
	if len(answers) > 0 {
		return &struct{ Body Description }{answers[0]}, nil
	}
	return nil, huma.Error404NotFound("no proxy of that name is connected to this control plane")
}

// describeService serves the description of a service. It answers 404 for an unknown service, 400 if
// the beginning of a hostname fits several, and 403 to callers that may not read all namespaces,
// because descriptions name objects of any namespace that apply.
func (a *API) describeService(ctx context.Context, r *ServiceRequest) (*struct{ Body Description }, error) {
	if err := requireAllNamespaces(callerOf(ctx), "descriptions"); err != nil {
		return nil, err
	}
	return describedAnswer(a.Pages.DescribeService(r.Service))
}

// describedAnswer returns an answer with a description. A debug.Refusal keeps its status.
func describedAnswer(description any, err error) (*struct{ Body Description }, error) {
	if err != nil {
		return nil, responseError(err)
	}
	return &struct{ Body Description }{Description{description}}, nil
}
