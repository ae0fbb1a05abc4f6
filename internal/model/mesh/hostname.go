package mesh

import "strings"

// Hostname is a lower-case DNS name, or a wildcard of one: "*.example.com", "*".
type Hostname string

// ClusterSetDomain is the DNS suffix of services of all clusters together, as the Multi-Cluster Services API has it:
// "reviews.default.svc.clusterset.local".
const ClusterSetDomain = "clusterset.local"

// OfClusterSet says whether the name is one that stands for a service in all clusters (Multi-Cluster Services API). Search domains
// do not make up for it: short names mean the service of the caller's own mesh.
func (h Hostname) OfClusterSet() bool { return strings.HasSuffix(string(h), ".svc."+ClusterSetDomain) }

// IsWildcard says whether the name starts with "*".
func (h Hostname) IsWildcard() bool { return strings.HasPrefix(string(h), "*") }

// Matches says whether some concrete name is covered by both: equal names, or one a wildcard over the other.
func (h Hostname) Matches(o Hostname) bool {
	switch {
	case h.IsWildcard() && o.IsWildcard():
		a, b := string(h[1:]), string(o[1:])
		return strings.HasSuffix(a, b) || strings.HasSuffix(b, a)
	case h.IsWildcard():
		return len(o) >= len(h)-1 && strings.HasSuffix(string(o), string(h[1:]))
	case o.IsWildcard():
		return o.Matches(h)
	default:
		return h == o
	}
}

// Covers says whether every name that o stands for is also one of h.
func (h Hostname) Covers(o Hostname) bool {
	if !h.IsWildcard() {
		return h == o
	}
	return strings.HasSuffix(strings.TrimPrefix(string(o), "*"), string(h[1:]))
}

// MoreSpecific orders hostnames for look-ups: exact names before wildcards, longer wildcards before shorter.
// It gives a negative number when h is to be tried before o.
func (h Hostname) MoreSpecific(o Hostname) int {
	if hw, ow := h.IsWildcard(), o.IsWildcard(); hw != ow {
		if ow {
			return -1
		}
		return 1
	}
	if len(h) != len(o) {
		return len(o) - len(h)
	}
	return strings.Compare(string(h), string(o))
}

// ResolveShortName expands a host as a VirtualService or DestinationRule in that namespace writes it: a name without
// a dot is a service of the namespace ("reviews" is "reviews.NAMESPACE.svc.DOMAIN"); anything else stays as it is.
func ResolveShortName(host, namespace, domain string) Hostname {
	host = strings.ToLower(host)
	if host == "" || strings.ContainsAny(host, ".*:") || namespace == "" {
		return Hostname(host)
	}
	return Hostname(host + "." + namespace + ".svc." + domain)
}
