package readapi

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/sse"

	"github.com/meshpilot/meshpilot/internal/diagnostics/debug"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/xds/push"
)

// BehindAfter is the age from which a change names the proxies that have not answered it. Most proxies
// answer in less, and names would be out of date when they are read.
const BehindAfter = time.Second

// ChangeState is how far a change has come.
type ChangeState string

// The states of a change.
const (
	// ChangeGenerating means that the control plane generates resources.
	ChangeGenerating ChangeState = "generating"
	// ChangeDistributing means that proxies have not answered everything.
	ChangeDistributing ChangeState = "distributing"
	// ChangeRejected means that proxies have rejected a part of it.
	ChangeRejected ChangeState = "rejected"
	// ChangeDone means that all proxies that it reached have acknowledged it.
	ChangeDone ChangeState = "done"
)

// PushedChange is something that was pushed at one time: objects that have changed, and the proxies that
// need it.
type PushedChange struct {
	ID       string      `json:"id" doc:"Replica and number of the change."`
	Replica  string      `json:"replica,omitempty" doc:"The replica of the control plane that pushed it."`
	Snapshot uint64      `json:"snapshot" doc:"Number of the snapshot that was pushed."`
	Time     time.Time   `json:"time" doc:"When the control plane learned of it."`
	State    ChangeState `json:"state" enum:"generating,distributing,rejected,done"`
	// Causes are the objects that the caller may read.
	Causes     []ChangeCause `json:"causes" doc:"What has changed, at most 100 objects."`
	MoreCauses int           `json:"moreCauses,omitempty" doc:"Number of other objects; those of other namespaces are included."`
	// Classes is not the number of proxies: alike proxies share all resources.
	Classes      int            `json:"classes" doc:"Groups of alike proxies that got other resources. One that is updated in two steps counts twice."`
	Resources    map[string]int `json:"resources,omitempty" doc:"Resources that differ, by type: CDS, LDS, RDS, EDS, ECDS … One that is generated for several groups of proxies counts for each."`
	Proxies      int            `json:"proxies" doc:"Proxies that were sent something, or will be."`
	Acknowledged int            `json:"acknowledged" doc:"Proxies that have acknowledged all of it."`
	Rejected     int            `json:"rejected" doc:"Proxies that have answered all of it and rejected a part."`
	Disconnected int            `json:"disconnected" doc:"Proxies that disconnected before they had answered."`
	Pending      int            `json:"pending" doc:"Proxies that have not answered all of it yet."`
	// Times are in milliseconds after Time.
	GeneratedMillis float64 `json:"generatedMillis,omitempty" doc:"Time until all resources were generated, in milliseconds, including the time in which further changes were collected."`
	FirstMillis     float64 `json:"firstMillis,omitempty" doc:"Time until the first proxy acknowledged all of it, in milliseconds."`
	LastMillis      float64 `json:"lastMillis,omitempty" doc:"Time until the last proxy so far acknowledged all of it, in milliseconds."`
	Slowest         string  `json:"slowest,omitempty" doc:"The proxy that acknowledged last, NAME.NAMESPACE, if the caller may read its namespace."`
	// Behind and Refusals name proxies of namespaces that the caller may read.
	Behind   []ProxyBehind `json:"behind,omitempty" doc:"Some of the proxies that have not answered all of it after a second, of the caller's namespace."`
	Refusals []Refusal     `json:"refusals,omitempty" doc:"Resources that proxies of the caller's namespace have rejected."`
}

// ChangeCause is something that has changed.
type ChangeCause struct {
	What string `json:"what" enum:"everything,object,endpoints,secret access,token keys,workload" doc:"object: it was added, removed or changed; endpoints: those of a service; everything: the first snapshot, settings of the mesh, or a forced push."`
	Kind string `json:"kind,omitempty"`
	// Name is an address of a workload and a URL of token keys.
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
}

// Changes are the last changes of all replicas that answer.
type Changes struct {
	Changes    []PushedChange `json:"changes" doc:"Newest first."`
	Unanswered []Unanswered   `json:"unanswered,omitempty" doc:"Replicas whose answer is missing."`
}

// ChangesRequest selects changes.
type ChangesRequest struct {
	Aggregation
	Namespace string `query:"namespace" doc:"Only changes of objects of this namespace."`
	ID        string `query:"id" doc:"Only the change with this ID."`
	Limit     int    `query:"limit" minimum:"1" maximum:"1000" default:"50" doc:"The newest ones only."`
}

// registerChanges adds the operations that list and follow the last changes.
func (a *API) registerChanges() {
	errs := []int{http.StatusUnauthorized, http.StatusForbidden}
	huma.Register(a.api, huma.Operation{
		OperationID: "list-changes", Method: http.MethodGet, Path: Prefix + "/changes",
		Summary: "The last changes that were pushed: their causes, and the proxies that have acknowledged or rejected them",
		Errors:  errs,
	}, func(ctx context.Context, r *ChangesRequest) (*struct{ Body Changes }, error) {
		own := a.ownChanges(callerOf(ctx), *r)
		return &struct{ Body Changes }{mergeChanges(own, a.peerChanges(ctx, *r), r.Limit)}, nil
	})
	sse.Register(a.api, huma.Operation{
		OperationID: "watch-changes", Method: http.MethodGet, Path: Prefix + "/changes/events",
		Summary: "The last changes that were pushed: an event whenever one has come further", Errors: errs,
		Middlewares: huma.Middlewares{keepWriter},
	}, map[string]any{"changes": Changes{}}, a.watchChanges)
}

// peerChanges returns the changes of the other replicas that r selects, in no particular order, and
// the replicas that did not answer.
func (a *API) peerChanges(ctx context.Context, r ChangesRequest) (x Changes) {
	var answers []Changes
	answers, x.Unanswered = collectFromPeers[Changes](ctx, a, r.Aggregation, "/changes", url.Values{
		"namespace": {r.Namespace}, "id": {r.ID}, "limit": {strconv.Itoa(r.Limit)},
	})
	for _, other := range answers {
		x.Changes = append(x.Changes, other.Changes...)
	}
	return x
}

// mergeChanges returns at most limit changes of this replica and of others, newest first.
func mergeChanges(own []PushedChange, peers Changes, limit int) Changes {
	x := Changes{Changes: append(append([]PushedChange{}, own...), peers.Changes...), Unanswered: peers.Unanswered}
	slices.SortStableFunc(x.Changes, func(a, b PushedChange) int { return b.Time.Compare(a.Time) })
	x.Changes = x.Changes[:min(len(x.Changes), limit)]
	return x
}

// ownChanges returns the changes of this replica that r selects and the caller may see, newest
// first, at most r.Limit. It is empty if Options.Changes is nil. A caller with a namespace sees
// changes of objects there. Causes that it may not see are only counted.
func (a *API) ownChanges(caller debug.Caller, r ChangesRequest) []PushedChange {
	list := []PushedChange{}
	if a.Changes == nil {
		return list
	}
	changes, _ := a.changes.list(a.Clock, a.ChangeProgress, a.Changes)
	for _, c := range changes {
		if len(list) == r.Limit {
			break
		}
		if r.ID != "" && a.changeID(c) != r.ID {
			continue
		}
		causes := readableCauses(c, caller, r.Namespace)
		if len(causes) > 0 {
			list = append(list, a.newChange(c, causes, caller))
		}
	}
	return list
}

// changeID returns the ID of a change of this replica. It is REPLICA.NUMBER; without a name the
// replica is "istiod".
func (a *API) changeID(c push.Change) string {
	return cmp.Or(a.Replica, "istiod") + "." + strconv.FormatUint(c.Number, 10)
}

// readableCauses returns the causes that the caller may read, of the namespace if that is set.
// Causes without a namespace are only for callers without one.
func readableCauses(c push.Change, caller debug.Caller, namespace string) []ChangeCause {
	var list []ChangeCause
	for _, x := range c.Causes {
		if caller.CanRead(x.Object.Namespace) && (namespace == "" || x.Object.Namespace == namespace) {
			list = append(list, ChangeCause{
				What: x.Kind.String(), Kind: string(x.Object.Kind), Namespace: x.Object.Namespace, Name: x.Object.Name,
			})
		}
	}
	return list
}

// newChange returns the answer about a change with these causes; other causes of c are only
// counted. It names only proxies and rejections that the caller may read, and at most maxBehind
// proxies that are behind, sorted by name. The numbers include all proxies.
func (a *API) newChange(c push.Change, causes []ChangeCause, caller debug.Caller) PushedChange {
	x := PushedChange{
		ID: a.changeID(c), Replica: a.Replica, Snapshot: c.Snapshot, Time: c.Published, Causes: causes,
		MoreCauses: len(c.Causes) - len(causes) + c.MoreCauses, Classes: c.Classes, Proxies: c.Proxies,
		Acknowledged: c.Acknowledged, Rejected: c.Refused, Disconnected: c.Disconnected, Pending: c.Pending(),
		FirstMillis: millis(c.First), LastMillis: millis(c.Last),
	}
	switch {
	case c.Generated == nil:
		x.State = ChangeGenerating
	case c.Refused > 0:
		x.State = ChangeRejected
	case x.Pending > 0:
		x.State = ChangeDistributing
	default:
		x.State = ChangeDone
	}
	if g := c.Generated; g != nil {
		x.GeneratedMillis = millis(g.Gathered + g.Took)
		for typeURL, n := range g.Resources {
			if x.Resources == nil {
				x.Resources = map[string]int{}
			}
			x.Resources[api.ShortType(typeURL)] += n
		}
	}
	if c.Slowest != nil && caller.CanRead(c.Slowest.Namespace) {
		x.Slowest = debug.DisplayName(c.Slowest)
	}
	for _, b := range c.Behind {
		if caller.CanRead(b.Proxy.Namespace) && len(x.Behind) < maxBehind {
			x.Behind = append(x.Behind, ProxyBehind{Proxy: debug.DisplayName(b.Proxy),
				Reason: describeUnanswered(b.Types)})
		}
	}
	slices.SortFunc(x.Behind, func(a, b ProxyBehind) int { return cmp.Compare(a.Proxy, b.Proxy) })
	x.Refusals = readableRefusals(c.Refusals, caller)
	return x
}

// describeUnanswered returns the types that a proxy has not acknowledged, or that it was sent
// nothing.
func describeUnanswered(types []string) string {
	if len(types) == 0 {
		return "not sent yet"
	}
	short := make([]string, len(types))
	for i, typeURL := range types {
		short[i] = api.ShortType(typeURL)
	}
	return strings.Join(short, ", ") + " not acknowledged"
}

// readableRefusals returns the refusals by proxies that the caller may read, with the names of
// these proxies, sorted. Line breaks in messages become spaces.
func readableRefusals(list []push.ChangeRefusal, caller debug.Caller) []Refusal {
	var refusals []Refusal
	for _, r := range list {
		x := Refusal{Type: api.ShortType(r.TypeURL), Resource: r.Resource,
			Message: strings.Join(strings.Fields(r.Message), " ")}
		for _, p := range r.Proxies {
			if caller.CanRead(p.Namespace) {
				x.Proxies = append(x.Proxies, debug.DisplayName(p))
			}
		}
		if len(x.Proxies) > 0 {
			slices.Sort(x.Proxies)
			refusals = append(refusals, x)
		}
	}
	return refusals
}

// millis returns a duration in milliseconds.
func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
