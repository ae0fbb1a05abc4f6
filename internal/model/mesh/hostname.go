package mesh

import "strings"

// Hostname is a lower-case DNS name, or a wildcard: "*.example.com", "*".
type Hostname string

// ClusterSetDomain is the DNS suffix of services of the cluster set in the Multi-Cluster Services
// API: "reviews.default.svc.clusterset.local".
const ClusterSetDomain = "clusterset.local"

// ClusterSetHost returns the hostname in the cluster set of a Service.
func ClusterSetHost(namespace, name string) Hostname {
	return Hostname(name + "." + namespace + ".svc." + ClusterSetDomain)
}

// OfClusterSet reports whether the name belongs to a service of the cluster set (Multi-Cluster
// Services API). DNS search domains do not include such names: short names resolve to services of
// the caller's mesh.
func (h Hostname) OfClusterSet() bool { return strings.HasSuffix(string(h), ".svc."+ClusterSetDomain) }

// IsWildcard reports whether the name starts with "*".
func (h Hostname) IsWildcard() bool { return strings.HasPrefix(string(h), "*") }

// Matches reports whether some name matches both h and o: they are equal, or one is a wildcard that
// matches the other. The "*" at the beginning of a wildcard matches any text, also an empty one.
// Case matters.
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

// Covers reports whether h matches every name that o matches. A name without a wildcard covers only
// itself.
func (h Hostname) Covers(o Hostname) bool {
	if !h.IsWildcard() {
		return h == o
	}
	return strings.HasSuffix(strings.TrimPrefix(string(o), "*"), string(h[1:]))
}

// MoreSpecific compares hostnames by precedence: exact names before wildcards, longer names before
// shorter ones of the same kind. It returns a negative number if h precedes o. Equal lengths are
// ordered alphabetically.
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

// ResolveShortName returns the full name of a host in a VirtualService or DestinationRule of a
// namespace. A name without a dot is a service of the namespace ("reviews" is
// "reviews.NAMESPACE.svc.DOMAIN"). A name with a dot, a wildcard, an IPv6 address, and any name if
// namespace is empty, is only converted to lower case.
func ResolveShortName(host, namespace, domain string) Hostname {
	host = strings.ToLower(host)
	if host == "" || strings.ContainsAny(host, ".*:") || namespace == "" {
		return Hostname(host)
	}
	return Hostname(host + "." + namespace + ".svc." + domain)
}
