package config

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

const (
	maxDomainLength = 255 // RFC 1035, section 2.3.4
	maxLabelLength  = 63
)

// IsHostname reports whether text is a DNS name, short or fully qualified, and not an IP address.
func IsHostname(text string) bool { return domainFault(text) == "" }

// domainFault returns why name is not a DNS name, short or fully qualified, or "" if it is one. At
// most 255 bytes, labels that satisfy isHostLabel, and one trailing dot are allowed. A last label
// that consists of digits is refused, because such names are malformed IP addresses (RFC 3696).
func domainFault(name string) string {
	if name == "" {
		return "is empty, a host name is required"
	}
	if len(name) > maxDomainLength {
		return fmt.Sprintf("%.40q… is longer than %d characters", name, maxDomainLength)
	}
	labels := strings.Split(strings.TrimSuffix(name, "."), ".")
	for _, label := range labels {
		if !isHostLabel(label) {
			return fmt.Sprintf(
				"%q is not a host name: %q must be 1 to %d letters, digits or \"-\", beginning and ending with a letter or digit",
				name, label, maxLabelLength)
		}
	}
	if last := labels[len(labels)-1]; strings.Trim(last, "0123456789") == "" {
		return fmt.Sprintf("%q is not a host name: the last part must not be a number", name)
	}
	return ""
}

// isHostLabel reports whether a label of a DNS name is valid: 1 to maxLabelLength letters, digits
// or "-", which it neither begins nor ends with.
func isHostLabel(label string) bool {
	if label == "" || len(label) > maxLabelLength || label[0] == '-' || label[len(label)-1] == '-' {
		return false
	}
	for i := range len(label) {
		if !isAlphanumeric(label[i]) && label[i] != '-' {
			return false
		}
	}
	return true
}

// isAlphanumeric reports whether c is an ASCII letter or digit.
func isAlphanumeric(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// wildcardFault returns why host is not a DNS name (domainFault), or "" if it is one. It allows a
// "*" at the beginning of the first label, also alone: "*", "*.com", "*-eu.example.com".
func wildcardFault(host string) string {
	rest, wildcard := strings.CutPrefix(host, "*")
	if !wildcard {
		return domainFault(host)
	}
	if rest == "" {
		return ""
	}
	if fault := domainFault("a" + rest); fault != "" { // valid with a letter for "*"
		return fmt.Sprintf("%q is not a host name with a wildcard at its beginning", host)
	}
	return ""
}

// hostsOverlap reports whether some name matches both hosts, ignoring case. Each is exact or begins
// with a wildcard, which matches any text, also an empty one.
func hostsOverlap(a, b string) bool {
	a, b = strings.ToLower(a), strings.ToLower(b)
	ra, wa := strings.CutPrefix(a, "*")
	rb, wb := strings.CutPrefix(b, "*")
	switch {
	case wa && wb:
		return strings.HasSuffix(ra, rb) || strings.HasSuffix(rb, ra)
	case wa:
		return strings.HasSuffix(b, ra)
	case wb:
		return strings.HasSuffix(a, rb)
	default:
		return a == b
	}
}

// hostCovers reports whether outer matches every name that inner matches, ignoring case. Each is
// exact or begins with a wildcard.
func hostCovers(outer, inner string) bool {
	outer, inner = strings.ToLower(outer), strings.ToLower(inner)
	rest, wildcard := strings.CutPrefix(outer, "*")
	if !wildcard {
		return outer == inner
	}
	return strings.HasSuffix(strings.TrimPrefix(inner, "*"), rest)
}

// checkNamespacedHost adds an Error for each invalid part of "namespace/dnsName", the form of
// Gateway.servers[].hosts and Sidecar.egress[].hosts. The caller has split the text. special
// contains the values that the namespace may have besides a name. The host may begin with a
// wildcard, but must not be a short name.
func (r *report) checkNamespacedHost(at path, namespace, host string, special ...string) {
	if !slices.Contains(special, namespace) && len(validation.IsDNS1123Label(namespace)) > 0 {
		r.errorf(at, "namespace %q must be a namespace's name or one of %q", namespace, special)
	}
	fault := wildcardFault(host)
	if fault == "" && host != "*" && !strings.Contains(host, ".") {
		// A short name would never match, because services have fully qualified names.
		fault = fmt.Sprintf("short name %q is not allowed, write the fully qualified name", host)
	}
	r.addFault(at, fault)
}

// checkExportTo adds Errors for invalid items of exportTo of the networking kinds. Items are
// namespaces, "." (the object's own namespace, also by its name), "*" or "~". Duplicates are
// Errors, as are "*" and "~" beside other items. nowhere allows "~", which is valid only for
// services. An empty list is valid.
func (r *report) checkExportTo(at path, list []string, nowhere bool) {
	seen := map[string]bool{}
	for i, value := range list {
		namespace := value
		switch {
		case value == "*" && len(list) > 1:
			r.errorf(at.Index(i), "\"*\" exports to all namespaces and must stand alone")
		case value == "~" && !nowhere:
			r.errorf(at.Index(i), "\"~\" (nowhere) is allowed only for a ServiceEntry")
		case value == "~" && len(list) > 1:
			r.errorf(at.Index(i), "\"~\" exports nowhere and must stand alone")
		case value == ".":
			namespace = r.object.Namespace
		case value != "*" && value != "~" && len(validation.IsDNS1123Label(value)) > 0:
			r.errorf(at.Index(i), "%q must be \".\", \"*\" or a namespace's name", value)
		}
		if seen[namespace] {
			r.errorf(at.Index(i), "%q is there twice", value)
		}
		seen[namespace] = true
	}
}
