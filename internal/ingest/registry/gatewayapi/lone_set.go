package gatewayapi

import (
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/meshpilot/meshpilot/internal/ingest/registry"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// flushLoneSets sets the statuses of the marked ListenerSets, which have no Gateway that is served
// here, and emits their Problems (loneSetReport). If reading one panics, only the Problem of that
// is emitted. Then it clears the marks.
func (c *Converter) flushLoneSets(out mesh.Batch) mesh.Batch {
	for _, n := range sortedNames(c.dirty.lone) {
		k := setKey(n)
		object := c.objects.all[k]
		var r report
		var read bool
		out, read = c.guard.Try(out, registry.Report, k, registry.OriginOf(object), func() {
			r = c.loneSetReport(k, object)
		})
		if !read {
			continue
		}
		c.pending.setStatus(k, r.status)
		out = c.emitted.problems.Emit(out, k, r.problems)
	}
	clear(c.dirty.lone)
	return out
}

// loneSetReport returns the report of a ListenerSet with key k whose Gateway is not served here. It
// has a Problem if the parent does not exist or is no Gateway. If the Gateway runs elsewhere (class
// istio-remote), it has an Error and a status that is not accepted, as in Istio. The report is empty
// if object is nil, or the Gateway is of another controller.
func (c *Converter) loneSetReport(k config.Key, object *config.Config) report {
	r := report{key: k}
	set := specOf[*gatewayv1.ListenerSet](object)
	if set == nil {
		return r
	}
	v, severity := verdict{}, config.Warning
	parent := parentGateway(set)
	gateway := specOf[*gatewayv1.Gateway](c.objects.all[gatewayKey(parent)])
	switch {
	case parent == name{}:
		v.message = "only Gateways are parents of ListenerSets"
	case gateway == nil:
		v.message = "Gateway " + parent.String() + " does not exist"
	default:
		class := string(gateway.Spec.GatewayClassName)
		if _, ours := c.classOf(class); !ours {
			return r
		}
		v = verdict{
			string(gatewayv1.ListenerSetReasonNotAllowed),
			"GatewayClass " + class + " does not support ListenerSets, because its gateways run elsewhere",
		}
		severity = config.Error
		r.status = refusedSetStatus(object.Generation, v)
	}
	v.message = "spec.parentRef: " + v.message
	r.problems = []config.Problem{newProblem(object, "", severity, v)}
	return r
}
