package authorization

import (
	"fmt"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tcprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/rbac/v3"

	meshconfig "istio.io/api/mesh/v1alpha1"
	security "istio.io/api/security/v1beta1"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/resource"
)

// Names of the filters, which EnvoyFilters match.
const (
	httpFilter = "envoy.filters.http.rbac"
	tcpFilter  = "envoy.filters.network.rbac"
)

// tcpStatPrefix is the prefix of a network filter's statistics, which is required.
const tcpStatPrefix = "tcp."

// decision has the rules of all policies of one action: the enforced ones, and the rules of dry-run
// policies (istio.io/dry-run). Each is nil if there are none.
type decision struct{ enforced, dryRun *rbacv3.RBAC }

// newDecision returns the rules of the policies with the action for calls of kind k, separately for
// enforced policies and dry runs. A part is nil if it has no policy. All policies must have that
// action.
func (b *builder) newDecision(policies []*config.Config, action security.AuthorizationPolicy_Action, k kind) decision {
	var d decision
	for _, c := range policies {
		to := &d.enforced
		if isDryRun(c) {
			to = &d.dryRun
		}
		if *to == nil {
			*to = &rbacv3.RBAC{Action: envoyAction(action), Policies: map[string]*rbacv3.Policy{}}
		}
		b.addRules(*to, c, k, action == security.AuthorizationPolicy_ALLOW)
	}
	return d
}

// addRules adds the rules of a policy to the map in to, by ruleName. Rules that no call of kind k
// can match are left out. A policy without rules adds none, so if it is the only ALLOW, everything
// is refused. widens is set for ALLOW rules, which match more calls if a condition is dropped.
func (b *builder) addRules(to *rbacv3.RBAC, c *config.Config, k kind, widens bool) {
	spec := config.Spec[*security.AuthorizationPolicy](c)
	level := b.settings.Mesh.GetPathNormalization().GetNormalization()
	s := scope{
		namespace: c.Namespace, domains: b.settings.TrustDomains(),
		mergesSlashes: level == meshconfig.MeshConfig_ProxyPathNormalization_MERGE_SLASHES ||
			level == meshconfig.MeshConfig_ProxyPathNormalization_DECODE_AND_MERGE_SLASHES,
	}
	for i, r := range spec.GetRules() {
		if p := s.newPolicy(r, k, widens); p != nil {
			to.Policies[ruleName(c, i)] = p
		}
	}
}

// ruleName returns the name under which the rule with that index of the policy appears in access
// logs and statistics. It has the form ns[NAMESPACE]-policy[NAME]-rule[INDEX].
func ruleName(c *config.Config, rule int) string {
	return fmt.Sprintf("ns[%s]-policy[%s]-rule[%d]", c.Namespace, c.Name, rule)
}

// envoyAction returns ALLOW for ALLOW, LOG for AUDIT, and DENY for DENY and for the shadow rules of
// CUSTOM.
func envoyAction(a security.AuthorizationPolicy_Action) rbacv3.RBAC_Action {
	switch a {
	case security.AuthorizationPolicy_ALLOW:
		return rbacv3.RBAC_ALLOW
	case security.AuthorizationPolicy_AUDIT:
		return rbacv3.RBAC_LOG
	default: // DENY, and the shadow rules of CUSTOM
		return rbacv3.RBAC_DENY
	}
}

// dryRunPrefix returns the prefix of the metadata keys to which dry-run rules write their result,
// as in istiod: "istio_dry_run_deny_" for DENY, "istio_dry_run_allow_" for ALLOW, and none for
// AUDIT.
func dryRunPrefix(a security.AuthorizationPolicy_Action) string {
	switch a {
	case security.AuthorizationPolicy_ALLOW:
		return "istio_dry_run_allow_"
	case security.AuthorizationPolicy_DENY:
		return "istio_dry_run_deny_"
	default:
		return ""
	}
}

// httpFilter returns the HTTP RBAC filter that enforces d.enforced and evaluates d.dryRun as shadow
// rules. a is the action of the policies; it determines the metadata keys of the dry run
// (dryRunPrefix).
func (d decision) httpFilter(a security.AuthorizationPolicy_Action) *hcmv3.HttpFilter {
	f := &httprbacv3.RBAC{Rules: d.enforced, ShadowRules: d.dryRun}
	if d.dryRun != nil {
		f.ShadowRulesStatPrefix = dryRunPrefix(a)
	}
	return &hcmv3.HttpFilter{Name: httpFilter, ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: resource.Pack(f)}}
}

// networkFilter returns the network RBAC filter that enforces d.enforced and evaluates d.dryRun as
// shadow rules. a is the action of the policies; it determines the metadata keys of the dry run
// (dryRunPrefix).
func (d decision) networkFilter(a security.AuthorizationPolicy_Action) *listenerv3.Filter {
	f := &tcprbacv3.RBAC{Rules: d.enforced, ShadowRules: d.dryRun, StatPrefix: tcpStatPrefix}
	if d.dryRun != nil {
		f.ShadowRulesStatPrefix = dryRunPrefix(a)
	}
	return &listenerv3.Filter{
		Name:       tcpFilter,
		ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: resource.Pack(f)},
	}
}
