package debug

import (
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/meshpilot/meshpilot/internal/base/obs"
	"github.com/meshpilot/meshpilot/internal/model/spiffe"
	"github.com/meshpilot/meshpilot/internal/xds/push"
	"github.com/meshpilot/meshpilot/internal/xds/server"
)

// XDS answers the debug requests that istioctl sends over xDS. Access is restricted as for the
// pages over HTTP.
type XDS struct {
	Pages *Pages
	// API answers a GET request of the read API: resource is its path and query. If nil, there is none.
	// The error may be a Refusal.
	API func(resource string, c Caller) ([]byte, error)
	// PodName is the name of this replica.
	PodName string
}

var _ server.Debug = XDS{}

// Identifier returns the identifier of the control plane in the format that istioctl parses.
func (x XDS) Identifier() string {
	text, err := json.Marshal(struct {
		Component, ID string
		Info          obs.Build
	}{"istiod", x.PodName, obs.ReadBuild()})
	if err != nil {
		panic(err) // A struct of text and numbers can always be encoded.
	}
	return string(text)
}

// Namespace returns the namespace whose proxies a client may see, or "" for all. It returns
// Unauthenticated for a client without identity that is not on this machine. Of several identities,
// the first with a service account decides.
func (x XDS) Namespace(h server.Hello) (string, error) {
	for _, id := range h.Identities {
		if account, ok := spiffe.AccountOf(id); ok {
			return x.Pages.Access.Identity(account.Namespace).Namespace, nil
		}
	}
	host, _, err := net.SplitHostPort(h.Peer)
	if ip := net.ParseIP(host); err == nil && ip != nil && ip.IsLoopback() {
		return "", nil
	}
	return "", status.Error(codes.Unauthenticated,
		"debug requests from another machine need a client certificate or a token")
}

// Page returns a debug page, or an answer of the read API if name begins with "api/" and x.API is
// set. It has only data that the namespace may read; "" may read everything. A Refusal is returned
// as a gRPC status, other errors unchanged.
func (x XDS) Page(name, namespace string) ([]byte, error) {
	read := x.Pages.Page
	if strings.HasPrefix(name, "api/") && x.API != nil {
		read = func(name string, c Caller) ([]byte, error) { return x.API("/"+name, c) }
	}
	body, err := read(name, Caller{Namespace: namespace})
	var refusal Refusal
	if errors.As(err, &refusal) {
		return nil, status.Error(refusalCode(refusal.Status), refusal.Reason)
	}
	return body, err
}

// refusalCode returns the gRPC code for an HTTP status: InvalidArgument for 400 and 422,
// Unauthenticated for 401, PermissionDenied for 403, NotFound for 404, Unimplemented for 501, and
// otherwise Internal.
func refusalCode(httpStatus int) codes.Code {
	switch httpStatus {
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		return codes.InvalidArgument
	case http.StatusUnauthorized:
		return codes.Unauthenticated
	case http.StatusForbidden:
		return codes.PermissionDenied
	case http.StatusNotFound:
		return codes.NotFound
	case http.StatusNotImplemented:
		return codes.Unimplemented
	default:
		return codes.Internal
	}
}

// ConfigDump returns the resources that a proxy was sent, with its endpoints.
func (x XDS) ConfigDump(c push.Connection) ([]*anypb.Any, error) {
	return ConfigDump(c, true)
}
