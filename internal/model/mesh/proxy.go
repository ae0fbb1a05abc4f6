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

// The proxy types that are served.
const (
	SidecarProxy ProxyType = "sidecar"
	RouterProxy  ProxyType = "router"
)

// Proxy is what a connected proxy says of itself, from its xDS Node. It is immutable.
type Proxy struct {
	// ID is the whole node id: "sidecar~10.0.0.1~reviews-v1-abc.default~default.svc.cluster.local".
	ID   string
	Type ProxyType
	// Addresses are its IPs: the one of the node id first, then those of the metadata INSTANCE_IPS.
	Addresses []netip.Addr
	// Name and Namespace are of its pod or workload.
	Name, Namespace string
	// DNSDomain is the suffix for short names, "default.svc.cluster.local".
	DNSDomain string
	// Cluster is Node.cluster, the service cluster ("reviews.default"); ClusterID the platform cluster it runs in.
	Cluster   string
	ClusterID ClusterID
	Network   Network
	Locality  Locality
	Labels    map[string]string
	Metadata  NodeMetadata
	// Keys says that the proxy may be sent private keys of its namespace: the server vouches for it, by its certificate or by
	// where it connects from. Nothing that a proxy says of itself does.
	Keys bool
	// Account is the service account that the proxy was authenticated as, of the cluster that it says it is in. Where it is set,
	// Keys counts only as long as the account may read Secrets there (Right). The zero value: nobody is to be asked.
	Account Account
	// Identity is the SPIFFE ID that the proxy has proved by a certificate or token over TLS; "" if it has proved none.
	Identity string
	// EnvoyVersion is the release of its Envoy (node.user_agent_build_version); zero if it did not state one.
	EnvoyVersion EnvoyVersion
	// Extensions are the names of the extensions that its Envoy has, sorted; nil if it did not state them.
	Extensions []string
}

// MaxNodeText bounds, in bytes, a node ID and the other short texts of a node. Kubernetes' longest pod name, namespace and domain
// together have about 700.
const MaxNodeText = 1024

// CheckNodeText returns an error that starts with field if a text of a node is longer than MaxNodeText or has a character that is
// not printable: a control character, a line separator, a direction mark, or a byte that is not UTF-8. Such a text has no
// legitimate use, and forges lines wherever it is printed without quotes.
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

// ParseNodeID parses a node ID "type~ip~name.namespace~domain" into a Proxy with those fields set.
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
	dot := strings.LastIndexByte(parts[2], '.')
	if dot <= 0 || dot == len(parts[2])-1 {
		return Proxy{}, fmt.Errorf("node id %q: %q is not name.namespace", id, parts[2])
	}
	p.Name, p.Namespace = parts[2][:dot], parts[2][dot+1:]
	return p, nil
}
