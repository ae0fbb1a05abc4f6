package readapi

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/meshpilot/meshpilot/internal/diagnostics/debug"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/xds/push"
)

// ProxyState summarizes the states of a proxy's resource types: it is the worst of them.
type ProxyState string

// The states, the worst first.
const (
	ProxyError       ProxyState = "ERROR"
	ProxyQuarantined ProxyState = "QUARANTINED"
	ProxyStale       ProxyState = "STALE"
	ProxyNotSent     ProxyState = "NOT SENT"
	ProxySynced      ProxyState = "SYNCED"
)

// Proxy is a connected proxy.
type Proxy struct {
	Proxy        string            `json:"proxy" doc:"NAME.NAMESPACE"`
	Namespace    string            `json:"namespace"`
	Type         string            `json:"type" doc:"sidecar or router"`
	State        ProxyState        `json:"state" enum:"SYNCED,STALE,NOT SENT,QUARANTINED,ERROR" doc:"The worst state of its resource types."`
	Types        map[string]string `json:"types" doc:"The state of each type that it has requested: CDS, LDS, RDS, EDS, ECDS …"`
	Refused      string            `json:"refused,omitempty" doc:"What it rejects, and what is withheld because proxies reject it."`
	Cluster      string            `json:"cluster,omitempty"`
	Address      string            `json:"address,omitempty"`
	Locality     string            `json:"locality,omitempty" doc:"REGION/ZONE/SUBZONE"`
	IstioVersion string            `json:"istioVersion,omitempty"`
	EnvoyVersion string            `json:"envoyVersion,omitempty"`
	ConnectedAt  time.Time         `json:"connectedAt"`
	Replica      string            `json:"replica,omitempty" doc:"The replica that it is connected to."`
}

// ProxyList are the connected proxies that the caller may see.
type ProxyList struct {
	Proxies    []Proxy      `json:"proxies" doc:"Sorted by name."`
	Unanswered []Unanswered `json:"unanswered,omitempty" doc:"Replicas whose proxies are missing."`
}

// registerProxies adds the operations on proxies.
func (a *API) registerProxies() {
	errs := []int{http.StatusUnauthorized, http.StatusForbidden}
	huma.Register(a.api, huma.Operation{
		OperationID: "list-proxies", Method: http.MethodGet, Path: Prefix + "/proxies",
		Summary: "The connected proxies and whether they have acknowledged their configuration, at all replicas",
		Errors:  errs,
	}, a.proxies)
	huma.Register(a.api, huma.Operation{
		OperationID: "get-proxy", Method: http.MethodGet, Path: Prefix + "/proxies/{proxy}",
		Summary: "What a proxy was sent, as tables, with the objects that each resource is generated from",
		Errors:  append(errs, http.StatusNotFound),
	}, a.proxyDetails)
}

// proxies serves the connected proxies that the caller may read, of this and the selected other
// replicas, sorted by name.
func (a *API) proxies(ctx context.Context, r *Aggregation) (*struct{ Body ProxyList }, error) {
	caller, withheld := callerOf(ctx), a.Pages.Withheld()
	x := ProxyList{Proxies: []Proxy{}}
	for _, c := range a.Connections() {
		if caller.CanRead(c.Proxy.Namespace) {
			x.Proxies = append(x.Proxies, a.newProxy(c, withheld[c.ID]))
		}
	}
	var answers []ProxyList
	answers, x.Unanswered = collectFromPeers[ProxyList](ctx, a, *r, "/proxies", url.Values{})
	for _, other := range answers {
		x.Proxies = append(x.Proxies, other.Proxies...)
	}
	slices.SortStableFunc(x.Proxies, func(p, q Proxy) int { return strings.Compare(p.Proxy, q.Proxy) })
	return &struct{ Body ProxyList }{x}, nil
}

// newProxy returns the row of the proxy of a stream. withheld are the resources that quarantine
// withholds from it.
func (a *API) newProxy(c push.Connection, withheld []push.Quarantined) Proxy {
	s := debug.NewSyncStatus(c, withheld)
	x := Proxy{
		Proxy: s.Proxy, Namespace: c.Proxy.Namespace, Type: s.ProxyType, State: summaryState(s),
		Types:   map[string]string{},
		Refused: s.RefusedText(), Cluster: s.ClusterID, Locality: localityText(c.Proxy), IstioVersion: s.IstioVersion,
		EnvoyVersion: s.EnvoyVersion, ConnectedAt: c.ConnectedAt.UTC().Truncate(time.Second), Replica: a.Replica,
	}
	if len(c.Proxy.Addresses) > 0 {
		x.Address = c.Proxy.Addresses[0].String()
	}
	for typeURL, r := range s.Resources {
		x.Types[api.ShortType(typeURL)] = r.SyncState()
	}
	return x
}

// summaryState returns the worst state of all resource types, and ProxyNotSent if the proxy has
// requested none.
func summaryState(s debug.SyncStatus) ProxyState {
	order := []ProxyState{ProxyError, ProxyQuarantined, ProxyStale, ProxyNotSent, ProxySynced}
	worst := len(order)
	for _, r := range s.Resources {
		worst = min(worst, slices.Index(order, ProxyState(r.SyncState())))
	}
	if worst == len(order) {
		return ProxyNotSent
	}
	return order[worst]
}

// localityText returns the locality of a proxy, or "" if it has none.
func localityText(p *mesh.Proxy) string {
	if p.Locality == (mesh.Locality{}) {
		return ""
	}
	return p.Locality.String()
}
