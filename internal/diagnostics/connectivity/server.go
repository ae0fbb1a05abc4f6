package connectivity

import (
	"slices"
	"strings"

	security "istio.io/api/security/v1beta1"

	"github.com/meshpilot/meshpilot/internal/diagnostics/explain"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
)

// server is a workload that serves the port of a Question, with the inbound configuration of its
// proxy.
type server struct {
	*Workload
	target uint16
	// policies are the AuthorizationPolicies that apply to it.
	policies   []*config.Config
	resources  *explain.Resources // nil without a sidecar
	acceptsTLS bool
	// readsAddresses is set if a policy has conditions on the address of callers.
	readsAddresses bool
}

// newServer returns the server of a workload. Its target port is 0 if the workload does not serve
// the port of the question. Only a sidecar has policies, and resources by the generators: inbound
// listeners and clusters now, others when they are looked up.
func newServer(s *snapshot.Snapshot, w *Workload, q Question, generators []view.Generator) *server {
	x := &server{Workload: w}
	for _, served := range w.Served {
		if served.Service == q.Service.ServiceKey && served.Port == q.Port {
			x.target = uint16(served.Target)
		}
	}
	if w.Role != Sidecar {
		return x
	}
	x.acceptsTLS = w.key.ServerCredentials != (mesh.Credentials{}) &&
		w.Modes.At(uint32(x.target)) != security.PeerAuthentication_MutualTLS_DISABLE
	x.policies = s.Policies(api.AuthorizationPolicy, w.key.Policies.Authorization)
	x.readsAddresses = slices.ContainsFunc(x.policies, readsAddresses)
	v := view.Build(s, w.key)
	x.resources = &explain.Resources{Object: s.Config, Named: func(typeURL, name string) *resource.Resource {
		for i := range generators {
			if g := &generators[i]; g.TypeURL == typeURL && g.Named != nil {
				if r := g.Named(v, name); r != nil {
					return r
				}
			}
		}
		return nil
	}}
	for i := range generators {
		switch g := &generators[i]; {
		case !g.Inbound || g.All == nil:
		case g.TypeURL == api.ListenerType:
			x.resources.Listeners = append(x.resources.Listeners, g.All(v)...)
		case g.TypeURL == api.ClusterType:
			x.resources.Clusters = append(x.resources.Clusters, g.All(v)...)
		}
	}
	return x
}

// decide returns the decision on a call: Allowed for a workload without a proxy, and Unknown for a
// gateway or an error. Otherwise the last ending that is not Forwarded decides: Unknown if its kind
// is that, else Denied. If all are Forwarded, the call is Allowed. The reason is the last step of
// access if there is one, else the last ending's.
func (s *server) decide(call explain.Call) Decision {
	switch s.Role {
	case NoProxy:
		return Decision{Verdict: Allowed, Reason: "the workload has no proxy, so no policy is enforced"}
	case Gateway:
		return Decision{Verdict: Unknown, Reason: "a gateway decides by the servers of its Gateways"}
	}
	path, err := explain.Explain(s.resources, call)
	if err != nil {
		return Decision{Verdict: Unknown, Reason: err.Error()}
	}
	d := Decision{Verdict: Allowed}
	for _, e := range path.Endings {
		switch {
		case e.Kind == explain.Unknown:
			d.Verdict = Unknown
		case e.Kind != explain.Forwarded:
			d.Verdict = Denied
		}
		d.Reason = e.Reason
	}
	for _, step := range slices.Backward(path.Steps) {
		if step.Stage == explain.StageAccess {
			d.Reason, d.By = step.Decided, step.By
			break
		}
	}
	return d
}

// readsAddresses reports whether an AuthorizationPolicy depends on the address of callers. It does
// with IP blocks in a source, or a condition on an attribute that ends in ".ip".
func readsAddresses(c *config.Config) bool {
	return slices.ContainsFunc(config.Spec[*security.AuthorizationPolicy](c).GetRules(), func(r *security.Rule) bool {
		return slices.ContainsFunc(r.GetFrom(), func(f *security.Rule_From) bool {
			s := f.GetSource()
			return len(s.GetIpBlocks())+len(s.GetNotIpBlocks())+len(s.GetRemoteIpBlocks())+len(s.GetNotRemoteIpBlocks()) > 0
		}) || slices.ContainsFunc(r.GetWhen(), func(w *security.Condition) bool {
			return strings.HasSuffix(w.GetKey(), ".ip")
		})
	})
}
