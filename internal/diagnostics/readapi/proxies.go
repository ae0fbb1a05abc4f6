package readapi

import (
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/meshpilot/meshpilot/internal/diagnostics/debug"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
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

// registerProxies adds the operations on proxies.
func (a *API) registerProxies() {
	errs := []int{http.StatusUnauthorized, http.StatusForbidden}
	huma.Register(a.api, huma.Operation{
		OperationID: "list-proxies", Method: http.MethodGet, Path: Prefix + "/proxies",
		Summary: "The connected proxies and whether they have acknowledged their configuration, at all replicas",
		Errors:  errs,
	}, a.proxies)
	huma.Register(a.api, huma.Operation{
		OperationID: "list-proxy-versions", Method: http.MethodGet, Path: Prefix + "/proxy-versions",
		Summary: "How many proxies of each version are connected, at all replicas", Errors: errs,
	}, a.proxyVersions)
	huma.Register(a.api, huma.Operation{
		OperationID: "get-proxy", Method: http.MethodGet, Path: Prefix + "/proxies/{proxy}",
		Summary: "What a proxy was sent, as tables, with the objects that each resource is generated from",
		Errors:  append(errs, http.StatusNotFound),
	}, a.proxyDetails)
}

// newProxy returns the row of the proxy of a stream. withheld are the resources that quarantine
// withholds from it.
func (a *API) newProxy(c push.Connection, withheld []push.Quarantined) Proxy {
	s := debug.NewSyncStatus(c, withheld)
	x := a.newProxyRow(c.Proxy, c.ConnectedAt)
	x.State, x.Refused, x.Types = summaryState(s), s.RefusedText(), map[string]string{}
	for typeURL, r := range s.Resources {
		x.Types[api.ShortType(typeURL)] = r.SyncState()
	}
	return x
}

// newProxyRow returns the row of a proxy without State, Types and Refused. It has no address if the
// proxy has none.
func (a *API) newProxyRow(p *mesh.Proxy, connected time.Time) Proxy {
	x := Proxy{
		Proxy: debug.DisplayName(p), Namespace: p.Namespace, Type: string(p.Type), Cluster: string(p.ClusterID),
		Locality:     view.Locality(a.Snapshot(), p).String(),
		IstioVersion: p.Metadata.IstioVersion, EnvoyVersion: envoyVersionText(p),
		ConnectedAt: connected.UTC().Truncate(time.Second), Replica: a.Replica,
	}
	if len(p.Addresses) > 0 {
		x.Address = p.Addresses[0].String()
	}
	return x
}

// summaryState returns the worst state of all resource types, in the order error, quarantined,
// stale, not sent, synced. It returns ProxyNotSent if the proxy has requested none.
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

// envoyVersionText returns the version of a proxy's Envoy, or "" if it is unknown.
func envoyVersionText(p *mesh.Proxy) string {
	if p.EnvoyVersion == (mesh.EnvoyVersion{}) {
		return ""
	}
	return p.EnvoyVersion.String()
}
