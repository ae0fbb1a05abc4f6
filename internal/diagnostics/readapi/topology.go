package readapi

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/meshpilot/meshpilot/internal/diagnostics/connectivity"
	"github.com/meshpilot/meshpilot/internal/diagnostics/debug"
)

// maxCalls limits the calls in a topology.
const maxCalls = 20_000

// Topology is the services of the mesh and the calls between them that objects name.
type Topology struct {
	Replica  string         `json:"replica,omitempty" doc:"The replica of the control plane that answers."`
	Snapshot uint64         `json:"snapshot" doc:"Number of the snapshot that it is computed from."`
	Nodes    []TopologyNode `json:"nodes" doc:"The services, and the workloads that serve none, of the namespaces that the caller may read."`
	Calls    []TopologyCall `json:"calls" doc:"Calls that objects name. Not listed are those of a node that is not limited to one that is not restricted: all of these are possible."`
	Omitted  int            `json:"omitted,omitempty" doc:"Further nodes and calls, which are not listed."`
}

// TopologyEnd is an end of a call.
type TopologyEnd struct {
	Namespace string `json:"namespace"`
	Service   string `json:"service,omitempty" doc:"Hostname. As a caller, a service is the workloads that serve it."`
	Workload  string `json:"workload,omitempty" doc:"A workload that serves no service. Without it and a service, the end is all of these in the namespace or, as the end that is called, all services of the namespace that are not restricted."`
}

// TopologyNode is a service, or a workload that serves none.
type TopologyNode struct {
	TopologyEnd
	Gateway    bool `json:"gateway,omitempty" doc:"A workload is a gateway."`
	Workloads  int  `json:"workloads" doc:"Workloads of the node, by their addresses."`
	NoProxy    int  `json:"noProxy,omitempty" doc:"Those of them without a proxy."`
	Limited    bool `json:"limited,omitempty" doc:"A Sidecar, or the routes of a gateway, limit what it may call."`
	Restricted bool `json:"restricted,omitempty" doc:"AuthorizationPolicies name its callers."`
}

// TopologyCall is calls that objects name.
type TopologyCall struct {
	From   TopologyEnd `json:"from"`
	To     TopologyEnd `json:"to"`
	Routed bool        `json:"routed,omitempty" doc:"A VirtualService sends calls of the first service to the second."`
	By     []Source    `json:"by,omitempty" doc:"The Sidecars, AuthorizationPolicies or VirtualServices, at most eight."`
}

// registerTopology adds the operation that returns the topology.
func (a *API) registerTopology() {
	huma.Register(a.api, huma.Operation{
		OperationID: "get-topology", Method: http.MethodGet, Path: Prefix + "/topology",
		Summary: "The services and the calls between them that Sidecars, gateways, AuthorizationPolicies and VirtualServices name",
		Errors:  []int{http.StatusUnauthorized, http.StatusForbidden},
	}, a.topology)
}

// topology serves the nodes that the caller may read, and the calls between them. It lists at most
// maxServices nodes and maxCalls calls, and counts the others of these in Omitted.
func (a *API) topology(ctx context.Context, _ *struct{}) (*struct{ Body Topology }, error) {
	caller := callerOf(ctx)
	m, all := a.connectivity.topology(a.Clock, a.Snapshot())
	x := Topology{Replica: a.Replica, Snapshot: m.Snapshot.Version, Nodes: []TopologyNode{}, Calls: []TopologyCall{}}
	for _, n := range all.Nodes {
		switch {
		case !caller.CanRead(n.Namespace):
		case len(x.Nodes) == maxServices:
			x.Omitted++
		default:
			x.Nodes = append(x.Nodes, TopologyNode{
				TopologyEnd: newTopologyEnd(n.End), Gateway: n.Gateway, Workloads: n.Instances, NoProxy: n.NoProxy,
				Limited: n.Limited, Restricted: n.Restricted,
			})
		}
	}
	for _, c := range all.Calls {
		switch {
		case !caller.CanRead(c.From.Namespace) || !caller.CanRead(c.To.Namespace):
		case len(x.Calls) == maxCalls:
			x.Omitted++
		default:
			x.Calls = append(x.Calls, newTopologyCall(c, caller))
		}
	}
	return &struct{ Body Topology }{x}, nil
}

// newTopologyEnd returns the answer about an end.
func newTopologyEnd(e connectivity.End) TopologyEnd {
	return TopologyEnd{Namespace: e.Namespace, Service: string(e.Service), Workload: e.Workload}
}

// newTopologyCall returns the answer about a call. Objects that the caller may not read are left
// out.
func newTopologyCall(c connectivity.Call, caller debug.Caller) TopologyCall {
	x := TopologyCall{From: newTopologyEnd(c.From), To: newTopologyEnd(c.To), Routed: c.Routed}
	for _, k := range c.By {
		if caller.CanRead(k.Namespace) {
			x.By = append(x.By, SourceOf(k))
		}
	}
	return x
}

// String returns SERVICE, or NAMESPACE/WORKLOAD if there is no service, or NAMESPACE/* if there is
// no workload either.
func (e TopologyEnd) String() string {
	switch {
	case e.Service != "":
		return e.Service
	case e.Workload != "":
		return e.Namespace + "/" + e.Workload
	default:
		return e.Namespace + "/*"
	}
}
