package mesh

import (
	"fmt"
	"net/netip"
	"strings"
	"unicode"
	"unicode/utf8"
)

// ProxyType is the role of a proxy.
type ProxyType string

// The supported proxy types.
const (
	SidecarProxy ProxyType = "sidecar"
	RouterProxy  ProxyType = "router"
)

// Proxy is the description of a connected proxy, from its xDS Node. It is immutable.
type Proxy struct {
	// ID is the complete node ID:
	// "sidecar~10.0.0.1~reviews-v1-abc.default~default.svc.cluster.local".
	ID   string
	Type ProxyType
	// Addresses are its IP addresses: the address in the node ID first, then the metadata
	// INSTANCE_IPS.
	Addresses []netip.Addr
	// Name and Namespace name its pod or WorkloadEntry.
	Name, Namespace string
	// DNSDomain is the suffix for short names, "default.svc.cluster.local".
	DNSDomain string
	// Cluster is Node.cluster, the service cluster ("reviews.default"). ClusterID is the platform
	// cluster that it runs in.
	Cluster   string
	ClusterID ClusterID
	Network   Network
	Locality  Locality
	Labels    map[string]string
	Metadata  NodeMetadata
	// Keys is set if the proxy may be sent private keys of its namespace, because the server has
	// verified its namespace by its certificate or by the connection's source. It does not depend
	// on claims of the proxy.
	Keys bool
	// Account is the authenticated service account of the proxy, in the cluster that it claims. If
	// it is set, Keys additionally requires that the account may read Secrets there (SecretAccess).
	// If it is zero, no API server is asked.
	Account Account
	// Identity is the SPIFFE ID that the proxy has authenticated with by a certificate or token
	// over TLS; "" if it has not.
	Identity string
	// EnvoyVersion is the release of its Envoy (node.user_agent_build_version), or zero if it did
	// not report one.
	EnvoyVersion EnvoyVersion
	// Extensions are the sorted names of the extensions of its Envoy, or nil if it did not report
	// them.
	Extensions []string
}

// MaxNodeText is the maximum size in bytes of a node ID and of other short texts of a node. The
// longest pod name, namespace and domain in Kubernetes have about 700 bytes together.
const MaxNodeText = 1024

// CheckNodeText returns an error that starts with field if a text of a node is longer than
// MaxNodeText or has a character that is not printable: a control character, a line separator, a
// direction mark, or a byte that is not UTF-8. Such a text has no legitimate use, and forges lines
// wherever it is printed without quotes.
func CheckNodeText(field, s string) error {
	if len(s) > MaxNodeText {
		return fmt.Errorf("%s %.100q… has %d bytes, more than %d", field, s, len(s), MaxNodeText)
	}
	if !utf8.ValidString(s) {
		return fmt.Errorf("%s %.100q is not UTF-8", field, s)
	}
	if i := strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }); i >= 0 {
		return fmt.Errorf("%s %.100q has a character that is not printable at byte %d", field, s, i)
	}
	return nil
}

// ParseNodeID parses a node ID "type~ip~name.namespace~domain" and returns a Proxy with only its ID
// and these fields set. The namespace is the text after the last dot, so a name may contain dots.
// It is empty without a dot, as in node IDs of users whose metadata has the namespace; the domain
// may be empty too. It returns an error for any other form, an invalid IP, types other than sidecar
// and router, and text that CheckNodeText refuses.
func ParseNodeID(id string) (Proxy, error) {
	if err := CheckNodeText("node id", id); err != nil {
		return Proxy{}, err
	}
	parts := strings.Split(id, "~")
	if len(parts) != 4 {
		return Proxy{}, fmt.Errorf("node id %q: want type~ip~name.namespace~domain, got %d parts", id, len(parts))
	}
	p := Proxy{ID: id, Type: ProxyType(parts[0]), DNSDomain: parts[3]}
	if p.Type != SidecarProxy && p.Type != RouterProxy {
		return Proxy{}, fmt.Errorf("node id %q: unknown proxy type %q (want sidecar or router)", id, parts[0])
	}
	addr, err := netip.ParseAddr(parts[1])
	if err != nil {
		return Proxy{}, fmt.Errorf("node id %q: bad IP: %w", id, err)
	}
	p.Addresses = []netip.Addr{addr.Unmap()}
	p.Name = parts[2]
	if dot := strings.LastIndexByte(parts[2], '.'); dot >= 0 {
		p.Name, p.Namespace = parts[2][:dot], parts[2][dot+1:]
		if p.Namespace == "" {
			return Proxy{}, fmt.Errorf("node id %q: %q is not name.namespace", id, parts[2])
		}
	}
	if p.Name == "" {
		return Proxy{}, fmt.Errorf("node id %q: the name is empty", id)
	}
	return p, nil
}
