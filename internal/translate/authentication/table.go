package authentication

import (
	"slices"

	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/translate/memo"
)

// Authentication is how tokens of requests to the workloads of some Views are validated. It is
// immutable; equal ones have the same pointer.
type Authentication struct {
	// Rules are the applicable rules, sorted by issuer.
	Rules []Rule
	// HTTP are the filters, in the order in which requests pass them; empty without rules.
	HTTP []*hcmv3.HttpFilter
	// Clusters are the clusters through which Envoy fetches keys, sorted.
	Clusters []string
	// From are the objects that contain the rules.
	From []config.Key
	// Problems are Warnings without Origin.
	Problems []config.Problem
}

// Table generates Authentications and caches each distinct one. It is safe for concurrent use.
type Table struct {
	made *memo.Table[input, *Authentication]
}

// NewTable returns a Table with an empty cache.
func NewTable() *Table { return &Table{memo.New(newAuthentication)} }

// input is everything that an Authentication depends on.
type input struct {
	policies memo.List[*config.Config]
	keys     memo.List[keys]
	// routes re-evaluates the route of a request after validation, because routes of gateways may
	// match claims.
	routes bool
}

// keys is the source of the keys of one rule.
type keys struct {
	source mesh.KeySource // zero if the rule contains them
	set    *mesh.KeySet   // nil if not fetched yet
	// cluster is the cluster through which Envoy fetches the keys, "" if it does not; fault is why
	// it cannot.
	cluster, fault string
}

// For returns how tokens of requests to the proxies of a View are validated, cached or new. It is
// never nil; without RequestAuthentications it is empty. Routes are selected again after validation
// only for gateways.
func (t *Table) For(v *view.View) *Authentication {
	policies := policiesOf(v)
	return t.made.Get(input{
		policies: memo.ListOf(policies),
		keys:     memo.ListOf(keysOf(v, policies)),
		routes:   v.Key.Type == mesh.RouterProxy,
	})
}

// Touched reports whether a change may alter the result of For for a View; s is the snapshot after
// the change. It returns true for d.All and for any change of attached RequestAuthentications.
// Changes of key sets and, if proxies fetch keys, of visible services are compared by their effect
// on the keys; without RequestAuthentications they have none.
func (t *Table) Touched(v *view.View, s *snapshot.Snapshot, d snapshot.Delta) bool {
	if d.All || v.IsAnyAttachedChanged(d, api.RequestAuthentication) {
		return true
	}
	byProxies := v.Settings.Features.KeyFetching != snapshot.FetchedByControlPlane && d.ChangesVisibility()
	if len(d.KeySets) == 0 && !byProxies {
		return false
	}
	policies := policiesOf(v)
	if len(policies) == 0 {
		return false
	}
	now := v.WithSnapshot(s)
	if byProxies {
		now = view.Build(s, v.Key)
	}
	return !slices.Equal(keysOf(v, policies), keysOf(now, policies))
}

// policiesOf returns the RequestAuthentications that apply to the proxies of a View.
func policiesOf(v *view.View) []*config.Config {
	return v.Snapshot.Policies(api.RequestAuthentication, v.Key.Policies.Authentication)
}

// newAuthentication returns the Authentication of in: the keys of its policies in order (From),
// their sorted rules (rulesOf) and one filter for them (newFilters). Without policies, all its
// fields are empty. Clusters, through which proxies fetch keys, are sorted, without duplicates.
// Rules with invalid, missing or outdated keys stay in it, with a Warning in Problems, which are
// sorted.
func newAuthentication(in input) *Authentication {
	out := new(Authentication)
	for c := range in.policies.All {
		out.From = append(out.From, c.Key)
	}
	out.Rules = rulesOf(slices.Collect(in.policies.All), slices.Collect(in.keys.All))
	for _, r := range out.Rules {
		if r.Cluster != "" {
			out.Clusters = append(out.Clusters, r.Cluster)
		}
		out.Problems = append(out.Problems, r.problems()...)
	}
	slices.Sort(out.Clusters)
	out.Clusters = slices.Compact(out.Clusters)
	slices.SortFunc(out.Problems, config.Problem.Compare)
	out.HTTP = newFilters(out.Rules, in.routes)
	return out
}
