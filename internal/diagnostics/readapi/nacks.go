package readapi

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/meshpilot/meshpilot/internal/diagnostics/debug"
)

// ReplicaNacks are the resources that proxies of one replica rejected.
type ReplicaNacks struct {
	Replica string       `json:"replica,omitempty" doc:"The replica that the proxies are connected to."`
	Nacks   []debug.Nack `json:"nacks" doc:"Newest first."`
}

// NackList are the rejected resources of all replicas.
type NackList struct {
	Replicas   []ReplicaNacks `json:"replicas" doc:"The replica that answers first."`
	Unanswered []Unanswered   `json:"unanswered,omitempty" doc:"Replicas whose answer is missing."`
}

// registerNacks adds the operation that lists rejected resources.
func (a *API) registerNacks() {
	huma.Register(a.api, huma.Operation{
		OperationID: "list-nacks", Method: http.MethodGet, Path: Prefix + "/nacks",
		Summary: "The resources that proxies rejected (NACK) or that are withheld because of it, at all replicas",
		Errors:  []int{http.StatusUnauthorized, http.StatusForbidden},
	}, a.nacks)
}

// nacks serves the rejected resources of the selected replicas, by replica. A caller with a
// namespace gets the resources that are generated from its objects, without the names of other
// objects, proxies and identities. Replicas that do not answer are in Unanswered.
func (a *API) nacks(ctx context.Context, r *Aggregation) (*struct{ Body NackList }, error) {
	x := NackList{Replicas: []ReplicaNacks{
		{Replica: a.Replica, Nacks: readableNacks(a.Pages.RejectedResources(), callerOf(ctx))},
	}}
	var answers []NackList
	answers, x.Unanswered = collectFromPeers[NackList](ctx, a, *r, "/nacks", url.Values{})
	for _, other := range answers {
		x.Replicas = append(x.Replicas, other.Replicas...)
	}
	return &struct{ Body NackList }{x}, nil
}

// readableNacks returns the part of the list that the caller may read. It modifies the list. A
// caller without a namespace may read all. Others see only rejections from objects of their
// namespace, without witnesses and without the names of objects and proxies of other namespaces.
func readableNacks(list []debug.Nack, caller debug.Caller) []debug.Nack {
	if caller.CanRead("") {
		return list
	}
	for i := range list {
		n := &list[i]
		n.Witnesses = nil
		n.From = slices.DeleteFunc(n.From, func(o debug.NamedObject) bool { return !caller.CanRead(o.Namespace) })
		n.Names = slices.DeleteFunc(n.Names, func(name string) bool {
			return !caller.CanRead(name[strings.LastIndexByte(name, '.')+1:])
		})
	}
	return slices.DeleteFunc(list, func(n debug.Nack) bool { return len(n.From) == 0 })
}
