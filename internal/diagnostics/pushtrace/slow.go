package pushtrace

import (
	"strconv"
	"strings"
	"time"

	"github.com/meshpilot/meshpilot/internal/diagnostics/debug"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/xds/push"
)

// maxNames bounds the objects and the proxies in a log entry.
const maxNames = 5

// logSlow logs a push that took longer than the threshold so far, with its causes and the phase in
// which most of the time was spent.
func (x *Observer) logSlow(c *push.Change, took time.Duration) {
	phase, spent := slowestPhase(c, took)
	fields := []any{
		"causes", strings.Join(causes(c, maxNames), ", "), "took", took, "phase", phase, "phase_took", spent,
		"proxies", c.Proxies, "acknowledged", c.Acknowledged, "rejected", c.Refused, "pending", c.Pending(),
	}
	if c.Pending() > 0 {
		fields = append(fields, "behind", strings.Join(behind(c), "; "))
	} else if c.Slowest != nil {
		fields = append(fields, "slowest", debug.DisplayName(c.Slowest))
	}
	x.o.Log.Warn("slow push", append(fields, "number", c.Number, "snapshot", c.Snapshot)...)
}

// slowestPhase returns the phase that took the longest part of a push that took this time, and how
// long that was. Before resources are generated, that is "collect or generate".
func slowestPhase(c *push.Change, took time.Duration) (string, time.Duration) {
	if c.Generated == nil {
		return "collect or generate", took
	}
	collect, generate := c.Generated.Gathered, c.Generated.Took
	distribute := took - collect - generate
	switch {
	case distribute >= max(collect, generate):
		return "distribute", distribute
	case generate >= collect:
		return "generate", generate
	default:
		return "collect", collect
	}
}

// causes returns descriptions of at most limit objects whose change was pushed, followed by "N
// more" if there are others.
func causes(c *push.Change, limit int) []string {
	var list []string
	for _, x := range c.Causes[:min(limit, len(c.Causes))] {
		list = append(list, describeCause(x))
	}
	if more := len(c.Causes) - len(list) + c.MoreCauses; more > 0 {
		list = append(list, strconv.Itoa(more)+" more")
	}
	return list
}

// describeCause returns a cause such as "VirtualService shop/reviews" or "endpoints of Service
// shop/cart". Kinds of changes without an object have only their name.
func describeCause(x push.Cause) string {
	name := strings.TrimSpace(string(x.Object.Kind) + " " +
		strings.TrimPrefix(x.Object.Namespace+"/"+x.Object.Name, "/"))
	switch x.Kind {
	case push.ObjectChanged:
		return name
	case push.EndpointsChanged, push.SecretAccessChanged:
		return x.Kind.String() + " of " + name
	case push.EverythingChanged, push.TokenKeysChanged, push.WorkloadChanged:
	}
	return strings.TrimSpace(x.Kind.String() + " " + name)
}

// behind returns some of the proxies that have not answered a change, with the types that they have
// not acknowledged. There are at most maxNames; a proxy without types was not sent the change yet.
func behind(c *push.Change) []string {
	var list []string
	for _, b := range c.Behind[:min(maxNames, len(c.Behind))] {
		state := "not sent yet"
		if len(b.Types) > 0 {
			var types []string
			for _, typeURL := range b.Types {
				types = append(types, api.ShortType(typeURL))
			}
			state = strings.Join(types, ", ") + " not acknowledged"
		}
		list = append(list, debug.DisplayName(b.Proxy)+": "+state)
	}
	return list
}
