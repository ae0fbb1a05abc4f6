package readapi

import (
	"context"
	"net/http"
	"net/url"

	"github.com/danielgtaylor/huma/v2"
)

// ExplainRequest is a call whose path is asked for.
type ExplainRequest struct {
	Aggregation
	Proxy     string   `query:"proxy" required:"true" doc:"The proxy whose call is explained: NAME.NAMESPACE."`
	URL       string   `query:"url" required:"true" doc:"http://HOST:PORT/PATH, https://HOST, tcp://HOST:PORT or tls://SERVER-NAME:PORT"`
	Method    string   `query:"method" doc:"Method of the request (default GET)."`
	Headers   []string `query:"header,explode" doc:"Headers of the request, NAME: VALUE."`
	Principal string   `query:"principal" doc:"Identity of the caller, NAMESPACE/ACCOUNT. The call is then inbound, by mutual TLS."`
	Inbound   bool     `query:"inbound" doc:"The call is inbound to the proxy's workload."`
	Both      bool     `query:"both" doc:"Also explain the call at the workload that receives it."`
}

// ExplainAnswer is the path of a call.
type ExplainAnswer struct {
	// Path is an *explain.Path.
	Path any    `json:"path" doc:"Steps in order, with the object that decides each, and the possible endings, as pilotctl explain -o json has them."`
	Text string `json:"text" doc:"The path as pilotctl explain prints it."`
}

// registerExplain adds the operation that explains a call.
func (a *API) registerExplain() {
	huma.Register(a.api, huma.Operation{
		OperationID: "explain", Method: http.MethodGet, Path: Prefix + "/explain",
		Summary: "Where a proxy sends a call, and which objects decide it",
		Errors:  []int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound},
	}, a.explain)
}

// explain serves the path of a call, from the replica to which the proxy is connected, or only from
// this one with r.Local. It answers 404 if the proxy is connected to none, and also if its replica
// does not answer. It answers with the status of the debug page if that refuses the request for
// another reason.
func (a *API) explain(ctx context.Context, r *ExplainRequest) (*struct{ Body ExplainAnswer }, error) {
	path, err := a.Pages.ExplainCall(r.pageQuery(), callerOf(ctx))
	switch {
	case err == nil:
		return &struct{ Body ExplainAnswer }{ExplainAnswer{path, path.String()}}, nil
	case isRefusedWith(err, http.StatusNotFound):
		answers, _ := collectFromPeers[ExplainAnswer](ctx, a, r.Aggregation, "/explain", r.query())
		if len(answers) > 0 {
			return &struct{ Body ExplainAnswer }{answers[0]}, nil
		}
		return nil, huma.Error404NotFound("no proxy " + r.Proxy + " is connected to this control plane")
	}
	return nil, responseError(err)
}

// query returns the parameters of the request as another replica's API expects them. Parameters
// that are not set are empty, except that inbound and both are then missing.
func (r *ExplainRequest) query() url.Values {
	q := url.Values{"proxy": {r.Proxy}, "url": {r.URL}, "method": {r.Method}, "header": r.Headers,
		"principal": {r.Principal}}
	for name, on := range map[string]bool{"inbound": r.Inbound, "both": r.Both} {
		if on {
			q.Set(name, "true")
		}
	}
	return q
}

// pageQuery returns the parameters of the debug page "explain". That page distinguishes an empty
// principal from a missing one, so an empty one is left out.
func (r *ExplainRequest) pageQuery() url.Values {
	q := r.query()
	q.Set("proxyID", r.Proxy)
	if r.Principal == "" {
		q.Del("principal")
	}
	return q
}
