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

// Names of the filters, which users' EnvoyFilters look for.
const (
	httpFilter = "envoy.filters.http.rbac"
	tcpFilter  = "envoy.filters.network.rbac"
)

// tcpStatPrefix is the name of a network filter's statistics, which must have one.
const tcpStatPrefix = "tcp."

// decision is the rules of all policies of one action: those in force, and those that are only tried (istio.io/dry-run). Each is nil
// if there is none of them.
type decision struct{ enforced, tried *rbacv3.RBAC }

// decide makes the rules of the policies of an action.
func (b *builder) decide(policies []*config.Config, action security.AuthorizationPolicy_Action, k kind) decision {
	var d decision
	for _, c := range policies {
		to := &d.enforced
		if dryRun(c) {
			to = &d.tried
		}
		if *to == nil {
			*to = &rbacv3.RBAC{Action: envoyAction(action), Policies: map[string]*rbacv3.Policy{}}
		}
		b.rules(*to, c, k, action == security.AuthorizationPolicy_ALLOW)
	}
	return d
}

// rules adds the rules of a policy. One without rules has none, and so as the only ALLOW refuses everything.
func (b *builder) rules(to *rbacv3.RBAC, c *config.Config, k kind, widens bool) {
	spec := config.Spec[*security.AuthorizationPolicy](c)
	level := b.settings.Mesh.GetPathNormalization().GetNormalization()
	s := scope{
		namespace: c.Namespace, domains: b.settings.TrustDomains(),
		mergesSlashes: level == meshconfig.MeshConfig_ProxyPathNormalization_MERGE_SLASHES ||
			level == meshconfig.MeshConfig_ProxyPathNormalization_DECODE_AND_MERGE_SLASHES,
	}
	for i, r := range spec.GetRules() {
		if p := s.rule(r, k, widens); p != nil {
			to.Policies[ruleName(c, i)] = p
		}
	}
}

// ruleName is how access logs and statistics call a rule.
func ruleName(c *config.Config, rule int) string {
	return fmt.Sprintf("ns[%s]-policy[%s]-rule[%d]", c.Namespace, c.Name, rule)
}

func envoyAction(a security.AuthorizationPolicy_Action) rbacv3.RBAC_Action {
	switch a {
	case security.AuthorizationPolicy_ALLOW:
		return rbacv3.RBAC_ALLOW
	case security.AuthorizationPolicy_AUDIT:
		return rbacv3.RBAC_LOG
	default: // what DENY says is refused, and what CUSTOM says is told apart as if it were
		return rbacv3.RBAC_DENY
	}
}

// dryRunPrefix is the begin of the names of what rules that are only tried would have decided.
func dryRunPrefix(a security.AuthorizationPolicy_Action) string {
	if a == security.AuthorizationPolicy_DENY {
		return "istio_dry_run_deny_"
	}
	return "istio_dry_run_allow_"
}

func (d decision) http(a security.AuthorizationPolicy_Action) *hcmv3.HttpFilter {
	f := &httprbacv3.RBAC{Rules: d.enforced, ShadowRules: d.tried}
	if d.tried != nil {
		f.ShadowRulesStatPrefix = dryRunPrefix(a)
	}
	return &hcmv3.HttpFilter{Name: httpFilter, ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: resource.Pack(f)}}
}

func (d decision) tcp(a security.AuthorizationPolicy_Action) *listenerv3.Filter {
	f := &tcprbacv3.RBAC{Rules: d.enforced, ShadowRules: d.tried, StatPrefix: tcpStatPrefix}
	if d.tried != nil {
		f.ShadowRulesStatPrefix = dryRunPrefix(a)
	}
	return &listenerv3.Filter{Name: tcpFilter, ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: resource.Pack(f)}}
}
