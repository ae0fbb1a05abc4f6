package readapi

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/meshpilot/meshpilot/internal/diagnostics/connectivity"
	"github.com/meshpilot/meshpilot/internal/diagnostics/debug"
	"github.com/meshpilot/meshpilot/internal/diagnostics/describe"
	"github.com/meshpilot/meshpilot/internal/diagnostics/explain"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// CallersRequest asks who may call a service.
type CallersRequest struct {
	Service string `path:"service" doc:"Hostname of the service, or its beginning: reviews.default."`
	Port    uint32 `query:"port" doc:"Port of the service (default its first)."`
	Method  string `query:"method" doc:"Method of the request (default GET, and those that rules name)."`
	Path    string `query:"path" doc:"Path of the request (default /, and those that rules name)."`
	Filter  string `query:"filter" doc:"Only callers whose namespace and name, NAMESPACE/NAME, contain this text."`
}

// ServiceCallers is which workloads may call a port of a service. Numbers count groups of workloads.
type ServiceCallers struct {
	Replica    string          `json:"replica,omitempty" doc:"The replica of the control plane that answers."`
	Snapshot   uint64          `json:"snapshot" doc:"Number of the snapshot that it is computed from."`
	Service    string          `json:"service" doc:"Hostname."`
	Namespace  string          `json:"namespace"`
	Port       uint32          `json:"port"`
	Ports      []describe.Port `json:"ports" doc:"All ports of the service."`
	Requests   []string        `json:"requests,omitempty" doc:"The requests that were evaluated, METHOD PATH, without headers and tokens."`
	Servers    []WorkloadTLS   `json:"servers" doc:"The workloads that serve the port."`
	Allowed    int             `json:"allowed"`
	Partly     int             `json:"partly"`
	Denied     int             `json:"denied"`
	Unknown    int             `json:"unknown"`
	OutOfScope int             `json:"outOfScope"`
	Callers    []ServiceCaller `json:"callers" doc:"Sorted by namespace and name."`
	Omitted    int             `json:"omitted,omitempty" doc:"Further workloads, which are not listed."`
}

// ServiceCaller is a workload and whether it may call the service.
type ServiceCaller struct {
	Namespace string               `json:"namespace"`
	Name      string               `json:"name" doc:"Name of the Deployment or other owner, or of the workload."`
	Account   string               `json:"account,omitempty" doc:"SPIFFE ID of the certificate."`
	Instances int                  `json:"instances"`
	Proxy     connectivity.Role    `json:"proxy" enum:"sidecar,gateway,none"`
	Verdict   connectivity.Verdict `json:"verdict" enum:"allowed,denied,partly,unknown,out of scope" doc:"partly: some requests, or at some of the workloads that serve the service; out of scope: the caller's proxy has no cluster for the service."`
	Scope     string               `json:"scope,omitempty" doc:"Why the service is out of scope."`
	Transport string               `json:"transport,omitempty" doc:"mutual TLS, TLS or plain text."`
	Decisions []CallDecision       `json:"decisions,omitempty" doc:"The distinct decisions on the calls."`
}

// CallDecision is how a workload that serves the service treats a request.
type CallDecision struct {
	Server  string               `json:"server" doc:"NAMESPACE/NAME"`
	Request string               `json:"request,omitempty" doc:"The first request with this decision."`
	Verdict connectivity.Verdict `json:"verdict" enum:"allowed,denied,unknown"`
	Reason  string               `json:"reason,omitempty"`
	By      []DecidingRule       `json:"by,omitempty" doc:"The objects and rules that decide."`
}

// DecidingRule is a rule of an object.
type DecidingRule struct {
	Source
	Rule string `json:"rule,omitempty" doc:"Path of the rule: spec.rules[0]."`
}

// registerCallers adds the operation that lists who may call a service.
func (a *API) registerCallers() {
	huma.Register(a.api, huma.Operation{
		OperationID: "list-callers", Method: http.MethodGet, Path: Prefix + "/services/{service}/callers",
		Summary: "Which workloads may call a service, and the rules of AuthorizationPolicies that decide",
		Errors:  []int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound},
	}, a.callers)
}

// callers serves whether workloads may call a service, for at most maxWorkloads whose
// NAMESPACE/NAME contains r.Filter (addCallers). It answers 404 for an unknown service or port, and
// 400 if the beginning of a hostname fits several services. It answers 403 if the caller may not
// read the namespace of the service.
func (a *API) callers(ctx context.Context, r *CallersRequest) (*struct{ Body ServiceCallers }, error) {
	reader := callerOf(ctx)
	svc, err := a.readableService(r.Service, reader)
	if err != nil {
		return nil, err
	}
	port, ok := portOf(svc, r.Port)
	if !ok {
		return nil, huma.Error404NotFound("the service has no such port")
	}
	q := connectivity.Question{Service: svc, Port: port, Method: r.Method, Path: r.Path}
	m, answer := a.connectivity.callers(a.Clock, a.Snapshot(), q, a.Table.Generators)
	x := ServiceCallers{
		Replica: a.Replica, Snapshot: m.Snapshot.Version, Service: string(svc.Host), Namespace: svc.Namespace,
		Port:  port,
		Ports: describe.Ports(svc), Requests: answer.Requests, Servers: []WorkloadTLS{}, Callers: []ServiceCaller{},
		Omitted: answer.Omitted,
	}
	for _, w := range answer.Servers {
		x.Servers = append(x.Servers, newWorkloadTLS(w, nil, reader))
	}
	x.addCallers(answer.Callers, r.Filter, reader)
	return &struct{ Body ServiceCallers }{x}, nil
}

// addCallers adds the callers of list whose NAMESPACE/NAME contains filter, up to maxWorkloads in
// all. It counts the further ones in Omitted. There it also counts all callers that the reader may
// not read, whatever the filter: it must not reveal their names.
func (x *ServiceCallers) addCallers(list []connectivity.Caller, filter string, reader debug.Caller) {
	for _, c := range list {
		switch {
		case !reader.CanRead(c.Namespace):
			x.Omitted++
		case !strings.Contains(c.Namespace+"/"+c.Name, filter):
		case len(x.Callers) == maxWorkloads:
			x.Omitted++
		default:
			x.addCaller(c, reader)
		}
	}
}

// portOf returns the number of a port that proxies capture: the given one, or the first if it is 0.
// The second result is false if there is none.
func portOf(svc *mesh.Service, number uint32) (uint32, bool) {
	i := slices.IndexFunc(svc.Ports, func(p mesh.Port) bool {
		return p.Protocol.Captured() && (number == 0 || p.Number == number)
	})
	if i < 0 {
		return 0, false
	}
	return svc.Ports[i].Number, true
}

// addCaller adds a caller and counts its verdict. Rules of objects that the reader may not read are
// left out. Servers and their requests are included in any case.
func (x *ServiceCallers) addCaller(c connectivity.Caller, reader debug.Caller) {
	row := ServiceCaller{
		Namespace: c.Namespace, Name: c.Name, Account: c.Account, Instances: c.Instances, Proxy: c.Role,
		Verdict: c.Verdict, Scope: c.Scope, Transport: string(c.Transport),
	}
	for _, d := range c.Decisions {
		decision := CallDecision{Server: d.Server.Namespace + "/" + d.Server.Name, Request: d.Request,
			Verdict: d.Verdict, Reason: d.Reason}
		for _, o := range d.By {
			if reader.CanRead(o.Namespace) {
				decision.By = append(decision.By, newDecidingRule(o))
			}
		}
		row.Decisions = append(row.Decisions, decision)
	}
	x.Callers = append(x.Callers, row)
	switch c.Verdict {
	case connectivity.Allowed:
		x.Allowed++
	case connectivity.Partly:
		x.Partly++
	case connectivity.Denied:
		x.Denied++
	case connectivity.OutOfScope:
		x.OutOfScope++
	case connectivity.Unknown:
		x.Unknown++
	}
}

// newDecidingRule returns an object and its rule, in the form of the API.
func newDecidingRule(o explain.Object) DecidingRule { return DecidingRule{SourceOf(o.Key), o.Rule} }
