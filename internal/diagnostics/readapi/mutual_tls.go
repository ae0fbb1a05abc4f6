package readapi

import (
	"context"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/meshpilot/meshpilot/internal/diagnostics/connectivity"
	"github.com/meshpilot/meshpilot/internal/diagnostics/debug"
	"github.com/meshpilot/meshpilot/internal/diagnostics/describe"
)

// maxWorkloads limits the workloads in an answer, maxCallers the namespaces of a PlainTextCall.
const (
	maxWorkloads = 5_000
	maxCallers   = 20
)

// MutualTLSRequest selects workloads.
type MutualTLSRequest struct {
	Namespace string `query:"namespace" doc:"Only workloads of this namespace."`
	Filter    string `query:"filter" doc:"Only workloads whose namespace and name, NAMESPACE/NAME, contain this text."`
}

// WorkloadTLS is how the workloads of one owner accept connections.
type WorkloadTLS struct {
	Namespace string            `json:"namespace"`
	Name      string            `json:"name" doc:"Name of the Deployment or other owner, or of the workload."`
	Account   string            `json:"account,omitempty" doc:"SPIFFE ID of the certificate."`
	Instances int               `json:"instances"`
	Proxy     connectivity.Role `json:"proxy" enum:"sidecar,gateway,none" doc:"none: without a proxy it calls and is called in plain text, and PeerAuthentications have no effect."`
	// MutualTLS is set for sidecars only.
	MutualTLS *describe.MutualTLS `json:"mutualTLS,omitempty" doc:"Modes of inbound connections, with the PeerAuthentications KIND/NAMESPACE/NAME that define them."`
	PlainText []PlainTextCall     `json:"plainText,omitempty" doc:"Calls of proxies in plain text, by configuration."`
}

// PlainTextCall is a way in which proxies call a workload in plain text.
type PlainTextCall struct {
	Service    string   `json:"service" doc:"Hostname."`
	Port       uint32   `json:"port"`
	Subset     string   `json:"subset,omitempty"`
	Namespaces []string `json:"namespaces" doc:"Some namespaces of the callers."`
	Callers    int      `json:"callers" doc:"Number of namespaces of callers."`
	Rules      []Source `json:"rules,omitempty" doc:"The DestinationRules that configure it. Without one, automatic mutual TLS is off, or callers choose the address and not all endpoints accept mutual TLS."`
	Refused    bool     `json:"refused,omitempty" doc:"True if the workload refuses the calls: its mode is STRICT at the port."`
}

// MutualTLSAnswer is the modes of mutual TLS of workloads. Numbers count instances.
type MutualTLSAnswer struct {
	Replica    string        `json:"replica,omitempty" doc:"The replica of the control plane that answers."`
	Snapshot   uint64        `json:"snapshot" doc:"Number of the snapshot that it is computed from."`
	Automatic  bool          `json:"automatic" doc:"Whether proxies use mutual TLS wherever it is accepted (MeshConfig.enableAutoMtls)."`
	Strict     int           `json:"strict" doc:"Workloads that accept mutual TLS only."`
	Permissive int           `json:"permissive" doc:"Workloads that accept plain text too, at some port."`
	Disabled   int           `json:"disabled" doc:"Workloads that accept plain text only, at some port and mutual TLS only at others."`
	Gateways   int           `json:"gateways" doc:"Workloads that a Gateway selects; their servers define TLS."`
	NoProxy    int           `json:"noProxy" doc:"Workloads without a proxy."`
	Workloads  []WorkloadTLS `json:"workloads" doc:"Sorted by namespace and name."`
	Omitted    int           `json:"omitted,omitempty" doc:"Further workloads, which are not listed but counted."`
	Incomplete bool          `json:"incomplete,omitempty" doc:"True if the mesh is too large to find all calls in plain text."`
}

// registerMutualTLS adds the operation that lists the modes of mutual TLS.
func (a *API) registerMutualTLS() {
	huma.Register(a.api, huma.Operation{
		OperationID: "list-mutual-tls", Method: http.MethodGet, Path: Prefix + "/mutual-tls",
		Summary: "The mode of mutual TLS of each workload, and the callers that use plain text by configuration",
		Errors:  []int{http.StatusUnauthorized, http.StatusForbidden},
	}, a.mutualTLS)
}

// mutualTLS serves the workloads of the caller's namespaces that the request selects. It computes
// them from the snapshot of this replica. It lists at most maxWorkloads, counts the others in
// Omitted, and all of them in the totals.
func (a *API) mutualTLS(ctx context.Context, r *MutualTLSRequest) (*struct{ Body MutualTLSAnswer }, error) {
	caller, m := callerOf(ctx), a.connectivity.mesh(a.Clock, a.Snapshot())
	calls, complete := m.plainText()
	x := MutualTLSAnswer{
		Replica: a.Replica, Snapshot: m.Snapshot.Version, Workloads: []WorkloadTLS{}, Incomplete: !complete,
		Automatic: m.Snapshot.Settings.Mesh.GetEnableAutoMtls().GetValue(),
	}
	for _, w := range m.Workloads {
		if !caller.CanRead(w.Namespace) || r.Namespace != "" && r.Namespace != w.Namespace ||
			!strings.Contains(w.Namespace+"/"+w.Name, r.Filter) {
			continue
		}
		x.countWorkload(w)
		if len(x.Workloads) == maxWorkloads {
			x.Omitted++
			continue
		}
		x.Workloads = append(x.Workloads, newWorkloadTLS(w, calls, caller))
	}
	return &struct{ Body MutualTLSAnswer }{x}, nil
}

// countWorkload adds the instances of a workload to the number of its mode, or for other roles than
// sidecars to Gateways or NoProxy. A workload is Permissive if any of its ports is, else Disabled
// if any is, else Strict.
func (x *MutualTLSAnswer) countWorkload(w *connectivity.Workload) {
	switch w.Role {
	case connectivity.Gateway:
		x.Gateways += w.Instances
		return
	case connectivity.NoProxy:
		x.NoProxy += w.Instances
		return
	}
	modes := map[string]bool{w.Modes.Mode.String(): true}
	for _, mode := range w.Modes.Ports {
		modes[mode.String()] = true
	}
	switch {
	case modes["PERMISSIVE"]:
		x.Permissive += w.Instances
	case modes["DISABLE"]:
		x.Disabled += w.Instances
	default:
		x.Strict += w.Instances
	}
}

// newWorkloadTLS returns the entry of a workload; calls are all plain text calls in the mesh. Only
// sidecars have modes and calls. DestinationRules that the caller may not read are left out, and so
// are namespaces of callers beyond maxCallers.
func newWorkloadTLS(w *connectivity.Workload, calls []connectivity.PlainTextCall, caller debug.Caller) WorkloadTLS {
	x := WorkloadTLS{Namespace: w.Namespace, Name: w.Name, Account: w.Account, Instances: w.Instances, Proxy: w.Role}
	if w.Role != connectivity.Sidecar {
		return x
	}
	x.MutualTLS = describe.NewMutualTLS(w.Modes)
	list, refused := w.CallsTo(calls)
	for i, c := range list {
		call := PlainTextCall{
			Service: string(c.Service.Host), Port: c.Port, Subset: c.Subset, Callers: len(c.Namespaces),
			Refused:    refused[i],
			Namespaces: c.Namespaces[:min(len(c.Namespaces), maxCallers)],
		}
		for _, k := range c.Rules {
			if caller.CanRead(k.Namespace) {
				call.Rules = append(call.Rules, SourceOf(k))
			}
		}
		x.PlainText = append(x.PlainText, call)
	}
	return x
}
