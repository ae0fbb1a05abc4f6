package precedence

import (
	"cmp"
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
)

// Effect is what happens to an object because of another one.
type Effect string

// The effects of another object.
const (
	// Prevails means that the object is used instead of the other one.
	Prevails Effect = "takes precedence over"
	// Loses means that the other object is used instead.
	Loses Effect = "is overridden by"
	// MergedFirst means that both are used, and that the object prevails where both set the same.
	MergedFirst Effect = "is merged before"
	// MergedAfter means that both are used, and that the other object prevails where both set the
	// same.
	MergedAfter Effect = "is merged after"
	// Combined means that both apply.
	Combined Effect = "is combined with"
	// AppliedBefore and AppliedAfter mean that both change the same resources in this order.
	AppliedBefore Effect = "is applied before"
	AppliedAfter  Effect = "is applied after"
	// Delegates means that the object delegates routes to the other one. DelegatedBy is the
	// reverse.
	Delegates   Effect = "delegates to"
	DelegatedBy Effect = "is a delegate of"
)

// Relation is the relation of an object to another one.
type Relation struct {
	Effect Effect
	Object config.Key
	// Host is the host that both have, if they are about one.
	Host mesh.Hostname
	// Subject is what both are about otherwise: "port 80". It may be empty.
	Subject string
	// Reason is why one of them prevails, or the order of both. It may be empty.
	Reason string
}

// String returns the relation in one line, without its first object:
// "takes precedence over VirtualService/shop/b for host b.example.com: it is older".
func (r Relation) String() string {
	text := string(r.Effect) + " " + r.Object.String()
	if about := r.About(); about != "" {
		text += " for " + about
	}
	if r.Reason != "" {
		text += ": " + r.Reason
	}
	return text
}

// About returns the host or else the other subject of the relation, or "" if it has none.
func (r Relation) About() string {
	if r.Host != "" {
		return "host " + string(r.Host)
	}
	return r.Subject
}

// Find returns the relations of the object k to others, for the proxies of the View whose workloads
// have the given labels ([view.WorkloadLabels]), sorted and without duplicates. It returns nil if
// the snapshot does not have the object. Kinds without precedence have none. The labels matter only
// to Sidecars.
func Find(v *view.View, labels map[string]string, k config.Key) []Relation {
	c := v.Snapshot.Config(k)
	if c == nil {
		return nil
	}
	var list []Relation
	switch k.Kind {
	case api.VirtualService, api.HTTPRoute, api.GRPCRoute, api.Ingress:
		list = virtualServiceRelations(v, k)
	case api.DestinationRule:
		list = destinationRuleRelations(v, c)
	case api.ServiceEntry:
		list = serviceEntryRelations(v, c)
	case api.Gateway:
		list = gatewayRelations(v, c)
	case api.Sidecar:
		list = sidecarRelations(v, labels, c)
	case api.Telemetry:
		list = telemetryRelations(v, k)
	case api.PeerAuthentication:
		list = peerAuthenticationRelations(v, k)
	case api.AuthorizationPolicy:
		list = policyRelations(v, k, v.Key.Policies.Authorization)
	case api.RequestAuthentication:
		list = policyRelations(v, k, v.Key.Policies.Authentication)
	case api.WasmPlugin, api.TrafficExtension:
		list = pluginRelations(v, k)
	case api.EnvoyFilter:
		list = envoyFilterRelations(v, k)
	}
	slices.SortStableFunc(list, func(a, b Relation) int {
		return cmp.Or(cmp.Compare(a.Effect, b.Effect), a.Object.Compare(b.Object), cmp.Compare(a.About(), b.About()))
	})
	return slices.Compact(list)
}

// byAge returns the relation of c to other. Its effect is older if c is the older object, and
// younger otherwise.
func byAge(c, other *config.Config, older, younger Effect, subject string) Relation {
	r := Relation{Effect: older, Object: other.Key, Subject: subject,
		Reason: "it is older, or of equal age and the first by name"}
	if config.CompareAge(other, c) < 0 {
		r.Effect, r.Reason = younger, "the other one is older, or of equal age and the first by name"
	}
	return r
}
