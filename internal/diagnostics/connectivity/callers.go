package connectivity

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/meshpilot/meshpilot/internal/diagnostics/explain"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/translate/cluster"
)

const (
	// maxServers limits the workloads at which calls are evaluated, maxEvaluations the calls.
	maxServers     = 10
	maxEvaluations = 20_000
)

// Verdict is whether a workload may call a service.
type Verdict string

// The verdicts.
const (
	Allowed Verdict = "allowed"
	Denied  Verdict = "denied"
	// Partly: some of the requests, or at some of the workloads that serve the service.
	Partly Verdict = "partly"
	// Unknown: the configuration has a part that cannot be evaluated.
	Unknown Verdict = "unknown"
	// OutOfScope: the caller's proxy has no cluster for the service. If it calls all the same, the
	// call is treated like one to an unknown destination.
	OutOfScope Verdict = "out of scope"
)

// Question is a call that is asked about. Without Method and Path it is about the requests that the
// rules of the AuthorizationPolicies name.
type Question struct {
	Service *mesh.Service
	Port    uint32
	Method  string
	Path    string
}

// Callers is the answer to a Question.
type Callers struct {
	// Servers are the workloads that serve the port, at most maxServers.
	Servers []*Workload
	// Requests are the evaluated ones, METHOD PATH; none if the port carries no HTTP.
	Requests []string
	// Callers are all workloads, in the order of Mesh.Workloads. Omitted is the number of workloads
	// that were not evaluated.
	Callers []Caller
	Omitted int
}

// Caller is a workload and whether it may call.
type Caller struct {
	*Workload
	Verdict Verdict
	// Scope is why the service is out of scope; "" if it is not.
	Scope     string
	Transport cluster.OutboundTransport
	// Decisions are the distinct decisions on the calls of this workload.
	Decisions []Decision
}

// Decision is how one of the servers treats a request.
type Decision struct {
	Server  *Workload
	Request string
	Verdict Verdict
	Reason  string
	// By are the rules that decided.
	By []explain.Object
}

// Callers evaluates for each workload whether it may call a port of a service. It decides as the
// proxies of the workloads that serve it would, with the configuration of the generators. A call
// has no token and no headers, and comes from the address of the first instance. At most maxServers
// servers are asked. After maxEvaluations evaluations the remaining workloads are only counted, in
// Omitted.
func (m *Mesh) Callers(q Question, generators []view.Generator) *Callers {
	x := &Callers{}
	for _, w := range m.servers[q.Service.ServiceKey] {
		serves := slices.ContainsFunc(w.Served,
			func(s Served) bool { return s.Service == q.Service.ServiceKey && s.Port == q.Port })
		if serves && len(x.Servers) < maxServers {
			x.Servers = append(x.Servers, w)
		}
	}
	e := &evaluation{mesh: m, question: q, known: map[callKey]Decision{}}
	for _, w := range x.Servers {
		e.servers = append(e.servers, newServer(m.Snapshot, w, q, generators))
	}
	e.requests = e.plannedRequests()
	for _, r := range e.requests {
		if r != nil {
			x.Requests = append(x.Requests, r.Method+" "+r.Path)
		}
	}
	for i, w := range m.Workloads {
		if e.evaluated > maxEvaluations {
			x.Omitted = len(m.Workloads) - i
			break
		}
		x.Callers = append(x.Callers, e.evaluate(w))
	}
	return x
}

// evaluation evaluates the calls of one Question.
type evaluation struct {
	mesh      *Mesh
	question  Question
	servers   []*server
	requests  []*explain.Request // nil is a connection without HTTP
	known     map[callKey]Decision
	evaluated int
}

// callKey is what the decision on a call depends on. from is set only if a policy has conditions on
// addresses.
type callKey struct {
	server    *server
	request   *explain.Request
	transport cluster.OutboundTransport
	identity  string
	from      netip.Addr
}

// evaluate returns the entry of the caller w: OutOfScope with the reason, or else the different
// decisions of all servers on all requests, and their combined verdict (combineVerdicts). Transport
// is that to the first server, but plain text if w calls any in plain text, there is none, or w is
// out of scope.
func (e *evaluation) evaluate(w *Workload) Caller {
	x := Caller{Workload: w, Scope: w.class.scopeOf(e.question.Service, e.question.Port), Transport: cluster.PlainText}
	if x.Scope != "" {
		x.Verdict = OutOfScope
		return x
	}
	for i, s := range e.servers {
		transport := w.class.transportTo(e.question.Service, e.question.Port, s.acceptsTLS)
		if i == 0 || transport == cluster.PlainText {
			x.Transport = transport
		}
		for _, r := range e.requests {
			d := e.decide(w, s, r, transport)
			same := slices.ContainsFunc(x.Decisions, func(o Decision) bool {
				return o.Verdict == d.Verdict && o.Reason == d.Reason && slices.Equal(o.By, d.By)
			})
			if !same {
				x.Decisions = append(x.Decisions, d)
			}
		}
	}
	x.Verdict = combineVerdicts(x.Decisions)
	return x
}

// combineVerdicts returns the verdict that all decisions have, Partly if they differ, and Unknown
// if there are none.
func combineVerdicts(list []Decision) Verdict {
	if len(list) == 0 {
		return Unknown
	}
	for _, d := range list[1:] {
		if d.Verdict != list[0].Verdict {
			return Partly
		}
	}
	return list[0].Verdict
}

// decide returns the decision of the server s on a request of w. It evaluates and counts the call
// once for all callers that s cannot distinguish, and keeps the decision in e.known.
func (e *evaluation) decide(w *Workload, s *server, r *explain.Request, transport cluster.OutboundTransport) Decision {
	k := callKey{server: s, request: r, transport: transport}
	if transport == cluster.MeshTLS {
		k.identity = w.Account
	}
	if s.readsAddresses {
		k.from = w.proxy.Addresses[0]
	}
	d, known := e.known[k]
	if !known {
		e.evaluated++
		d = s.decide(e.callOf(w, s, r, transport))
		if d.Server = s.Workload; r != nil {
			d.Request = r.Method + " " + r.Path
		}
		e.known[k] = d
	}
	return d
}

// callOf returns the call of w that the proxy of the server receives. The server name and identity
// are set for MeshTLS; ClientTLS is TLS without an identity. Both proxies need an address.
func (e *evaluation) callOf(w *Workload, s *server, r *explain.Request,
	transport cluster.OutboundTransport) explain.Call {
	call := explain.Call{
		Direction: explain.Inbound, To: netip.AddrPortFrom(s.proxy.Addresses[0], s.target),
		From: netip.AddrPortFrom(w.proxy.Addresses[0], 0), Request: r,
	}
	switch transport {
	case cluster.MeshTLS:
		svc := e.question.Service
		call.ServerName = svc.SNI(mesh.ClusterName{Direction: mesh.Outbound, Port: e.question.Port, Host: svc.Host})
		call.SetIdentity(cmp.Or(w.Account, w.Namespace+"/default"), e.mesh.Snapshot.Settings.TrustDomain)
	case cluster.ClientTLS:
		call.Carries, call.ServerName = explain.TLS, string(e.question.Service.Host)
	}
	return call
}
