package config

import (
	"fmt"
	"net/netip"
	"strings"
)

// ipFault returns why text is not an IP address, or "" if it is one. A zone is not allowed.
func ipFault(text string) string {
	if addr, err := netip.ParseAddr(text); err != nil || addr.Zone() != "" {
		return fmt.Sprintf("%q is not an IP address", text)
	}
	return ""
}

// subnetFault returns why text is neither an IP address nor a CIDR block, or "" if it is one of
// them. Host bits in a block are allowed.
func subnetFault(text string) string {
	if !strings.Contains(text, "/") {
		return ipFault(text)
	}
	if _, err := netip.ParsePrefix(text); err != nil {
		return fmt.Sprintf("%q is not a CIDR block", text)
	}
	return ""
}

// unixFault returns why text is not the address of a Unix domain socket, or "" if it is one:
// "unix:///path", without a slash at its end, or "unix://@abstract". The prefix itself is not
// required here.
func unixFault(text string) string {
	name := strings.TrimPrefix(text, SocketPrefix)
	switch {
	case strings.HasPrefix(name, "@") && len(name) > 1:
		return ""
	case !strings.HasPrefix(name, "/"):
		return fmt.Sprintf("%q must be unix:///absolute/path or unix://@name", text)
	case strings.HasSuffix(name, "/"):
		return fmt.Sprintf("%q must name a file, not a directory", text)
	default:
		return ""
	}
}

// hostOrIPFault returns why text is neither a host name (without wildcard) nor an IP address, or ""
// if it is one of them.
func hostOrIPFault(text string) string {
	if ipFault(text) == "" || domainFault(text) == "" {
		return ""
	}
	return fmt.Sprintf("%q is neither a host name nor an IP address", text)
}

// checkSubnets adds an Error for each item of list that is neither an IP address nor a CIDR block.
func (r *report) checkSubnets(at path, list []string) {
	for i, text := range list {
		r.addFault(at.Index(i), subnetFault(text))
	}
}
