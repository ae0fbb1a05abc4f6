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

// ConnectedProxy is the state of a proxy in istioctl's form, with its replica.
type ConnectedProxy struct {
	debug.SyncStatus
	Replica string `json:"replica,omitempty" doc:"The replica that it is connected to."`
}

// ProxyStates are the states of the connected proxies that the caller may see.
type ProxyStates struct {
	Proxies    []ConnectedProxy `json:"proxies" doc:"Sorted by name, in the form of istiod's page syncz."`
	Unanswered []Unanswered     `json:"unanswered,omitempty" doc:"Replicas whose proxies are missing."`
}

// registerProxyStates adds the operation that lists the state of each resource type of all proxies.
func (a *API) registerProxyStates() {
	huma.Register(a.api, huma.Operation{
		OperationID: "list-proxy-states", Method: http.MethodGet, Path: Prefix + "/proxy-states",
		Summary: "The nonces, times and errors of each resource type of the connected proxies, at all replicas",
		Errors:  []int{http.StatusUnauthorized, http.StatusForbidden},
	}, a.proxyStates)
}

// proxyStates serves the states of the proxies that the caller may read, of this and the selected
// other replicas, sorted by name. Each answer is computed for its request. Replicas that do not
// answer are in Unanswered.
func (a *API) proxyStates(ctx context.Context, r *Aggregation) (*struct{ Body ProxyStates }, error) {
	caller, withheld := callerOf(ctx), a.Pages.Withheld()
	x := ProxyStates{Proxies: []ConnectedProxy{}}
	for _, c := range a.Connections() {
		if caller.CanRead(c.Proxy.Namespace) {
			x.Proxies = append(x.Proxies, ConnectedProxy{debug.NewSyncStatus(c, withheld[c.ID]), a.Replica})
		}
	}
	var answers []ProxyStates
	answers, x.Unanswered = collectFromPeers[ProxyStates](ctx, a, *r, "/proxy-states", url.Values{})
	for _, other := range answers {
		x.Proxies = append(x.Proxies, other.Proxies...)
	}
	slices.SortStableFunc(x.Proxies, func(p, q ConnectedProxy) int { return strings.Compare(p.Proxy, q.Proxy) })
	return &struct{ Body ProxyStates }{x}, nil
}
