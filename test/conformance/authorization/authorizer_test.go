package authorization

import (
	"context"
	"net/http"
	"strings"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
)

// answerHeader is the header that selects an authorizer's answer. Calls without headers from
// deniedAccount are denied.
const (
	answerHeader  = "x-answer"
	deniedAccount = "/sa/denied"
)

// answerByHeader is an HTTP authorizer.
func answerByHeader(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get(answerHeader) == "deny" {
		w.WriteHeader(http.StatusForbidden)
	}
}

// authorizer is one over gRPC.
type authorizer struct {
	authv3.UnimplementedAuthorizationServer
}

// Check answers by the header, or the caller's account.
func (authorizer) Check(_ context.Context, r *authv3.CheckRequest) (*authv3.CheckResponse, error) {
	a := r.GetAttributes()
	if a.GetRequest().GetHttp().GetHeaders()[answerHeader] == "deny" || strings.HasSuffix(a.GetSource().GetPrincipal(), deniedAccount) {
		return &authv3.CheckResponse{Status: &status.Status{Code: int32(codes.PermissionDenied)}}, nil
	}
	return &authv3.CheckResponse{Status: new(status.Status)}, nil
}
