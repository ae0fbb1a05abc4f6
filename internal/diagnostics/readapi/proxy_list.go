package readapi

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// ProxiesRequest selects connected proxies, and a page of them.
type ProxiesRequest struct {
	Aggregation
	Filter     string `query:"filter" doc:"Only proxies whose row contains all of these words, each in any column."`
	State      string `query:"state" enum:"behind,rejecting" doc:"behind: only those in the states STALE and NOT SENT; rejecting: only those in the states ERROR and QUARANTINED."`
	Sort       string `query:"sort" enum:"proxy,state,type,address,locality,envoy,connected,replica" doc:"The column that the list is sorted by (default proxy). Equal ones are sorted by name."`
	Descending bool   `query:"descending" doc:"The last one of the column first."`
	Offset     int    `query:"offset" minimum:"0" doc:"How many to leave out before the first one."`
	Limit      int    `query:"limit" minimum:"0" doc:"The most to return (default all)."`
}

// ProxyList are connected proxies that the caller may see.
type ProxyList struct {
	Proxies    []Proxy      `json:"proxies" doc:"Sorted by name, or by another column."`
	Total      int          `json:"total" doc:"How many proxies fit filter and state, on all pages."`
	Unanswered []Unanswered `json:"unanswered,omitempty" doc:"Replicas whose proxies are missing."`
}

// proxiesAnswer is the response with a ProxyList.
type proxiesAnswer struct {
	Age  string `header:"Age" doc:"Seconds since the list was made for another client."`
	Body ProxyList
}

// ProxyVersion is how many proxies have a version.
type ProxyVersion struct {
	EnvoyVersion string `json:"envoyVersion,omitempty"`
	IstioVersion string `json:"istioVersion,omitempty"`
	Proxies      int    `json:"proxies"`
}

// ProxyVersions are the versions of the connected proxies that the caller may see.
type ProxyVersions struct {
	Versions   []ProxyVersion `json:"versions" doc:"Those of most proxies first."`
	Unanswered []Unanswered   `json:"unanswered,omitempty" doc:"Replicas whose proxies are missing."`
}

// proxies serves the connected proxies of this and the selected other replicas that r selects and
// the caller may read, ordered by r.compare. Total counts all of them; r.Offset and r.Limit (0: no
// limit) select the ones that are listed. The header Age is set if the rows were made for another
// client.
func (a *API) proxies(ctx context.Context, r *ProxiesRequest) (*proxiesAnswer, error) {
	caller, words := callerOf(ctx), strings.Fields(strings.ToLower(r.Filter))
	var rows []*proxyRow
	all, age := a.keptProxies.list(a)
	for i := range all {
		if caller.CanRead(all[i].Namespace) && all[i].isSelected(r.State, words) {
			rows = append(rows, &all[i])
		}
	}
	x := proxiesAnswer{Age: formatAge(age), Body: ProxyList{Proxies: []Proxy{}, Total: len(rows)}}
	answers, unanswered := collectFromPeers[ProxyList](ctx, a, r.Aggregation, "/proxies", r.query())
	for _, other := range answers {
		x.Body.Total += other.Total
		for i := range other.Proxies {
			rows = append(rows, &proxyRow{Proxy: &other.Proxies[i], state: other.Proxies[i].State})
		}
	}
	x.Body.Unanswered = unanswered
	slices.SortFunc(rows, r.compare)
	rows = rows[min(r.Offset, len(rows)):]
	if r.Limit > 0 {
		rows = rows[:min(r.Limit, len(rows))]
	}
	withheld := a.Pages.Withheld()
	for _, row := range rows {
		x.Body.Proxies = append(x.Body.Proxies, a.completeRow(row, withheld))
	}
	return &x, nil
}

// query returns the query for other replicas. It has no offset: each replica returns its first
// Offset+Limit rows, because all of these may be on the page. If Limit is 0, it returns all.
func (r *ProxiesRequest) query() url.Values {
	q := url.Values{
		"filter": {r.Filter}, "state": {r.State}, "sort": {r.Sort}, "descending": {strconv.FormatBool(r.Descending)},
	}
	if r.Limit > 0 {
		q.Set("limit", strconv.Itoa(r.Offset+r.Limit))
	}
	return q
}

// isSelected reports whether the proxy fits the state of a ProxiesRequest, "behind" or "rejecting",
// and has each of the words, which are in lower case, as a part of a column. Any other state fits
// all.
func (p *proxyRow) isSelected(state string, words []string) bool {
	switch {
	case state == "behind" && p.state != ProxyStale && p.state != ProxyNotSent,
		state == "rejecting" && p.state != ProxyError && p.state != ProxyQuarantined:
		return false
	}
	for _, w := range words {
		if !slices.ContainsFunc([]string{
			p.Proxy.Proxy,
			p.Type,
			p.Cluster,
			p.Address,
			p.Locality,
			p.IstioVersion,
			p.EnvoyVersion,
			p.Replica,
			string(p.state),
			p.Refused,
		}, func(text string) bool { return strings.Contains(strings.ToLower(text), w) }) {
			return false
		}
	}
	return true
}

// compare orders rows by the column r.Sort, and equal ones by name. An unknown or empty column
// orders by name. With Descending the column is reversed, but equal rows stay in ascending order.
func (r *ProxiesRequest) compare(p, q *proxyRow) int {
	var order int
	switch r.Sort {
	case "state":
		order = strings.Compare(string(p.state), string(q.state))
	case "type":
		order = strings.Compare(p.Type, q.Type)
	case "address":
		order = strings.Compare(p.Address, q.Address)
	case "locality":
		order = strings.Compare(p.Locality, q.Locality)
	case "envoy":
		order = strings.Compare(p.EnvoyVersion, q.EnvoyVersion)
	case "connected":
		order = p.ConnectedAt.Compare(q.ConnectedAt)
	case "replica":
		order = strings.Compare(p.Replica, q.Replica)
	default:
		order = strings.Compare(p.Proxy.Proxy, q.Proxy.Proxy)
	}
	if r.Descending {
		order = -order
	}
	return cmp.Or(order, p.compareNames(q))
}

// compareNames orders rows by the name of the proxy, and the streams of one by replica and ID.
func (p *proxyRow) compareNames(q *proxyRow) int {
	return cmp.Or(strings.Compare(p.Proxy.Proxy, q.Proxy.Proxy), strings.Compare(p.Replica, q.Replica),
		strings.Compare(p.stream, q.stream))
}

// proxyVersions serves the numbers of connected proxies by Envoy version and Istio version, of this
// and the selected other replicas, the most frequent first. Proxies that the caller may not read
// are not counted. Replicas that do not answer are in Unanswered.
func (a *API) proxyVersions(ctx context.Context, r *Aggregation) (*struct{ Body ProxyVersions }, error) {
	caller, numbers := callerOf(ctx), map[ProxyVersion]int{}
	for _, s := range a.StreamStates() {
		if caller.CanRead(s.Proxy.Namespace) {
			numbers[ProxyVersion{EnvoyVersion: envoyVersionText(s.Proxy), IstioVersion: s.Proxy.Metadata.IstioVersion}]++
		}
	}
	x := ProxyVersions{Versions: []ProxyVersion{}}
	var answers []ProxyVersions
	answers, x.Unanswered = collectFromPeers[ProxyVersions](ctx, a, *r, "/proxy-versions", url.Values{})
	for _, other := range answers {
		for _, v := range other.Versions {
			numbers[ProxyVersion{EnvoyVersion: v.EnvoyVersion, IstioVersion: v.IstioVersion}] += v.Proxies
		}
	}
	for v, n := range numbers {
		v.Proxies = n
		x.Versions = append(x.Versions, v)
	}
	slices.SortFunc(x.Versions, func(v, w ProxyVersion) int {
		return cmp.Or(w.Proxies-v.Proxies, strings.Compare(v.EnvoyVersion, w.EnvoyVersion),
			strings.Compare(v.IstioVersion, w.IstioVersion))
	})
	return &struct{ Body ProxyVersions }{x}, nil
}
