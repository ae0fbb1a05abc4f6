package readapi

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/meshpilot/meshpilot/internal/diagnostics/debug"
	"github.com/meshpilot/meshpilot/internal/diagnostics/precedence"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/xds/push"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

const (
	// maxUses limits the proxies and the resources in an ObjectEffect.
	maxUses = 500
	// maxViews limits the classes of proxies for which the relations of an object are computed.
	maxViews = 50
	// maxRelations limits the relations of an object: one for "*" competes with every other one.
	maxRelations = 200
)

// ObjectEffect is what an object does: which resources of which proxies are generated from it, and
// how it relates to other objects.
type ObjectEffect struct {
	Object
	// Kept is false if the control plane keeps only what is made from objects of the kind. Present
	// is then true if something is made from this one.
	Kept bool `json:"kept" doc:"False if the control plane keeps only what is made from objects of the kind, such as services and endpoints."`
	// Purpose is what objects of the kind do, Settings what this one contains.
	Purpose  string   `json:"purpose" doc:"What objects of the kind do."`
	Settings []string `json:"settings,omitempty" doc:"What this object contains: its hosts, selector, ports and fields."`
	// Connected is the number of connected proxies, Proxies the number of proxies that are served
	// resources generated from the object, UpToDate how many of them have acknowledged these.
	Connected int            `json:"connected" doc:"Proxies that are connected."`
	Proxies   int            `json:"proxies" doc:"Those of them that are served resources generated from the object."`
	UpToDate  int            `json:"upToDate" doc:"Those of them that have acknowledged all of these resources."`
	Uses      []ObjectUse    `json:"uses,omitempty" doc:"Some of these proxies, of the caller's namespace."`
	Resources []UsedResource `json:"resources,omitempty" doc:"Some of the resources that are generated from the object."`
	// Relations are to objects that compete with the object or are merged with it.
	Relations []ObjectRelation `json:"relations,omitempty" doc:"Objects that compete with the object, or are merged with it."`
	// Unanswered are the replicas whose part is missing.
	Unanswered []Unanswered `json:"unanswered,omitempty" doc:"Replicas whose proxies are missing."`
}

// ObjectUse is a proxy that is served resources generated from an object.
type ObjectUse struct {
	Proxy     string `json:"proxy" doc:"NAME.NAMESPACE"`
	Resources int    `json:"resources" doc:"Resources generated from the object."`
	Behind    string `json:"behind,omitempty" doc:"What it has not been sent or not acknowledged."`
	Rejected  bool   `json:"rejected,omitempty" doc:"True if it rejects one of the resources."`
	Replica   string `json:"replica,omitempty" doc:"The replica that it is connected to."`
	// Since is zero if nothing is missing, or if it is not known since when.
	Since time.Time `json:"since,omitzero" doc:"Since when the first of it is missing, if that is known."`
}

// UsedResource is a resource that is generated from an object.
type UsedResource struct {
	Type    string `json:"type" doc:"CDS, LDS, RDS, EDS, ECDS …"`
	Name    string `json:"name"`
	Proxies int    `json:"proxies" doc:"Proxies that are served it."`
}

// ObjectRelation is the relation of an object to another one.
type ObjectRelation struct {
	Effect    string `json:"effect" doc:"What the other object means for the object: takes precedence over, is overridden by, is merged before …"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	About     string `json:"about,omitempty" doc:"What both are about: a host, a port, the proxies."`
	Reason    string `json:"reason,omitempty"`
}

// registerEffect adds the operation that shows what an object does.
func (a *API) registerEffect(objectErrors []int) {
	huma.Register(a.api, huma.Operation{
		OperationID: "get-object-effect", Method: http.MethodGet, Path: Prefix + "/objects/{kind}/{name}/effect",
		Summary: "What an object does: for which proxies, by which resources, and which objects precede it",
		Errors:  objectErrors, Middlewares: huma.Middlewares{a.readAnyKey},
	}, a.effect)
}

// effect serves the effect of one object, merged from the selected replicas. Replicas that do not
// answer are added to Unanswered. A kind that is not kept is described by what is made from it.
func (a *API) effect(ctx context.Context, r *ObjectRequest) (*struct{ Body ObjectEffect }, error) {
	k, caller := keyOf(ctx), callerOf(ctx)
	x := a.effectOf(a.Snapshot(), k, caller)
	path := "/objects/" + url.PathEscape(string(k.Kind)) + "/" + url.PathEscape(k.Name) + "/effect"
	answers := collectAnswers(a, a.peersOf(r.Aggregation), func(address string) (o ObjectEffect, err error) {
		return o, readPeer(ctx, http.MethodGet, address, path, url.Values{"namespace": {k.Namespace}}, nil, peerTimeout,
			&o)
	})
	for _, one := range answers {
		if one.err != nil {
			x.Unanswered = append(x.Unanswered, newUnanswered(one.address, one.err))
			continue
		}
		x.Merge(one.value)
	}
	return &struct{ Body ObjectEffect }{x}, nil
}

// effectOf returns the effect of the object k on the proxies of this replica. Its Problems come
// from Options.Problems, or from the snapshot if that is nil. If snapshots do not keep the kind,
// the object is present if it has uses or settings. Relations to objects that the caller may not
// read lose their name and reason.
func (a *API) effectOf(s *snapshot.Snapshot, k config.Key, caller debug.Caller) ObjectEffect {
	x := ObjectEffect{
		Object: a.objectOf(s, k), Kept: snapshot.Keeps(k.Kind), Purpose: purposeOf(k.Kind),
		Settings: describeSettings(s, k),
	}
	if a.Problems != nil {
		x.Problems = nil
		for _, p := range a.Problems() {
			if p.Key == k {
				x.Problems = append(x.Problems, debug.NewProblem(p))
			}
		}
	}
	uses := a.Uses(k)
	connections := a.Connections()
	x.Connected, x.Proxies = len(connections), len(uses)
	x.addUses(uses, caller)
	if !x.Kept {
		x.Present = x.Proxies > 0 || len(x.Settings) > 0
	}
	for _, r := range relationsOf(s, k, connections, uses) {
		o := ObjectRelation{
			Effect: string(r.Effect), Kind: string(r.Object.Kind), Namespace: r.Object.Namespace, Name: r.Object.Name,
			About: r.About(), Reason: r.Reason,
		}
		if !caller.CanRead(r.Object.Namespace) {
			o.Namespace, o.Name, o.Reason = "", "(of another namespace)", ""
		}
		x.Relations = append(x.Relations, o)
	}
	return x
}

// addUses adds the resources of all proxies that use the object, and counts the proxies that are up
// to date. Proxies that the caller may not read, and proxies after the first maxUses, are not
// listed by name.
func (x *ObjectEffect) addUses(uses []push.ObjectUse, caller debug.Caller) {
	for _, u := range uses {
		if len(u.Behind) == 0 {
			x.UpToDate++
		}
		for _, r := range u.Resources {
			x.addResource(UsedResource{Type: api.ShortType(r.TypeURL), Name: r.Name, Proxies: 1})
		}
		if !caller.CanRead(u.Proxy.Namespace) || len(x.Uses) >= maxUses {
			continue
		}
		one := ObjectUse{Proxy: debug.DisplayName(u.Proxy), Resources: len(u.Resources), Replica: x.Replica,
			Since: u.Since}
		if len(u.Behind) > 0 {
			one.Behind = describeBehind(push.ProxyBehind{Resources: u.Behind})
			one.Rejected = slices.ContainsFunc(u.Behind,
				func(b push.ResourceBehind) bool { return b.State == stream.Rejected })
		}
		x.Uses = append(x.Uses, one)
	}
}

// addResource adds r to the sorted resources, or its number of proxies if it is listed already. It
// drops r if maxUses resources are listed.
func (x *ObjectEffect) addResource(r UsedResource) {
	at, found := slices.BinarySearchFunc(x.Resources, r, compareResources)
	switch {
	case found:
		x.Resources[at].Proxies += r.Proxies
	case len(x.Resources) < maxUses:
		x.Resources = slices.Insert(x.Resources, at, r)
	}
}

// compareResources orders resources by type and name.
func compareResources(a, b UsedResource) int {
	return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.Name, b.Name))
}

// Merge adds the proxies, resources, Problems, relations and unanswered replicas of another
// replica's effect to x. Problems and relations that x has already are skipped, and at most maxUses
// proxies and resources are listed. The object is present if either replica has it.
func (x *ObjectEffect) Merge(o ObjectEffect) {
	x.Connected += o.Connected
	x.Proxies += o.Proxies
	x.UpToDate += o.UpToDate
	x.Present = x.Present || o.Present
	x.Uses = append(x.Uses, o.Uses...)
	x.Uses = x.Uses[:min(len(x.Uses), maxUses)]
	for _, r := range o.Resources {
		x.addResource(r)
	}
	for _, p := range o.Problems {
		if !slices.Contains(x.Problems, p) {
			x.Problems = append(x.Problems, p)
		}
	}
	for _, r := range o.Relations {
		if !slices.Contains(x.Relations, r) {
			x.Relations = append(x.Relations, r)
		}
	}
	x.Unanswered = append(x.Unanswered, o.Unanswered...)
}

// relationsOf returns at most maxRelations relations of the object k, without duplicates, for the
// classes of the connected proxies. It evaluates at most maxViews classes: classes of proxies that
// use the object first, then classes of its namespace. For a Sidecar, proxies with other labels are
// another class. It reorders all.
func relationsOf(s *snapshot.Snapshot, k config.Key, all []push.Connection,
	uses []push.ObjectUse) []precedence.Relation {
	using := map[string]bool{}
	for _, u := range uses {
		using[u.ID] = true
	}
	rank := func(c push.Connection) int {
		switch {
		case using[c.ID]:
			return 0
		case c.Proxy.Namespace == k.Namespace:
			return 1
		default:
			return 2
		}
	}
	slices.SortStableFunc(all, func(a, b push.Connection) int { return cmp.Compare(rank(a), rank(b)) })
	type class struct {
		view.Key
		labels string
	}
	seen := map[class]bool{}
	var list []precedence.Relation
	for _, c := range all {
		labels := view.WorkloadLabels(s, c.Proxy)
		key := class{Key: view.KeyFor(s, c.Proxy)}
		if k.Kind == api.Sidecar {
			key.labels = snapshot.SelectorText(labels)
		}
		if seen[key] {
			continue
		}
		if len(seen) == maxViews || len(list) >= maxRelations {
			break
		}
		seen[key] = true
		for _, r := range precedence.Find(view.Build(s, key.Key), labels, k) {
			if !slices.Contains(list, r) {
				list = append(list, r)
			}
		}
	}
	return list[:min(len(list), maxRelations)]
}
