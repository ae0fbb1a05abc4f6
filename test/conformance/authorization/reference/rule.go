package reference

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	security "istio.io/api/security/v1beta1"
)

// matcher evaluates rules of one policy for one call.
type matcher struct {
	policy   Policy
	workload Workload
	call     Call
	// ignoreHTTP leaves out the fields that only requests have: DENY rules of raw connections are
	// evaluated without them.
	ignoreHTTP bool
}

// matchesRule reports whether at least one source, one operation and all conditions match. An
// absent part always matches.
func (m matcher) matchesRule(r *security.Rule) bool {
	from := len(r.GetFrom()) == 0 ||
		slices.ContainsFunc(r.GetFrom(), func(f *security.Rule_From) bool { return m.matchesSource(f.GetSource()) })
	to := len(r.GetTo()) == 0 ||
		slices.ContainsFunc(r.GetTo(), func(t *security.Rule_To) bool { return m.matchesOperation(t.GetOperation()) })
	return from && to &&
		!slices.ContainsFunc(r.GetWhen(), func(w *security.Condition) bool { return !m.matchesCondition(w) })
}

// matchesField reports whether a field and its negation match. An empty list imposes no
// restriction.
func matchesField(values, notValues []string, matches func(value string) bool) bool {
	return (len(values) == 0 || slices.ContainsFunc(values, matches)) && !slices.ContainsFunc(notValues, matches)
}

func (m matcher) matchesSource(s *security.Source) bool {
	return matchesField(s.GetPrincipals(), s.GetNotPrincipals(), m.matchesPrincipal) &&
		matchesField(s.GetNamespaces(), s.GetNotNamespaces(), m.matchesNamespace) &&
		matchesField(s.GetServiceAccounts(), s.GetNotServiceAccounts(), m.serviceAccount) &&
		matchesField(s.GetTrustDomains(), s.GetNotTrustDomains(), m.trustDomain) &&
		matchesField(s.GetIpBlocks(), s.GetNotIpBlocks(), blockMatcher(m.call.SourceIP)) &&
		matchesField(s.GetRemoteIpBlocks(), s.GetNotRemoteIpBlocks(), blockMatcher(m.call.RemoteIP)) &&
		(m.ignoreHTTP || m.matchesRequestPrincipals(s.GetRequestPrincipals(), s.GetNotRequestPrincipals()))
}

func (m matcher) matchesOperation(o *security.Operation) bool {
	if !matchesField(o.GetPorts(), o.GetNotPorts(), m.matchesPort) {
		return false
	}
	return m.ignoreHTTP || matchesField(o.GetHosts(), o.GetNotHosts(), m.matchesHost) &&
		matchesField(
			o.GetMethods(),
			o.GetNotMethods(),
			func(v string) bool { return matchesText(strings.ToUpper(v), strings.ToUpper(m.call.Method)) },
		) &&
		matchesField(o.GetPaths(), o.GetNotPaths(), m.matchesPath)
}

// onlyHTTP reports whether only requests have the attribute of a condition.
func onlyHTTP(key string) bool { return strings.HasPrefix(key, "request.") }

func (m matcher) matchesCondition(w *security.Condition) bool {
	key := w.GetKey()
	if m.ignoreHTTP && onlyHTTP(key) {
		return true
	}
	if key == "request.auth.principal" {
		return m.matchesRequestPrincipals(w.GetValues(), w.GetNotValues())
	}
	return matchesField(w.GetValues(), w.GetNotValues(), m.attributeMatcher(key))
}

// attributeMatcher returns what reports whether a value matches the attribute of the call.
func (m matcher) attributeMatcher(key string) func(value string) bool {
	name, argument, _ := strings.Cut(key, "[")
	argument = strings.TrimSuffix(argument, "]")
	switch name {
	case "source.ip":
		return blockMatcher(m.call.SourceIP)
	case "remote.ip":
		return blockMatcher(m.call.RemoteIP)
	case "destination.ip":
		return blockMatcher(m.call.DestinationIP)
	case "destination.port":
		return m.matchesPort
	case "source.principal":
		return m.matchesPrincipal
	case "source.namespace":
		return m.matchesNamespace
	case "source.serviceAccount":
		return m.serviceAccount
	case "source.trustDomain":
		return m.trustDomain
	case "connection.sni":
		return func(v string) bool { return matchesText(v, m.call.SNI) }
	case "request.auth.audiences":
		return m.claimMatcher("aud")
	case "request.auth.presenter":
		return m.claimMatcher("azp")
	case "request.auth.claims":
		return m.claimMatcher(strings.Split(argument, "][")...)
	case "request.headers":
		return m.headerMatcher(argument)
	default:
		return func(string) bool { return false }
	}
}

// callerIdentity splits the caller's principal. ok is false in plain text.
func (m matcher) callerIdentity() (domain, namespace, account string, ok bool) {
	parts := strings.Split(m.call.Principal, "/")
	if len(parts) != 5 {
		return "", "", "", false
	}
	return parts[0], parts[2], parts[4], true
}

// matchesPrincipal reports whether a value matches the caller. A value in one of the mesh's trust
// domains, or in "cluster.local", matches identities of all. Without a namespace and an account,
// like "cluster.local/*", a value also matches as written.
func (m matcher) matchesPrincipal(value string) bool {
	if m.call.Principal == "" {
		return false
	}
	domain, rest, ok := strings.Cut(value, "/")
	if strings.Count(value, "/") != 4 && matchesText(value, m.call.Principal) {
		return true
	}
	if ok && (domain == "cluster.local" || slices.Contains(m.workload.TrustDomains, domain)) {
		return slices.ContainsFunc(
			m.workload.TrustDomains,
			func(d string) bool { return matchesText(d+"/"+rest, m.call.Principal) },
		)
	}
	return matchesText(value, m.call.Principal)
}

func (m matcher) matchesNamespace(value string) bool {
	_, namespace, _, ok := m.callerIdentity()
	return ok && matchesText(value, namespace)
}

// serviceAccount has no wildcards. A name without a namespace is of the policy's.
func (m matcher) serviceAccount(value string) bool {
	_, namespace, account, ok := m.callerIdentity()
	if !strings.Contains(value, "/") {
		value = m.policy.Namespace + "/" + value
	}
	return ok && value == namespace+"/"+account
}

func (m matcher) trustDomain(value string) bool {
	domain, _, _, ok := m.callerIdentity()
	if ok && slices.Contains(m.workload.TrustDomains, value) {
		return slices.Contains(m.workload.TrustDomains, domain)
	}
	return ok && matchesText(value, domain)
}

func (m matcher) matchesPort(value string) bool { return value == strconv.Itoa(int(m.call.Port)) }

// matchesRequestPrincipals reports whether "ISS/SUB" of a validated token matches a field and its
// negation. Values that admit calls match less: values of ALLOW rules, and values that rules of
// other actions exclude.
func (m matcher) matchesRequestPrincipals(values, notValues []string) bool {
	of, not := m.requestPrincipal, m.admittedPrincipal
	if m.policy.Spec.GetAction() == security.AuthorizationPolicy_ALLOW {
		of, not = not, of
	}
	return (len(values) == 0 || slices.ContainsFunc(values, of)) && !slices.ContainsFunc(notValues, not)
}

// tokenPrincipal returns the issuer and subject of the token. ok is false without a token.
func (m matcher) tokenPrincipal() (issuer, subject string, ok bool) {
	issuer, _ = m.call.Claims["iss"].(string)
	subject, _ = m.call.Claims["sub"].(string)
	return issuer, subject, m.call.Claims != nil
}

// requestPrincipal compares "ISS/SUB" as one text.
func (m matcher) requestPrincipal(value string) bool {
	issuer, subject, ok := m.tokenPrincipal()
	return ok && matchesText(value, issuer+"/"+subject)
}

// admittedPrincipal compares issuer and subject, separated by the last slash of value. Without a
// slash after the scheme, it compares "ISS/SUB" as one text.
func (m matcher) admittedPrincipal(value string) bool {
	_, rest, hasScheme := strings.Cut(value, "://")
	if !hasScheme {
		rest = value
	}
	if !strings.Contains(rest, "/") {
		return m.requestPrincipal(value)
	}
	i := strings.LastIndex(value, "/")
	issuer, subject, ok := m.tokenPrincipal()
	switch {
	case !ok:
		return false
	case strings.HasPrefix(value, "*"):
		return matchesText(value[:i], issuer) && subject == value[i+1:]
	default:
		return issuer == value[:i] && matchesText(value[i+1:], subject)
	}
}

// claimMatcher reports whether a value matches the claim, or one of its values if it is a list.
func (m matcher) claimMatcher(path ...string) func(value string) bool {
	var at any = m.call.Claims
	for _, name := range path {
		fields, ok := at.(map[string]any)
		if !ok {
			return func(string) bool { return false }
		}
		at = fields[name]
	}
	return func(value string) bool {
		switch c := at.(type) {
		case string:
			return matchesText(value, c)
		case []string:
			return slices.ContainsFunc(c, func(one string) bool { return matchesText(value, one) })
		default:
			return false
		}
	}
}

// headerMatcher reports whether a value matches one line of the header. The documentation does not
// mention headers with several lines; Envoy judges each line on its own since CVE-2026-26308.
func (m matcher) headerMatcher(name string) func(value string) bool {
	lines := m.call.Headers[strings.ToLower(name)]
	return func(value string) bool {
		return slices.ContainsFunc(lines, func(line string) bool { return matchesText(value, line) })
	}
}

// blockMatcher returns what reports whether an address is in a block, which is a network or a
// single address.
func blockMatcher(a netip.Addr) func(block string) bool {
	return func(block string) bool {
		if p, err := netip.ParsePrefix(block); err == nil {
			return p.Contains(a)
		}
		one, err := netip.ParseAddr(block)
		return err == nil && one == a
	}
}
