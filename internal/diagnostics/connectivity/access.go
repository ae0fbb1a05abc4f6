package connectivity

import (
	"slices"
	"strings"

	security "istio.io/api/security/v1beta1"

	"github.com/meshpilot/meshpilot/internal/model/config"
)

// identity is what a server learns of a caller by mutual TLS. It is zero for a caller without a
// proxy, which calls in plain text.
type identity struct {
	principal string // cluster.local/ns/shop/sa/web
	namespace string
	account   string // shop/web
}

// newIdentity returns the identity of the SPIFFE ID of a workload, with "cluster.local" in place of
// trustDomain. Without a SPIFFE ID it is the account "default" of the namespace. It is zero for a
// workload without a proxy.
func newIdentity(w *Workload, trustDomain string) identity {
	if w.Role == NoProxy {
		return identity{}
	}
	principal := strings.TrimPrefix(w.Account, "spiffe://")
	domain, path, _ := strings.Cut(principal, "/ns/")
	namespace, account, ok := strings.Cut(path, "/sa/")
	if !ok {
		domain, namespace, account = trustDomain, w.Namespace, "default"
	}
	if domain == trustDomain {
		domain = localTrustDomain
	}
	return identity{domain + "/ns/" + namespace + "/sa/" + account, namespace, namespace + "/" + account}
}

// localTrustDomain is an alias of the trust domain of the mesh in policies.
const localTrustDomain = "cluster.local"

// access is what the AuthorizationPolicies of a server say about identities. Conditions on anything
// else, such as paths, tokens and addresses, are taken to hold for some request.
type access struct {
	// restricted is set if there are ALLOW policies, and each of their rules names callers.
	restricted  bool
	allow, deny []callerRule
}

// callerRule is a source of a rule, which names callers.
type callerRule struct {
	policy config.Key
	source *security.Source
}

// newAccess returns the access that the ALLOW and DENY policies of a server define. Other actions
// are ignored. A server without an ALLOW policy, or with an ALLOW rule for all callers, is not
// restricted. DENY rules count only if they deny all requests of a caller.
func newAccess(policies []*config.Config) access {
	var a access
	open := false
	for _, c := range policies {
		spec := config.Spec[*security.AuthorizationPolicy](c)
		switch spec.GetAction() {
		case security.AuthorizationPolicy_ALLOW:
			a.restricted = true
			for _, r := range spec.GetRules() {
				sources := namedCallers(r)
				open = open || len(sources) == 0
				for _, s := range sources {
					a.allow = append(a.allow, callerRule{c.Key, s})
				}
			}
		case security.AuthorizationPolicy_DENY:
			for _, r := range spec.GetRules() {
				if len(r.GetTo())+len(r.GetWhen()) > 0 {
					continue // some requests only
				}
				for _, f := range r.GetFrom() {
					if s := f.GetSource(); namesCallersOnly(s) {
						a.deny = append(a.deny, callerRule{c.Key, s})
					}
				}
			}
		}
	}
	a.restricted = a.restricted && !open
	return a
}

// namedCallers returns the sources of a rule. For a rule without sources it returns a source made
// of the rule's conditions (when) on identities, if any. It returns nil if a source names no
// identity, so that the rule allows any caller.
func namedCallers(r *security.Rule) []*security.Source {
	var list []*security.Source
	for _, f := range r.GetFrom() {
		s := f.GetSource()
		if len(s.GetPrincipals())+len(s.GetNamespaces())+len(s.GetServiceAccounts())+
			len(s.GetNotPrincipals())+len(s.GetNotNamespaces())+len(s.GetNotServiceAccounts()) == 0 {
			return nil
		}
		list = append(list, s)
	}
	if len(list) > 0 {
		return list
	}
	s := &security.Source{}
	for _, w := range r.GetWhen() {
		switch w.GetKey() {
		case "source.principal":
			s.Principals, s.NotPrincipals = w.GetValues(), w.GetNotValues()
		case "source.namespace":
			s.Namespaces, s.NotNamespaces = w.GetValues(), w.GetNotValues()
		case "source.serviceAccount":
			s.ServiceAccounts, s.NotServiceAccounts = w.GetValues(), w.GetNotValues()
		default:
			continue
		}
		list = []*security.Source{s}
	}
	return list
}

// namesCallersOnly reports whether a source has no conditions besides principals, namespaces and
// service accounts. It returns true for a source without conditions.
func namesCallersOnly(s *security.Source) bool {
	return len(s.GetRequestPrincipals())+len(s.GetNotRequestPrincipals())+len(s.GetIpBlocks())+len(s.GetNotIpBlocks())+
		len(s.GetRemoteIpBlocks())+len(s.GetNotRemoteIpBlocks())+len(s.GetTrustDomains())+len(s.GetNotTrustDomains()) == 0
}

// admits reports whether a caller may be let through for some request (ok), and returns the
// policies whose ALLOW rules match it. It returns nil and false if a DENY rule matches. If callers
// are not restricted, ok is true even if by is empty.
func (a access) admits(id identity) (by []config.Key, ok bool) {
	if slices.ContainsFunc(a.deny, func(r callerRule) bool { return r.matches(id) }) {
		return nil, false
	}
	for _, r := range a.allow {
		if r.matches(id) && !slices.Contains(by, r.policy) {
			by = append(by, r.policy)
		}
	}
	return by, !a.restricted || len(by) > 0
}

// mayName reports whether a rule may allow an identity of the namespace, by its positive namespaces
// and principals. It is fast, and true for principals with patterns. Negative fields, service
// accounts and DENY rules are ignored.
func (a access) mayName(namespace string) bool {
	return slices.ContainsFunc(a.allow, func(r callerRule) bool {
		return holds(namespace, r.source.GetNamespaces(), nil, matchesNamespace) && (len(r.source.GetPrincipals()) == 0 ||
			slices.ContainsFunc(r.source.GetPrincipals(), func(p string) bool {
				return strings.Contains(p, "/ns/"+namespace+"/sa/") || strings.HasPrefix(p, "*") ||
					strings.HasSuffix(p, "*")
			}))
	})
}

// matches reports whether the conditions of the source on identities hold for a caller. Service
// accounts without a namespace are in that of the policy.
func (r callerRule) matches(id identity) bool {
	accounts := func(list []string) []string { // an account without a namespace is of that of the policy
		full := make([]string, 0, len(list))
		for _, a := range list {
			if !strings.Contains(a, "/") {
				a = r.policy.Namespace + "/" + a
			}
			full = append(full, a)
		}
		return full
	}
	s := r.source
	return holds(id.principal, s.GetPrincipals(), s.GetNotPrincipals(), matchesText) &&
		holds(id.namespace, s.GetNamespaces(), s.GetNotNamespaces(), matchesNamespace) &&
		holds(id.account, accounts(s.GetServiceAccounts()), accounts(s.GetNotServiceAccounts()), matchesText)
}

// holds reports whether a value matches one of the patterns, if there are any, and none of not. An
// empty value matches no pattern.
func holds(value string, patterns, not []string, matches func(pattern, value string) bool) bool {
	is := func(pattern string) bool { return value != "" && matches(pattern, value) }
	return (len(patterns) == 0 || slices.ContainsFunc(patterns, is)) && !slices.ContainsFunc(not, is)
}

// matchesText reports whether a pattern, which may begin or end with "*", matches value.
func matchesText(pattern, value string) bool {
	switch {
	case strings.HasPrefix(pattern, "*"):
		return strings.HasSuffix(value, pattern[1:])
	case strings.HasSuffix(pattern, "*"):
		return strings.HasPrefix(value, pattern[:len(pattern)-1])
	}
	return value == pattern
}

// matchesNamespace reports whether a pattern of namespaces, in which each "*" is a wildcard,
// matches value.
func matchesNamespace(pattern, value string) bool {
	parts := strings.Split(pattern, "*")
	last := len(parts) - 1
	if last == 0 {
		return value == pattern
	}
	value, ok := strings.CutPrefix(value, parts[0])
	for _, part := range parts[1:last] {
		var found bool
		_, value, found = strings.Cut(value, part)
		ok = ok && found
	}
	return ok && strings.HasSuffix(value, parts[last])
}
