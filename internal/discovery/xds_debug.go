package discovery

import (
	"encoding/json"
	"errors"
	"net"
	"net/http"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/meshpilot/meshpilot/internal/base/obs"
	"github.com/meshpilot/meshpilot/internal/diagnostics/debug"
	"github.com/meshpilot/meshpilot/internal/model/spiffe"
	"github.com/meshpilot/meshpilot/internal/xds/push"
	xds "github.com/meshpilot/meshpilot/internal/xds/server"
)

// questions answers what istioctl asks over xDS with the debug pages, to those who may see them over HTTP too.
type questions struct{ s *server }

var _ xds.Debug = questions{}

// Identifier names the control plane as istioctl reads it.
func (q questions) Identifier() string {
	text, err := json.Marshal(struct {
		Component, ID string
		Info          obs.Build
	}{"istiod", q.s.options.PodName, obs.ReadBuild()})
	if err != nil {
		panic(err) // plain text and numbers
	}
	return string(text)
}

// Namespace says whose proxies a client may see.
func (q questions) Namespace(h xds.Hello) (string, error) {
	for _, id := range h.Identities {
		if account, ok := spiffe.AccountOf(id); ok {
			return q.s.pages.Access.Identity(account.Namespace).Namespace, nil
		}
	}
	host, _, err := net.SplitHostPort(h.Peer)
	if ip := net.ParseIP(host); err == nil && ip != nil && ip.IsLoopback() {
		return "", nil
	}
	return "", status.Error(codes.Unauthenticated, "debug requests from another machine need a client certificate or a token")
}

// Page gives a page as its namespace may see it.
func (q questions) Page(name, namespace string) ([]byte, error) {
	body, err := q.s.pages.Page(name, debug.Caller{Namespace: namespace})
	var refusal debug.Refusal
	if errors.As(err, &refusal) {
		return nil, status.Error(refusalCode(refusal.Status), refusal.Reason)
	}
	return body, err
}

func refusalCode(httpStatus int) codes.Code {
	switch httpStatus {
	case http.StatusBadRequest:
		return codes.InvalidArgument
	case http.StatusUnauthorized:
		return codes.Unauthenticated
	case http.StatusForbidden:
		return codes.PermissionDenied
	case http.StatusNotFound:
		return codes.NotFound
	default:
		return codes.Internal
	}
}

// ConfigDump gives what a proxy was sent.
func (q questions) ConfigDump(c push.Connection) ([]*anypb.Any, error) {
	return debug.ConfigDump(c, true)
}
