package analysis

import (
	"fmt"
	"strings"

	security "istio.io/api/security/v1beta1"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/code"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

const (
	letsIn = "lets in callers without mutual TLS, too, who have no identity: have PeerAuthentication be STRICT here, or ask for principals: [\"*\"] beside it"
	misses = "does not refuse callers without mutual TLS, who have no identity: have PeerAuthentication be STRICT here, or refuse notPrincipals: [\"*\"] too"
)

// reportAuthorizationPolicies adds Warnings for ALLOW and DENY rules about identities that plain
// text callers bypass. A caller without mutual TLS has no identity. So a DENY of named identities
// does not match it, and neither do the exceptions of an ALLOW (ISTIO-SECURITY-2021-004). Policies
// with targetRefs, and of workloads that require mutual TLS at all ports, are skipped.
func (a *analyzer) reportAuthorizationPolicies() {
	for _, c := range a.s.Configs(api.AuthorizationPolicy) {
		spec := config.Spec[*security.AuthorizationPolicy](c)
		if spec.GetTargetRef() != nil || len(spec.GetTargetRefs()) > 0 {
			continue // for gateways, where external callers have no mesh identity
		}
		allow := spec.GetAction() == security.AuthorizationPolicy_ALLOW
		if !allow && spec.GetAction() != security.AuthorizationPolicy_DENY {
			continue
		}
		modes := a.s.PeerModes(a.s.Peers(c.Namespace, spec.GetSelector().GetMatchLabels()))
		if modes.Mode == security.PeerAuthentication_MutualTLS_STRICT && len(modes.Ports) == 0 {
			continue
		}
		for i, r := range spec.GetRules() {
			rule := fmt.Sprintf("spec.rules[%d]", i)
			if allow {
				a.reportAllowWithoutIdentity(c, rule, r)
			} else {
				a.reportDenyOfIdentities(c, rule, r)
			}
		}
	}
}

// identityFields returns the fields of a source that match identities, by name. If not is true, it
// returns the negative fields.
func identityFields(s *security.Source, not bool) map[string][]string {
	if not {
		return map[string][]string{
			"notPrincipals": s.GetNotPrincipals(), "notNamespaces": s.GetNotNamespaces(),
			"notServiceAccounts": s.GetNotServiceAccounts(), "notTrustDomains": s.GetNotTrustDomains(),
		}
	}
	return map[string][]string{
		"principals":      s.GetPrincipals(),
		"namespaces":      s.GetNamespaces(),
		"serviceAccounts": s.GetServiceAccounts(),
		"trustDomains":    s.GetTrustDomains(),
	}
}

// namedFields returns the names of the fields that have values, in no particular order. A list with
// only empty texts has values.
func namedFields(lists map[string][]string) (fields []string) {
	for field, values := range lists {
		if len(values) > 0 {
			fields = append(fields, field)
		}
	}
	return fields
}

// identityCondition returns the field, such as ".when[0].values", of a rule's first condition on
// identities. ok is false if there is none. If not is true, only conditions with notValues count,
// and otherwise conditions with values. A condition is on identities if its key starts with
// "source.", except source.ip.
func identityCondition(r *security.Rule, not bool) (field string, ok bool) {
	for i, w := range r.GetWhen() {
		values, part := w.GetValues(), "values"
		if not {
			values, part = w.GetNotValues(), "notValues"
		}
		identity := strings.HasPrefix(w.GetKey(), "source.") && w.GetKey() != "source.ip"
		if identity && len(values) > 0 {
			return fmt.Sprintf(".when[%d].%s", i, part), true
		}
	}
	return "", false
}

// reportAllowWithoutIdentity adds Warnings for an ALLOW rule that excludes identities without
// requiring any. They are about each negative identity field of a source without positive identity
// fields, and the first condition with notValues. If a condition requires an identity, it adds
// none. If any source does, it adds none about the condition.
func (a *analyzer) reportAllowWithoutIdentity(c *config.Config, rule string, r *security.Rule) {
	if _, asks := identityCondition(r, false); asks {
		return
	}
	field, but := identityCondition(r, true)
	for j, from := range r.GetFrom() {
		if len(namedFields(identityFields(from.GetSource(), false))) > 0 {
			but = false // this source requires an identity; the condition applies to each source
			continue
		}
		for _, f := range namedFields(identityFields(from.GetSource(), true)) {
			a.warn(code.IdentityBypass, c, fmt.Sprintf("%s.from[%d].source.%s", rule, j, f), letsIn)
		}
	}
	if but {
		a.warn(code.IdentityBypass, c, rule+field, letsIn)
	}
}

// reportDenyOfIdentities adds a Warning for a DENY rule's first condition that requires an
// identity, and for each field of a source that does. Negative fields and conditions are ignored.
func (a *analyzer) reportDenyOfIdentities(c *config.Config, rule string, r *security.Rule) {
	if field, names := identityCondition(r, false); names {
		a.warn(code.IdentityBypass, c, rule+field, misses)
	}
	for j, from := range r.GetFrom() {
		for _, f := range namedFields(identityFields(from.GetSource(), false)) {
			a.warn(code.IdentityBypass, c, fmt.Sprintf("%s.from[%d].source.%s", rule, j, f), misses)
		}
	}
}
