package gatewayapi

import (
	"regexp"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/meshpilot/meshpilot/internal/model/config"
)

// validPath matches the characters of a path, without a query.
var validPath = regexp.MustCompile("^(?:[-A-Za-z0-9/._~!$&'()*+,;=:@]|%[0-9a-fA-F]{2})+$")

// addAuthorizer sets out.authorizer from a filter ExternalAuth; at is its path. If the backend
// cannot be used, out.resolved fails and out.blocked is set, so that requests are refused.
// Unsupported values, and any value for parents in the mesh, fail out.supported and leave
// out.authorizer as it is.
func (r *routeReader) addAuthorizer(out *filters, at string, f *gatewayv1.HTTPExternalAuthFilter) {
	if r.inMesh {
		out.supported.worse(unsupported("%s: is supported only by gateways", at))
		return
	}
	to, v := r.backend(at+".backendRef", f.BackendRef)
	out.resolved.worse(v)
	if to == nil {
		out.blocked = true
		return
	}
	a := &config.Authorizer{Host: to.Host, Port: to.Port.GetNumber()}
	switch f.ExternalAuthProtocol {
	case gatewayv1.HTTPRouteExternalAuthGRPCProtocol:
		a.GRPC = true
		if c := f.GRPCAuthConfig; c != nil {
			a.RequestHeaders = c.AllowedRequestHeaders
		}
	case gatewayv1.HTTPRouteExternalAuthHTTPProtocol:
		if c := f.HTTPAuthConfig; c != nil {
			a.PathPrefix, a.RequestHeaders, a.ResponseHeaders = c.Path, c.AllowedRequestHeaders, c.AllowedResponseHeaders
		}
	default:
		out.supported.worse(unsupported("%s.protocol: %q is not supported", at, f.ExternalAuthProtocol))
		return
	}
	if a.PathPrefix != "" && !validPath.MatchString(a.PathPrefix) {
		out.supported.worse(unsupported("%s.http.path: %q is not a path", at, a.PathPrefix))
		return
	}
	if f.ForwardBody != nil {
		a.MaxBody = uint32(f.ForwardBody.MaxSize)
	}
	out.authorizer = a
}
