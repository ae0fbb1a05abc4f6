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

// Authentication is how tokens of requests to the workloads of some Views are checked. It is immutable; equal ones have one pointer.
type Authentication struct {
	// Rules are what is checked, sorted by issuer.
	Rules []Rule
	// HTTP are the filters, in the order in which requests pass them; none without rules.
	HTTP []*hcmv3.HttpFilter
	// Clusters are those of the services that Envoy fetches keys from, sorted.
	Clusters []string
	// From are the objects that rules are of.
	From []config.Key
	// Problems are Warnings without Origin.
	Problems []config.Problem
}

// Table makes Authentications, each distinct one once. It is for use by many goroutines.
type Table struct {
	made *memo.Table[input, *Authentication]
}

// NewTable makes a Table that remembers nothing yet.
func NewTable() *Table { return &Table{memo.New(build)} }

// input is all that an Authentication depends on.
type input struct {
	policies memo.List[*config.Config]
	keys     memo.List[keys]
	// routes says that requests are routed only when their tokens are checked: a gateway's.
	routes bool
}

// keys are where those of one rule come from.
type keys struct {
	source mesh.KeySource // zero: they stand in the rule
	set    *mesh.KeySet   // what is known of them, nil: nothing
	// cluster is that of the service by which Envoy is to fetch them, "": it is not; fault says why it cannot.
	cluster, fault string
}

// For gives how tokens of requests to the proxies of a View are checked.
func (t *Table) For(v *view.View) *Authentication {
	policies := policiesOf(v)
	return t.made.Get(input{policies: memo.ListOf(policies), keys: memo.ListOf(keysOf(v, policies)), routes: v.Key.Type == mesh.RouterProxy})
}

// Touched says whether a change may alter what For gives for a View; s is the snapshot after it.
func (t *Table) Touched(v *view.View, s *snapshot.Snapshot, d snapshot.Delta) bool {
	if d.All {
		return true
	}
	for k := range d.Configs {
		if k.Kind == api.RequestAuthentication && v.Key.Policies.Has(k) {
			return true
		}
	}
	byProxies := v.Settings.Features.KeyFetching != snapshot.FetchedByControlPlane && d.ChangesVisibility()
	if len(d.KeySets) == 0 && !byProxies {
		return false
	}
	policies := policiesOf(v)
	if len(policies) == 0 {
		return false
	}
	now := v.On(s)
	if byProxies {
		now = view.Build(s, v.Key)
	}
	return !slices.Equal(keysOf(v, policies), keysOf(now, policies))
}

func policiesOf(v *view.View) []*config.Config {
	return v.Snapshot.Policies(api.RequestAuthentication, v.Key.Policies.Authentication)
}

func build(in input) *Authentication {
	out := new(Authentication)
	for c := range in.policies.All {
		out.From = append(out.From, c.Key)
	}
	out.Rules = rules(slices.Collect(in.policies.All), slices.Collect(in.keys.All))
	for _, r := range out.Rules {
		if r.Cluster != "" {
			out.Clusters = append(out.Clusters, r.Cluster)
		}
		out.Problems = append(out.Problems, r.problems()...)
	}
	slices.Sort(out.Clusters)
	out.Clusters = slices.Compact(out.Clusters)
	slices.SortFunc(out.Problems, config.Problem.Compare)
	out.HTTP = filters(out.Rules, in.routes)
	return out
}
