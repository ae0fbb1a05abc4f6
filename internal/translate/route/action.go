package route

import (
	"slices"
	"time"

	networking "istio.io/api/networking/v1alpha3"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// forwardTo sets the action of out to the destinations of the rule r, with its timeout, rewrite,
// mirrors and retries. authority is the host that the rule's header operations set, or ""; a
// rewrite overrides it. The weight of a single destination is ignored. If there is no destination,
// or there are several and none has a weight, requests are answered with 503. Without a retry
// policy the mesh's default applies.
func (t *translation) forwardTo(out *routev3.Route, r *networking.HTTPRoute, authority string) {
	action := new(routev3.RouteAction)
	setTimeout(action, r.GetTimeout().AsDuration())
	setRewrite(action, r.GetRewrite())
	if a := r.GetRewrite().GetAuthority(); a != "" {
		authority = a
	}
	if authority != "" {
		action.HostRewriteSpecifier = &routev3.RouteAction_HostRewriteLiteral{HostRewriteLiteral: authority}
	}
	action.RequestMirrorPolicies = t.mirrorPolicies(r)
	sticky := false
	if len(r.GetRoute()) == 1 {
		t.setDestination(out, action, r.GetRoute()[0])
		sticky = len(action.HashPolicy) > 0
	} else if !t.setWeightedDestinations(action, r.GetRoute()) {
		out.Action = &routev3.Route_DirectResponse{DirectResponse: &routev3.DirectResponseAction{Status: 503}}
		return
	}
	action.AppendXForwardedHost = t.forwarded && rewritesHost(action)
	retries := r.GetRetries()
	if retries == nil {
		retries = t.retry
	}
	action.RetryPolicy = retryPolicy(retries, sticky)
	out.Action = &routev3.Route_Route{Route: action}
}

// rewritesHost reports whether the action replaces the host of some requests.
func rewritesHost(action *routev3.RouteAction) bool {
	return action.HostRewriteSpecifier != nil ||
		slices.ContainsFunc(action.GetWeightedClusters().GetClusters(), func(c *routev3.WeightedCluster_ClusterWeight) bool {
			return c.HostRewriteSpecifier != nil
		})
}

// setDestination sends all requests to the destination d, whatever its weight, with its hash
// policy. Its header operations are added to out after the rule's; its host applies only if the
// action sets none.
func (t *translation) setDestination(
	out *routev3.Route,
	action *routev3.RouteAction,
	d *networking.HTTPRouteDestination,
) {
	action.ClusterSpecifier = &routev3.RouteAction_Cluster{Cluster: t.cluster(d.GetDestination()).String()}
	ops := headerOperations(d.GetHeaders())
	out.RequestHeadersToAdd = append(out.RequestHeadersToAdd, ops.requestAdd...)
	out.RequestHeadersToRemove = append(out.RequestHeadersToRemove, ops.requestRemove...)
	out.ResponseHeadersToAdd = append(out.ResponseHeadersToAdd, ops.responseAdd...)
	out.ResponseHeadersToRemove = append(out.ResponseHeadersToRemove, ops.responseRemove...)
	if ops.authority != "" && action.HostRewriteSpecifier == nil {
		action.HostRewriteSpecifier = &routev3.RouteAction_HostRewriteLiteral{HostRewriteLiteral: ops.authority}
	}
	if p := t.hashPolicy(d.GetDestination()); p != nil {
		action.HashPolicy = []*routev3.RouteAction_HashPolicy{p}
	}
}

// setWeightedDestinations splits requests by weight, with the header operations and host of each
// destination and the hash policies of all. Destinations with weight 0 are left out, and weights
// need not add up to 100. It returns false if no destination has a weight: Envoy refuses such an
// action.
func (t *translation) setWeightedDestinations(
	action *routev3.RouteAction,
	list []*networking.HTTPRouteDestination,
) bool {
	clusters := new(routev3.WeightedCluster)
	for _, d := range list {
		if d.GetWeight() <= 0 {
			continue
		}
		ops := headerOperations(d.GetHeaders())
		w := &routev3.WeightedCluster_ClusterWeight{
			Name:                    t.cluster(d.GetDestination()).String(),
			Weight:                  wrapperspb.UInt32(uint32(d.GetWeight())),
			RequestHeadersToAdd:     ops.requestAdd,
			RequestHeadersToRemove:  ops.requestRemove,
			ResponseHeadersToAdd:    ops.responseAdd,
			ResponseHeadersToRemove: ops.responseRemove,
		}
		if ops.authority != "" {
			w.HostRewriteSpecifier = &routev3.WeightedCluster_ClusterWeight_HostRewriteLiteral{
				HostRewriteLiteral: ops.authority,
			}
		}
		clusters.Clusters = append(clusters.Clusters, w)
		if p := t.hashPolicy(d.GetDestination()); p != nil {
			action.HashPolicy = append(action.HashPolicy, p)
		}
	}
	action.ClusterSpecifier = &routev3.RouteAction_WeightedClusters{WeightedClusters: clusters}
	return len(clusters.Clusters) > 0
}

// setTimeout sets the timeout of requests (HTTPRoute.timeout); 0 disables it. gRPC clients may
// request a shorter one in their own header.
//
// max_grpc_timeout is deprecated, but with max_stream_duration in its place Envoy ignores timeout
// for all requests (envoyproxy/envoy#15530).
func setTimeout(action *routev3.RouteAction, d time.Duration) {
	action.Timeout = durationpb.New(d)
	action.MaxGrpcTimeout = durationpb.New(d) //nolint:staticcheck // see above
}

// setRewrite sets the rewrite of the path: the regular expression if r has one, otherwise the
// prefix; r may be nil. It does not set the host.
func setRewrite(action *routev3.RouteAction, r *networking.HTTPRewrite) {
	if re := r.GetUriRegexRewrite(); re != nil {
		action.RegexRewrite = &matcherv3.RegexMatchAndSubstitute{
			Pattern:      regexMatcher(re.GetMatch()),
			Substitution: re.GetRewrite(),
		}
		return
	}
	action.PrefixRewrite = r.GetUri()
}

// newRedirect translates HTTPRedirect. port is the port on which the request was received, for
// redirects that keep it (FROM_REQUEST_PORT); tls is set if the request came by HTTPS. A prefix
// rewrite overrides the URI. The default port of the new scheme, or else of the request's, is
// omitted from the location.
func newRedirect(r *networking.HTTPRedirect, port uint32, tls bool) *routev3.RedirectAction {
	out := &routev3.RedirectAction{HostRedirect: r.GetAuthority(), ResponseCode: redirectCode(r.GetRedirectCode())}
	switch {
	case r.GetPrefixRewrite() != "":
		out.PathRewriteSpecifier = &routev3.RedirectAction_PrefixRewrite{PrefixRewrite: r.GetPrefixRewrite()}
	case r.GetUri() != "":
		out.PathRewriteSpecifier = &routev3.RedirectAction_PathRedirect{PathRedirect: r.GetUri()}
	}
	scheme := "http"
	if tls {
		scheme = "https"
	}
	if r.GetScheme() != "" {
		scheme = r.GetScheme()
		out.SchemeRewriteSpecifier = &routev3.RedirectAction_SchemeRedirect{SchemeRedirect: scheme}
	}
	out.PortRedirect = r.GetPort()
	if _, derived := r.GetRedirectPort().(*networking.HTTPRedirect_DerivePort); derived {
		// Envoy cannot derive the port from the request, but all requests of these routes have the
		// same port.
		if r.GetDerivePort() == networking.HTTPRedirect_FROM_REQUEST_PORT {
			out.PortRedirect = port
		}
	}
	if scheme == "http" && out.PortRedirect == 80 || scheme == "https" && out.PortRedirect == 443 {
		out.PortRedirect = 0 // This is the default port of the scheme.
	}
	return out
}

// redirectCode returns Envoy's enumeration value of 302, 303, 307 or 308, and the value of 301 for
// any other status.
func redirectCode(status uint32) routev3.RedirectAction_RedirectResponseCode {
	switch status {
	case 302:
		return routev3.RedirectAction_FOUND
	case 303:
		return routev3.RedirectAction_SEE_OTHER
	case 307:
		return routev3.RedirectAction_TEMPORARY_REDIRECT
	case 308:
		return routev3.RedirectAction_PERMANENT_REDIRECT
	default:
		return routev3.RedirectAction_MOVED_PERMANENTLY
	}
}

// directResponse translates HTTPDirectResponse: its status, and its body, text or bytes, if it has
// one.
func directResponse(r *networking.HTTPDirectResponse) *routev3.DirectResponseAction {
	out := &routev3.DirectResponseAction{Status: r.GetStatus()}
	switch b := r.GetBody().GetSpecifier().(type) {
	case *networking.HTTPBody_String_:
		out.Body = &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: b.String_}}
	case *networking.HTTPBody_Bytes:
		out.Body = &corev3.DataSource{Specifier: &corev3.DataSource_InlineBytes{InlineBytes: b.Bytes}}
	}
	return out
}
