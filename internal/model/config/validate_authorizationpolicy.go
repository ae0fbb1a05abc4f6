package config

import (
	"slices"
	"strconv"
	"strings"

	security "istio.io/api/security/v1beta1"

	"istio.io/api/annotation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// checkAuthorizationPolicy adds Errors for an AuthorizationPolicy with an invalid target or rule,
// and with more than 512 rules. CUSTOM without a provider, and another action with one, are Errors
// too, as are DENY and CUSTOM without rules, which never apply. An invalid dry-run annotation, and
// a DENY rule that denies all TCP connections (deniesRawConnections), are Warnings. The check of
// the selector (checkAttachment) adds further ones.
func (r *report) checkAuthorizationPolicy(at path, policy *security.AuthorizationPolicy) {
	if _, err := DryRun(r.object); err != nil {
		r.warnf(field.NewPath("metadata", "annotations").Key(annotation.IoIstioDryRun.Name), "%v", err)
	}
	r.checkAttachment(at, attachment{policy.GetSelector(), policy.GetTargetRef(), policy.GetTargetRefs()})
	action := policy.GetAction()
	custom := action == security.AuthorizationPolicy_CUSTOM
	switch {
	case custom && policy.GetProvider().GetName() == "":
		r.errorf(at.Child("provider", "name"), "is required for action CUSTOM")
	case !custom && policy.GetActionDetail() != nil:
		r.errorf(at.Child("provider"), "is allowed for action CUSTOM only, not for %s", action)
	}
	if len(policy.GetRules()) == 0 && (custom || action == security.AuthorizationPolicy_DENY) {
		r.errorf(at.Child("rules"),
			"without rules action %s never applies: write \"rules: [{}]\" for every request",
			action)
	}
	r.checkMaxItems(at.Child("rules"), len(policy.GetRules()), 512)
	for i, rule := range policy.GetRules() {
		r.checkAuthorizationRule(at.Child("rules").Index(i), rule, custom)
		if action == security.AuthorizationPolicy_DENY && deniesRawConnections(rule) {
			r.warnf(at.Child("rules").Index(i), "denies all connections to TCP ports, "+
				"because proxies cannot check its fields of HTTP there: add to.operation.ports")
		}
	}
}

// deniesRawConnections reports whether a rule of a DENY matches every connection to TCP ports that
// the policy selects, as in Istio. It does if it has operations and no operation has ports. It also
// does if it has sources and no operations, and no source has a field that applies to connections.
func deniesRawConnections(rule *security.Rule) bool {
	ports := func(to *security.Rule_To) bool {
		return len(to.GetOperation().GetPorts())+len(to.GetOperation().GetNotPorts()) > 0
	}
	if len(rule.GetTo()) > 0 {
		return !slices.ContainsFunc(rule.GetTo(), ports)
	}
	ofConnections := func(from *security.Rule_From) bool {
		s := from.GetSource()
		return len(s.GetPrincipals())+len(s.GetNotPrincipals())+len(s.GetNamespaces())+len(s.GetNotNamespaces())+
			len(s.GetIpBlocks())+len(s.GetNotIpBlocks())+len(s.GetRemoteIpBlocks())+len(s.GetNotRemoteIpBlocks())+
			len(s.GetServiceAccounts())+len(s.GetNotServiceAccounts())+
			len(s.GetTrustDomains())+len(s.GetNotTrustDomains()) > 0
	}
	return len(rule.GetFrom()) > 0 && !slices.ContainsFunc(rule.GetFrom(), ofConnections)
}

// checkAuthorizationRule adds Errors for invalid sources, operations and conditions of a rule, and
// for more than 512 sources. custom is set for action CUSTOM.
func (r *report) checkAuthorizationRule(at path, rule *security.Rule, custom bool) {
	r.checkMaxItems(at.Child("from"), len(rule.GetFrom()), 512)
	for i, from := range rule.GetFrom() {
		r.checkRuleSource(at.Child("from").Index(i).Child("source"), from.GetSource(), custom)
	}
	for i, to := range rule.GetTo() {
		r.checkRuleOperation(at.Child("to").Index(i).Child("operation"), to.GetOperation())
	}
	for i, condition := range rule.GetWhen() {
		r.checkRuleCondition(at.Child("when").Index(i), condition, custom)
	}
}

// namedValues is a list field of a rule.
type namedValues struct {
	name   string
	values []string
}

// checkValueLists adds an Error for each empty value in lists of patterns, or one Error at the
// parent if all lists are empty.
func (r *report) checkValueLists(at path, lists []namedValues) {
	empty := true
	for _, list := range lists {
		for i, value := range list.values {
			empty = false
			r.requireValue(at.Child(list.name).Index(i), value)
		}
	}
	if empty {
		r.errorf(at, "is empty, at least one field is required")
	}
}

// checkRuleSource adds Errors for a source of a rule without any value, for empty values, and for
// invalid address blocks, trust domains and service accounts. If custom is set, principals,
// requestPrincipals, namespaces and their negations are Errors too, as in Istio. It accepts
// serviceAccounts and trustDomains, which Istio refuses too. Proxies compare them with the
// certificate of the connection before they call the external service.
func (r *report) checkRuleSource(at path, source *security.Source, custom bool) {
	r.checkValueLists(at, []namedValues{
		{"principals", source.GetPrincipals()},
		{"notPrincipals", source.GetNotPrincipals()},
		{
			"requestPrincipals",
			source.GetRequestPrincipals(),
		},
		{"notRequestPrincipals", source.GetNotRequestPrincipals()},
		{"namespaces", source.GetNamespaces()},
		{"notNamespaces", source.GetNotNamespaces()},
		{"serviceAccounts", source.GetServiceAccounts()},
		{"notServiceAccounts", source.GetNotServiceAccounts()},
		{"ipBlocks", source.GetIpBlocks()},
		{"notIpBlocks", source.GetNotIpBlocks()},
		{"remoteIpBlocks", source.GetRemoteIpBlocks()},
		{"notRemoteIpBlocks", source.GetNotRemoteIpBlocks()},
		{"trustDomains", source.GetTrustDomains()},
		{"notTrustDomains", source.GetNotTrustDomains()},
	})
	for _, blocks := range []namedValues{
		{"ipBlocks", source.GetIpBlocks()}, {"notIpBlocks", source.GetNotIpBlocks()},
		{"remoteIpBlocks", source.GetRemoteIpBlocks()}, {"notRemoteIpBlocks", source.GetNotRemoteIpBlocks()},
	} {
		r.checkValues(at.Child(blocks.name), blocks.values, subnetFault)
	}
	r.checkValues(at.Child("trustDomains"), source.GetTrustDomains(), trustDomainPatternFault)
	r.checkValues(at.Child("notTrustDomains"), source.GetNotTrustDomains(), trustDomainPatternFault)
	r.checkServiceAccounts(at, source)
	if custom {
		for _, list := range []namedValues{
			{"principals", source.GetPrincipals()}, {"notPrincipals", source.GetNotPrincipals()},
			{"requestPrincipals", source.GetRequestPrincipals()},
			{"notRequestPrincipals", source.GetNotRequestPrincipals()},
			{"namespaces", source.GetNamespaces()}, {"notNamespaces", source.GetNotNamespaces()},
		} {
			if len(list.values) > 0 {
				r.errorf(at.Child(list.name), "is not supported for action CUSTOM")
			}
		}
	}
}

// checkValues adds an Error for every value for which fault returns a reason. It skips empty
// values, which other checks report.
func (r *report) checkValues(at path, values []string, fault func(string) string) {
	for i, value := range values {
		if value != "" {
			r.addFault(at.Index(i), fault(value))
		}
	}
}

// checkServiceAccounts adds Errors for serviceAccounts and notServiceAccounts of a source: more
// than 16, a use beside principals or namespaces, and invalid values (serviceAccountFault).
func (r *report) checkServiceAccounts(at path, source *security.Source) {
	lists := []namedValues{
		{"serviceAccounts", source.GetServiceAccounts()},
		{"notServiceAccounts", source.GetNotServiceAccounts()},
	}
	others := len(source.GetPrincipals()) + len(source.GetNotPrincipals()) +
		len(source.GetNamespaces()) + len(source.GetNotNamespaces())
	for _, list := range lists {
		if len(list.values) > 0 && others > 0 {
			r.errorf(at.Child(list.name), "must not be set together with principals or namespaces")
		}
		r.checkMaxItems(at.Child(list.name), len(list.values), 16)
		r.checkValues(at.Child(list.name), list.values, serviceAccountFault)
	}
}

// serviceAccountFault returns why account is not serviceAccount or namespace/serviceAccount, with
// at most 320 bytes and without a wildcard, or "" if it is.
func serviceAccountFault(account string) string {
	namespace, name, qualified := strings.Cut(account, "/")
	switch {
	case len(account) > 320:
		return "is longer than 320 characters"
	case strings.Contains(account, "*"):
		return strconv.Quote(account) + " must not have a wildcard"
	case qualified && (namespace == "" || name == "" || strings.Contains(name, "/")):
		return strconv.Quote(account) + " must be serviceAccount or namespace/serviceAccount"
	default:
		return ""
	}
}

// trustDomainPatternFault returns why text is not a valid pattern of a trust domain, or "" if it
// is. A pattern is valid without a slash and with valid wildcards (valuePatternFault).
func trustDomainPatternFault(text string) string {
	if strings.Contains(text, "/") {
		return strconv.Quote(text) + " must not have a slash"
	}
	return valuePatternFault(text)
}

// valuePatternFault returns "" if text has no "*", or one at its beginning or end. Otherwise it
// returns a reason.
func valuePatternFault(text string) string {
	if strings.Count(text, "*") > 1 || strings.Contains(strings.Trim(text, "*"), "*") {
		return strconv.Quote(text) + " must have at most one wildcard, at its beginning or end"
	}
	return ""
}

// checkRuleOperation adds Errors for an operation without any value, for empty values, and for
// invalid ports and path templates (pathTemplateFault). Of hosts and methods, any text is valid
// that is not empty.
func (r *report) checkRuleOperation(at path, operation *security.Operation) {
	paths := []namedValues{{"paths", operation.GetPaths()}, {"notPaths", operation.GetNotPaths()}}
	ports := []namedValues{{"ports", operation.GetPorts()}, {"notPorts", operation.GetNotPorts()}}
	lists := []namedValues{
		{"hosts", operation.GetHosts()}, {"notHosts", operation.GetNotHosts()},
		{"methods", operation.GetMethods()}, {"notMethods", operation.GetNotMethods()},
	}
	r.checkValueLists(at, append(append(lists, paths...), ports...))
	for _, list := range ports {
		r.checkValues(at.Child(list.name), list.values, portFault)
	}
	for _, list := range paths {
		r.checkValues(at.Child(list.name), list.values, pathTemplateFault)
	}
}

// portFault returns why text is not a port number, or "" if it is one. 0, which no connection has,
// is valid as in Istio.
func portFault(text string) string {
	if _, err := strconv.ParseUint(text, 10, 16); err != nil {
		return strconv.Quote(text) + " is not a port in the range 0..65535"
	}
	return ""
}

// pathTemplateFault returns why text is not a valid path template (Operation.paths), or "" if it is
// valid. "{*}" and "{**}" must be whole segments; other braces, and "*" without braces, are
// refused. "{**}" must be the last of them and occur only once. A path without braces is a plain
// pattern and always valid.
func pathTemplateFault(text string) string {
	if !strings.ContainsAny(text, "{}") {
		return ""
	}
	rest := false
	for _, segment := range strings.Split(strings.TrimPrefix(text, "/"), "/") {
		switch {
		case segment == "{*}" || segment == "{**}":
			if rest {
				return strconv.Quote(text) + ": {**} must be the last of the operators"
			}
			rest = segment == "{**}"
		case strings.ContainsAny(segment, "{}"):
			return strconv.Quote(text) + ": a segment with braces must be {*} or {**}"
		case strings.Contains(segment, "*"):
			return strconv.Quote(text) + ": \"*\" without braces is not allowed beside {*} or {**}"
		}
	}
	return ""
}
