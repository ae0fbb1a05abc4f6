package feed

import (
	"net/netip"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/meshpilot/meshpilot/internal/xds/server"
)

// Access configures which control planes may connect. The zero value refuses every client.
type Access struct {
	// Identities are the accepted SPIFFE IDs. The client's verified certificate must have one of
	// them, for example "spiffe://cluster.local/ns/istio-system/sa/istiod". An entry that ends in
	// "/*" matches every ID with that prefix. Istio's own rule is ".../ns/<root namespace>/sa/*",
	// which its gateways match too.
	Identities []string
	// PlainText selects which clients without TLS are accepted. Such clients cannot prove an
	// identity.
	PlainText PlainText
}

// PlainText is the policy for clients that connect without TLS. The zero value is PlainTextRefused.
type PlainText string

const (
	// PlainTextRefused refuses all clients without TLS, as Istio does.
	PlainTextRefused PlainText = ""
	// PlainTextLoopback accepts clients that connect from this machine. It is for control planes on
	// a laptop. A process that forwards connections on this machine, such as a sidecar proxy or
	// kubectl port-forward, lets other clients in.
	PlainTextLoopback PlainText = "loopback"
	// PlainTextAnyone accepts every client that can reach the port (Istio:
	// ENABLE_XDS_API_GENERATOR_AUTH=false).
	PlainTextAnyone PlainText = "anyone"
)

// checkClient returns nil if the client may connect, and otherwise a gRPC status error. A client
// without TLS may connect only if PlainText admits its address; otherwise the code is
// Unauthenticated. A client with TLS needs one identity that is in Identities. The code is
// Unauthenticated if it has none, and PermissionDenied if none of them is accepted.
func (a Access) checkClient(h server.Hello) error {
	if !h.Secure {
		if a.PlainText.AdmitsPeer(h.Peer) {
			return nil
		}
		return status.Error(
			codes.Unauthenticated,
			"configuration is served only to control planes: connect over TLS with a control plane's certificate",
		)
	}
	if len(h.Identities) == 0 {
		return status.Error(
			codes.Unauthenticated,
			"configuration is served only to control planes: a client certificate is required",
		)
	}
	for _, id := range h.Identities {
		if slices.ContainsFunc(a.Identities, func(allowed string) bool { return matchesIdentity(allowed, id) }) {
			return nil
		}
	}
	return status.Errorf(codes.PermissionDenied,
		"configuration is served only to control planes; %s is not an accepted identity",
		strings.Join(h.Identities, ", "))
}

// AdmitsPeer reports whether a client without TLS may connect from peer ("host:port"). Every peer
// may for PlainTextAnyone and only loopback addresses for PlainTextLoopback; a peer that cannot be
// parsed is no loopback address.
func (p PlainText) AdmitsPeer(peer string) bool {
	return p == PlainTextAnyone || p == PlainTextLoopback && isLoopback(peer)
}

// matchesIdentity reports whether a client's identity equals allowed. If allowed ends in "/*", it
// reports whether id starts with the part before "*" and is longer than it.
func matchesIdentity(allowed, id string) bool {
	if prefix, wild := strings.CutSuffix(allowed, "*"); wild && strings.HasSuffix(prefix, "/") {
		return strings.HasPrefix(id, prefix) && len(id) > len(prefix)
	}
	return allowed == id
}

// isLoopback reports whether peer ("IP:port") is a loopback address. It returns false for other
// forms.
func isLoopback(peer string) bool {
	p, err := netip.ParseAddrPort(peer)
	return err == nil && p.Addr().Unmap().IsLoopback()
}
