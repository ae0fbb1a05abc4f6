package readapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"

	"github.com/danielgtaylor/huma/v2"

	"github.com/meshpilot/meshpilot/internal/diagnostics/debug"
)

// PageRequest selects a debug page.
type PageRequest struct {
	Aggregation
	Name  string `path:"name" doc:"Name of the page: syncz, nackz, explain …"`
	Query string `query:"query" doc:"Query of the page, encoded as in its URL: proxyID=web.shop"`
}

// ReplicaPage is a debug page as one replica has it.
type ReplicaPage struct {
	Replica string `json:"replica"`
	Status  int    `json:"status" doc:"HTTP status of the page: 404 for a proxy that is connected elsewhere."`
	Error   string `json:"error,omitempty" doc:"Why the status is not 200."`
	Body    any    `json:"body,omitempty" doc:"Content of the page; text if the page is not JSON."`
}

// ReplicaPages is a debug page of all replicas.
type ReplicaPages struct {
	Pages      []ReplicaPage `json:"pages" doc:"The replica that answers first."`
	Unanswered []Unanswered  `json:"unanswered,omitempty" doc:"Replicas whose page is missing."`
}

// registerPages adds the operation that reads a debug page of all replicas.
func (a *API) registerPages() {
	huma.Register(a.api, huma.Operation{
		OperationID: "get-page", Method: http.MethodGet, Path: Prefix + "/pages/{name}",
		Summary: "A debug page as each replica has it",
		Errors:  []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusUnprocessableEntity},
	}, a.pages)
}

// pages serves a debug page of the selected replicas. Each page has the status that it has below
// /debug, and a query that changes something is refused. A malformed query is answered 422.
// Replicas that do not answer are in Unanswered.
func (a *API) pages(ctx context.Context, r *PageRequest) (*struct{ Body ReplicaPages }, error) {
	query, err := url.ParseQuery(r.Query)
	if err != nil {
		return nil, huma.Error422UnprocessableEntity("query: " + err.Error())
	}
	x := ReplicaPages{Pages: []ReplicaPage{a.readOwnPage(r.Name, query, callerOf(ctx))}}
	var answers []ReplicaPages
	answers, x.Unanswered = collectFromPeers[ReplicaPages](ctx, a, r.Aggregation, "/pages/"+url.PathEscape(r.Name),
		url.Values{"query": {r.Query}})
	for _, one := range answers {
		x.Pages = append(x.Pages, one.Pages...)
	}
	return &struct{ Body ReplicaPages }{x}, nil
}

// readOwnPage returns a debug page of this replica, a body that is JSON as it is and any other as
// text. A Refusal becomes Status and Error, any other error a 500.
func (a *API) readOwnPage(name string, query url.Values, caller debug.Caller) ReplicaPage {
	x := ReplicaPage{Replica: a.Replica, Status: http.StatusOK}
	body, err := a.Pages.Read(name, query, caller)
	var refusal debug.Refusal
	switch {
	case err == nil && json.Valid(body):
		x.Body = json.RawMessage(body)
	case err == nil:
		x.Body = string(body)
	case errors.As(err, &refusal):
		x.Status, x.Error = refusal.Status, refusal.Reason
	default:
		x.Status, x.Error = http.StatusInternalServerError, err.Error()
	}
	return x
}
