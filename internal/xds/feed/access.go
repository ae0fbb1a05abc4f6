package feed

import (
	"net/netip"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/meshpilot/meshpilot/internal/xds/server"
)

// Access says who is served. The zero value serves nobody.
type Access struct {
	// Identities are the SPIFFE IDs of control planes, of which the client's verified certificate must have one:
	// "spiffe://cluster.local/ns/istio-system/sa/istiod". One that ends in "/*" stands for all that begin like it; Istio's
	// own rule is ".../ns/<root namespace>/sa/*", which its gateways meet too.
	Identities []string
	// PlainText is what is asked of clients that come without TLS, and so without a proof of who they are.
	PlainText PlainText
}

// PlainText is what is asked of clients that come without TLS. The zero value is PlainTextRefused.
type PlainText string

const (
	// PlainTextRefused serves none of them, as Istio does.
	PlainTextRefused PlainText = ""
	// PlainTextLoopback serves those that connect from this machine, for control planes on a laptop. Whatever forwards
	// connections on this machine, a sidecar proxy or kubectl port-forward, lets others in.
	PlainTextLoopback PlainText = "loopback"
	// PlainTextAnyone serves everybody who can reach the port (Istio: ENABLE_XDS_API_GENERATOR_AUTH=false).
	PlainTextAnyone PlainText = "anyone"
)

// check gives a gRPC status that refuses a client; nil lets it in.
func (a Access) check(h server.Hello) error {
	if !h.Secure {
		if a.PlainText.Admits(h.Peer) {
			return nil
		}
		return status.Error(codes.Unauthenticated, "config is served to control planes only: connect by TLS, with a control plane's certificate")
	}
	if len(h.Identities) == 0 {
		return status.Error(codes.Unauthenticated, "config is served to control planes only: a client certificate is needed")
	}
	for _, id := range h.Identities {
		if slices.ContainsFunc(a.Identities, func(allowed string) bool { return matches(allowed, id) }) {
			return nil
		}
	}
	return status.Errorf(codes.PermissionDenied, "config is served to control planes only, and %s is none", strings.Join(h.Identities, ", "))
}

// Admits says whether a client without TLS is served that connects from there ("host:port").
func (p PlainText) Admits(peer string) bool {
	return p == PlainTextAnyone || p == PlainTextLoopback && isLoopback(peer)
}

func matches(allowed, id string) bool {
	if prefix, wild := strings.CutSuffix(allowed, "*"); wild && strings.HasSuffix(prefix, "/") {
		return strings.HasPrefix(id, prefix) && len(id) > len(prefix)
	}
	return allowed == id
}

func isLoopback(peer string) bool {
	p, err := netip.ParseAddrPort(peer)
	return err == nil && p.Addr().Unmap().IsLoopback()
}
