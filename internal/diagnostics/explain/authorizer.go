package explain

import (
	"net/http"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	httpauthzv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_authz/v3"
	tcpauthzv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/ext_authz/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
)

// Answer is the assumed response of external authorizers to the call. The empty value acts like
// Allows, and the step states the assumption.
type Answer string

// The possible answers.
const (
	Allows Answer = "allow"
	Denies Answer = "deny"
	// Fails means that the authorizer does not respond.
	Fails Answer = "fail"
)

// Response details in access logs for calls that an authorizer denied or failed to check.
const (
	authorizerDenied = "ext_authz_denied"
	authorizerFailed = "ext_authz_error"
)

// authorizer evaluates an HTTP ext_authz filter. It returns nil if the request continues. A denied
// request is answered 403. If the authorizer fails, status_on_error overrides the status. Filters
// enabled for a fraction of requests are unsupported.
func (x *exchange) authorizer(name string, f *httpauthzv3.ExtAuthz) []Ending {
	if p, ok := unpack(x.perRoute(name), new(httpauthzv3.ExtAuthzPerRoute)); ok && p.GetDisabled() {
		return nil
	}
	if f.GetFilterEnabled() != nil && fraction(f.GetFilterEnabled().GetDefaultValue()) < 1 {
		return x.unsupported(name, "only a share of the requests is asked about, which is not followed")
	}
	at := f.GetHttpService().GetServerUri().GetCluster()
	if g := f.GetGrpcService(); g != nil {
		at = grpcCluster(g)
	}
	details, end := x.ask(name, at, f.GetFilterEnabledMetadata(), f.GetFailureModeAllow())
	if details == "" || end != nil {
		return end
	}
	status := http.StatusForbidden
	if details == authorizerFailed && f.GetStatusOnError() != nil {
		status = int(f.GetStatusOnError().GetCode())
	}
	e := x.reply(status, "", "the authorizer does not allow it")
	e.Details = details
	return []Ending{e}
}

// connectionAuthorizer evaluates a network ext_authz filter. It returns nil if the connection
// continues and a Closed ending if it is denied.
func (w *walk) connectionAuthorizer(name string, f *tcpauthzv3.ExtAuthz) []Ending {
	details, end := w.ask(name, grpcCluster(f.GetGrpcService()), f.GetFilterEnabledMetadata(), f.GetFailureModeAllow())
	if details == "" || end != nil {
		return end
	}
	return []Ending{{Share: 1, Kind: Closed, Reason: "the authorizer does not allow it", Details: details}}
}

func grpcCluster(g *corev3.GrpcService) string {
	if e := g.GetEnvoyGrpc(); e != nil {
		return e.GetClusterName()
	}
	return g.GetGoogleGrpc().GetTargetUri()
}

// ask adds a step with the assumed answer of an authorizer. details is empty unless the call is
// denied. The filter is skipped if the metadata does not match only. failOpen lets the call
// continue if the authorizer fails.
func (w *walk) ask(name, cluster string, only *matcherv3.MetadataMatcher, failOpen bool) (details string, end []Ending) {
	if only != nil {
		f, err := asked{walk: w}.said(only)
		switch {
		case err != nil:
			return "", w.unsupported(name, "%v", err)
		case !f.ok:
			return "", nil // the preceding shadow rules have added a step for this
		}
	}
	switch {
	case w.call.Authorizers == Denies:
		w.note(StageAccess, name, "asks the authorizer at %s, which does not allow it: refused", cluster)
		return authorizerDenied, nil
	case w.call.Authorizers == Fails && failOpen:
		w.note(StageAccess, name, "asks the authorizer at %s, which does not answer: goes on, as its provider says (failOpen)", cluster)
	case w.call.Authorizers == Fails:
		w.note(StageAccess, name, "asks the authorizer at %s, which does not answer: refused", cluster)
		return authorizerFailed, nil
	case w.call.Authorizers == Allows:
		w.note(StageAccess, name, "asks the authorizer at %s, which allows it: goes on", cluster)
	default:
		w.note(StageAccess, name, "asks the authorizer at %s, and goes on if that allows it, as is taken here", cluster)
	}
	return "", nil
}
