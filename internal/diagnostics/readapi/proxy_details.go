package readapi

import (
	"context"
	"net/http"
	"net/url"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/meshpilot/meshpilot/internal/diagnostics/debug"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/xds/push"
)

const (
	// maxRows limits each table of a proxy, and maxSources the objects of a row.
	maxRows    = 2_000
	maxSources = 8
)

// ProxyRequest names a proxy.
type ProxyRequest struct {
	Aggregation
	Proxy string `path:"proxy" doc:"NAME.NAMESPACE"`
}

// ProxyDetails are the resources that a proxy was sent, as tables.
type ProxyDetails struct {
	Proxy
	Labels    map[string]string `json:"labels,omitempty"`
	Identity  string            `json:"identity,omitempty" doc:"The SPIFFE ID that the proxy has authenticated with. The list of certificates has its newest one."`
	Secrets   []Source          `json:"secrets,omitempty" doc:"Secrets and ConfigMaps, of the caller's namespaces, with certificates that it was sent."`
	Clusters  []ClusterRow      `json:"clusters"`
	Listeners []ListenerRow     `json:"listeners" doc:"One row per filter chain."`
	Routes    []RouteRow        `json:"routes"`
	Endpoints []EndpointRow     `json:"endpoints"`
	// Omitted is the number of rows that are left out of large tables.
	Omitted int `json:"omitted,omitempty" doc:"Rows that are left out of large tables."`
}

// Source is an object.
type Source struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// SourceOf returns the Source of an object.
func SourceOf(k config.Key) Source {
	return Source{Kind: string(k.Kind), Namespace: k.Namespace, Name: k.Name}
}

// Sources are the objects that a resource is generated from.
type Sources struct {
	From        []Source `json:"from,omitempty" doc:"Objects that the resource is generated from, of the caller's namespaces."`
	FromOmitted int      `json:"fromOmitted,omitempty" doc:"Further objects."`
}

// proxyDetails serves the tables of a proxy that is connected to this replica, or else the first
// answer of the other replicas. It answers 404 if the proxy is connected to none or the caller may
// not read it.
func (a *API) proxyDetails(ctx context.Context, r *ProxyRequest) (*struct{ Body ProxyDetails }, error) {
	caller := callerOf(ctx)
	if c, found := a.Pages.FindConnection(r.Proxy, caller); found {
		x := ProxyDetails{Proxy: a.newProxy(c, a.Pages.Withheld()[c.ID]), Labels: c.Proxy.Labels, Identity: c.Proxy.Identity}
		(&proxyTables{ProxyDetails: &x, caller: caller}).addResources(c)
		return &struct{ Body ProxyDetails }{x}, nil
	}
	answers, _ := collectFromPeers[ProxyDetails](ctx, a, r.Aggregation, "/proxies/"+url.PathEscape(r.Proxy),
		url.Values{})
	if len(answers) > 0 {
		return &struct{ Body ProxyDetails }{answers[0]}, nil
	}
	return nil, huma.NewError(http.StatusNotFound, "no proxy of that name is connected to this control plane")
}

// proxyTables are the tables of a proxy while they are made.
type proxyTables struct {
	*ProxyDetails
	caller debug.Caller
}

// addResources replaces the tables by the resources that the stream was sent: a row for each
// cluster, filter chain, route and endpoint. Clusters are sorted by host, listeners by port.
// Objects of secrets are added to Secrets if the caller may read them; other types are ignored.
// Omitted counts resources that cannot be decoded, and rows beyond maxRows.
func (t *proxyTables) addResources(c push.Connection) {
	t.Clusters, t.Listeners, t.Routes, t.Endpoints = []ClusterRow{}, []ListenerRow{}, []RouteRow{}, []EndpointRow{}
	for _, w := range c.Types {
		for _, r := range w.Resources() {
			var err error
			switch w.TypeURL {
			case api.ClusterType:
				err = t.addCluster(r)
			case api.ListenerType:
				err = t.addListener(r)
			case api.RouteType:
				err = t.addRoutes(r)
			case api.EndpointType:
				err = t.addEndpoints(r)
			case api.SecretType:
				t.addSecrets(r)
			}
			if err != nil {
				t.Omitted++
			}
		}
	}
	slices.SortStableFunc(t.Clusters, compareClusters)
	slices.SortStableFunc(t.Listeners, func(a, b ListenerRow) int { return int(a.Port) - int(b.Port) })
}

// addSecrets adds the objects with the certificates of an SDS resource that are not listed yet.
// Objects that the caller may not read, and objects of other kinds, are left out.
func (t *proxyTables) addSecrets(r *resource.Resource) {
	for _, k := range r.From {
		if o := SourceOf(k); (k.Kind == api.Secret || k.Kind == api.ConfigMap) && t.caller.CanRead(k.Namespace) &&
			!slices.Contains(t.Secrets, o) {
			t.Secrets = append(t.Secrets, o)
		}
	}
}

// sourcesOf returns the objects that the resource was generated from and the caller may read.
func (t *proxyTables) sourcesOf(r *resource.Resource) Sources { return t.newSources(r.From) }

// newSources returns at most maxSources objects of keys that the caller may read. FromOmitted
// counts the further ones.
func (t *proxyTables) newSources(keys []config.Key) Sources {
	var x Sources
	for _, k := range keys {
		switch {
		case !t.caller.CanRead(k.Namespace):
		case len(x.From) == maxSources:
			x.FromOmitted++
		default:
			x.From = append(x.From, SourceOf(k))
		}
	}
	return x
}

// appendRow returns table with row appended, or counts the row in t.Omitted if the table has
// maxRows already.
func appendRow[T any](t *proxyTables, table []T, row T) []T {
	if len(table) >= maxRows {
		t.Omitted++
		return table
	}
	return append(table, row)
}
