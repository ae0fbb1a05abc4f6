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
	// ignoreHTTP leaves out the fields that only requests have: DENY rules of raw connections are evaluated without them.
	ignoreHTTP bool
}

// rule reports whether at least one source, one operation and all conditions match. An absent part always matches.
func (m matcher) rule(r *security.Rule) bool {
	from := len(r.GetFrom()) == 0 || slices.ContainsFunc(r.GetFrom(), func(f *security.Rule_From) bool { return m.source(f.GetSource()) })
	to := len(r.GetTo()) == 0 || slices.ContainsFunc(r.GetTo(), func(t *security.Rule_To) bool { return m.operation(t.GetOperation()) })
	return from && to && !slices.ContainsFunc(r.GetWhen(), func(w *security.Condition) bool { return !m.condition(w) })
}

// field reports whether a field and its negation match. An empty list imposes no restriction.
func field(values, notValues []string, matches func(value string) bool) bool {
	return (len(values) == 0 || slices.ContainsFunc(values, matches)) && !slices.ContainsFunc(notValues, matches)
}

func (m matcher) source(s *security.Source) bool {
	return field(s.GetPrincipals(), s.GetNotPrincipals(), m.principal) &&
		field(s.GetNamespaces(), s.GetNotNamespaces(), m.namespace) &&
		field(s.GetServiceAccounts(), s.GetNotServiceAccounts(), m.serviceAccount) &&
		field(s.GetTrustDomains(), s.GetNotTrustDomains(), m.trustDomain) &&
		field(s.GetIpBlocks(), s.GetNotIpBlocks(), in(m.call.SourceIP)) &&
		field(s.GetRemoteIpBlocks(), s.GetNotRemoteIpBlocks(), in(m.call.RemoteIP)) &&
		(m.ignoreHTTP || field(s.GetRequestPrincipals(), s.GetNotRequestPrincipals(), m.requestPrincipal))
}

func (m matcher) operation(o *security.Operation) bool {
	if !field(o.GetPorts(), o.GetNotPorts(), m.port) {
		return false
	}
	return m.ignoreHTTP || field(o.GetHosts(), o.GetNotHosts(), m.host) &&
		field(o.GetMethods(), o.GetNotMethods(), func(v string) bool { return text(strings.ToUpper(v), strings.ToUpper(m.call.Method)) }) &&
		field(o.GetPaths(), o.GetNotPaths(), m.path)
}

// onlyHTTP reports whether only requests have the attribute of a condition.
func onlyHTTP(key string) bool { return strings.HasPrefix(key, "request.") }

func (m matcher) condition(w *security.Condition) bool {
	key := w.GetKey()
	if m.ignoreHTTP && onlyHTTP(key) {
		return true
	}
	return field(w.GetValues(), w.GetNotValues(), m.attribute(key))
}

// attribute returns what reports whether a value matches the attribute of the call.
func (m matcher) attribute(key string) func(value string) bool {
	name, argument, _ := strings.Cut(key, "[")
	argument = strings.TrimSuffix(argument, "]")
	switch name {
	case "source.ip":
		return in(m.call.SourceIP)
	case "remote.ip":
		return in(m.call.RemoteIP)
	case "destination.ip":
		return in(m.call.DestinationIP)
	case "destination.port":
		return m.port
	case "source.principal":
		return m.principal
	case "source.namespace":
		return m.namespace
	case "source.serviceAccount":
		return m.serviceAccount
	case "source.trustDomain":
		return m.trustDomain
	case "connection.sni":
		return func(v string) bool { return text(v, m.call.SNI) }
	case "request.auth.principal":
		return m.requestPrincipal
	case "request.auth.audiences":
		return m.claim("aud")
	case "request.auth.presenter":
		return m.claim("azp")
	case "request.auth.claims":
		return m.claim(strings.Split(argument, "][")...)
	case "request.headers":
		return m.header(argument)
	default:
		return func(string) bool { return false }
	}
}

// identity splits the caller's principal. ok is false in plain text.
func (m matcher) identity() (domain, namespace, account string, ok bool) {
	parts := strings.Split(m.call.Principal, "/")
	if len(parts) != 5 {
		return "", "", "", false
	}
	return parts[0], parts[2], parts[4], true
}

// principal reports whether a value matches the caller. A value in one of the mesh's trust domains matches identities of all.
func (m matcher) principal(value string) bool {
	if m.call.Principal == "" {
		return false
	}
	domain, rest, ok := strings.Cut(value, "/")
	if ok && (domain == "cluster.local" || slices.Contains(m.workload.TrustDomains, domain)) {
		return slices.ContainsFunc(m.workload.TrustDomains, func(d string) bool { return text(d+"/"+rest, m.call.Principal) })
	}
	return text(value, m.call.Principal)
}

func (m matcher) namespace(value string) bool {
	_, namespace, _, ok := m.identity()
	return ok && text(value, namespace)
}

// serviceAccount has no wildcards. A name without a namespace is of the policy's.
func (m matcher) serviceAccount(value string) bool {
	_, namespace, account, ok := m.identity()
	if !strings.Contains(value, "/") {
		value = m.policy.Namespace + "/" + value
	}
	return ok && value == namespace+"/"+account
}

func (m matcher) trustDomain(value string) bool {
	domain, _, _, ok := m.identity()
	if ok && slices.Contains(m.workload.TrustDomains, value) {
		return slices.Contains(m.workload.TrustDomains, domain)
	}
	return ok && text(value, domain)
}

func (m matcher) port(value string) bool { return value == strconv.Itoa(int(m.call.Port)) }

// requestPrincipal is "ISS/SUB" of a validated token.
func (m matcher) requestPrincipal(value string) bool {
	issuer, _ := m.call.Claims["iss"].(string)
	subject, _ := m.call.Claims["sub"].(string)
	return m.call.Claims != nil && text(value, issuer+"/"+subject)
}

// claim reports whether a value matches the claim, or one of its values if it is a list.
func (m matcher) claim(path ...string) func(value string) bool {
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
			return text(value, c)
		case []string:
			return slices.ContainsFunc(c, func(one string) bool { return text(value, one) })
		default:
			return false
		}
	}
}

// header reports whether a value matches one line of the header. The documentation does not mention headers with several lines;
// Envoy judges each line on its own since CVE-2026-26308.
func (m matcher) header(name string) func(value string) bool {
	lines := m.call.Headers[strings.ToLower(name)]
	return func(value string) bool {
		return slices.ContainsFunc(lines, func(line string) bool { return text(value, line) })
	}
}

// in returns what reports whether an address is in a block, which is a network or a single address.
func in(a netip.Addr) func(block string) bool {
	return func(block string) bool {
		if p, err := netip.ParsePrefix(block); err == nil {
			return p.Contains(a)
		}
		one, err := netip.ParseAddr(block)
		return err == nil && one == a
	}
}
