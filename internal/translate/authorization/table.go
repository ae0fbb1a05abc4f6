package authorization

import (
	"slices"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"

	security "istio.io/api/security/v1beta1"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/code"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/translate/destination"
	"github.com/meshpilot/meshpilot/internal/translate/memo"
)

// Authorization is the access control for the workloads of some Views, as filters in the order of
// evaluation. It is immutable; equal ones have the same pointer.
type Authorization struct {
	HTTP []*hcmv3.HttpFilter
	TCP  []*listenerv3.Filter
	// CustomHTTP and CustomTCP are the numbers of filters of CUSTOM policies, with which HTTP and TCP
	// begin. They run before authentication and before plugins of the phases AUTHN and AUTHZ.
	CustomHTTP, CustomTCP int
	// Clusters are the clusters of external authorizers, sorted.
	Clusters []string
	// From are the policies.
	From []config.Key
	// Problems are Warnings without Origin.
	Problems []config.Problem
	// ConnectionProblems apply only to proxies that serve connections which are not HTTP.
	ConnectionProblems []ConnectionProblem
}

// ConnectionProblem is a Warning without Origin about a policy that does not check connections
// which are not HTTP. It applies only to proxies that serve such connections at a port of the
// policy.
type ConnectionProblem struct {
	config.Problem
	// AnyPort is set if a rule of the policy is not limited to ports. Otherwise Ports are the ports
	// of the proxy that the rules name.
	AnyPort bool
	Ports   []uint32
	// Selects is set if the policy has a selector. Other policies apply to all workloads of a
	// namespace, of which some serve nothing.
	Selects bool
}

// Table generates Authorizations and caches each distinct one. It is safe for concurrent use.
type Table struct {
	made *memo.Table[input, *Authorization]
}

// NewTable returns a Table with an empty cache.
func NewTable() *Table { return &Table{memo.New(newAuthorization)} }

// input is everything that an Authorization depends on.
type input struct {
	settings *snapshot.Settings
	policies memo.List[*config.Config]
	// providers are the services of external authorizers as the View sees them.
	providers memo.List[destination.NamedProvider]
}

// For returns the access control for the proxies of a View. It is never nil; without policies it
// has no filters.
func (t *Table) For(v *view.View) *Authorization {
	rows := policiesOf(v)
	return t.made.Get(input{settings: v.Settings, policies: memo.ListOf(rows), providers: providersOf(v, rows)})
}

// Touched reports whether a change may alter the result of For for a View; s is the snapshot after
// the change. It returns true for d.All, if an attached AuthorizationPolicy changed, or if a change
// of visibility alters the providers of the View's CUSTOM policies.
func (t *Table) Touched(v *view.View, s *snapshot.Snapshot, d snapshot.Delta) bool {
	if d.All || v.IsAnyAttachedChanged(d, api.AuthorizationPolicy) {
		return true
	}
	rows := policiesOf(v)
	return len(rows) > 0 && d.ChangesVisibility() && providersOf(v, rows) != providersOf(view.Build(s, v.Key), rows)
}

// policiesOf returns the AuthorizationPolicies that apply to the proxies of a View.
func policiesOf(v *view.View) []*config.Config {
	return v.Snapshot.Policies(api.AuthorizationPolicy, v.Key.Policies.Authorization)
}

// builder builds one Authorization.
type builder struct {
	input
	out *Authorization
}

// newAuthorization returns the filters of all policies for HTTP and for TCP, and the keys of the
// policies in their order (From). The filters of CUSTOM policies are first (addExternal), then one
// each for AUDIT, DENY and ALLOW if there are policies of that action. Clusters, of the external
// authorizers, are sorted and without duplicates.
func newAuthorization(in input) *Authorization {
	b := &builder{input: in, out: new(Authorization)}
	byAction := map[security.AuthorizationPolicy_Action][]*config.Config{}
	for c := range in.policies.All {
		a := config.Spec[*security.AuthorizationPolicy](c).GetAction()
		byAction[a] = append(byAction[a], c)
		b.out.From = append(b.out.From, c.Key)
	}
	b.addExternal(byAction[security.AuthorizationPolicy_CUSTOM])
	b.out.CustomHTTP, b.out.CustomTCP = len(b.out.HTTP), len(b.out.TCP)
	for _, a := range []security.AuthorizationPolicy_Action{
		// AUDIT is first, as in istiod: calls that DENY or ALLOW refuse are audited too.
		security.AuthorizationPolicy_AUDIT, security.AuthorizationPolicy_DENY, security.AuthorizationPolicy_ALLOW,
	} {
		if list := byAction[a]; len(list) > 0 {
			b.out.HTTP = append(b.out.HTTP, b.newDecision(list, a, requests).httpFilter(a))
			b.out.TCP = append(b.out.TCP, b.newDecision(list, a, connections).networkFilter(a))
		}
	}
	slices.Sort(b.out.Clusters)
	b.out.Clusters = slices.Compact(b.out.Clusters)
	return b.out
}

// isDryRun reports whether a policy is not enforced (annotation istio.io/dry-run). It returns false
// for a value that is not a boolean, which is a Problem of validation.
func isDryRun(c *config.Config) bool {
	tried, err := config.DryRun(c)
	return err == nil && tried
}

// addWarning adds a Warning to b.out.Problems that a field of c has no effect.
func (b *builder) addWarning(c *config.Config, field, reason string) {
	b.out.Problems = append(
		b.out.Problems,
		config.Problem{Code: code.FieldWithoutEffect, Key: c.Key, Field: field, Reason: reason,
			Severity: config.Warning},
	)
}
