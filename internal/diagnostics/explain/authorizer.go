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

// evaluateAuthorizer evaluates an HTTP ext_authz filter, and adds a step (askAuthorizer). It
// returns nil if the request continues or the route disables the filter. A denied request is
// answered 403 (localReply). If the authorizer fails, the request continues with
// failure_mode_allow, and otherwise is answered status_on_error, by default 403. A filter whose
// default value enables it for a fraction of requests is unsupported.
func (x *exchange) evaluateAuthorizer(name string, f *httpauthzv3.ExtAuthz) []Ending {
	if p, ok := unpackAny(x.perRoute(name), new(httpauthzv3.ExtAuthzPerRoute)); ok && p.GetDisabled() {
		return nil
	}
	if f.GetFilterEnabled() != nil && fractionOf(f.GetFilterEnabled().GetDefaultValue()) < 1 {
		return x.endUnsupported(name, "the filter is enabled for a fraction of requests, which is not supported")
	}
	at := f.GetHttpService().GetServerUri().GetCluster()
	if g := f.GetGrpcService(); g != nil {
		at = grpcCluster(g)
	}
	details, end := x.askAuthorizer(name, at, f.GetFilterEnabledMetadata(), f.GetFailureModeAllow())
	if details == "" || end != nil {
		return end
	}
	status := http.StatusForbidden
	if details == authorizerFailed && f.GetStatusOnError() != nil {
		status = int(f.GetStatusOnError().GetCode())
	}
	e := x.localReply(status, "", "denied by the external authorizer")
	e.Details = details
	return []Ending{e.withFlags(flagExtAuthzRefused)}
}

// connectionAuthorizer evaluates a network ext_authz filter, and adds a step (askAuthorizer). It
// returns nil if the connection continues. It returns a Closed ending if the authorizer denies the
// connection, or fails without failure_mode_allow. Any other end of askAuthorizer is returned as it
// is.
func (w *walk) connectionAuthorizer(name string, f *tcpauthzv3.ExtAuthz) []Ending {
	details, end := w.askAuthorizer(
		name,
		grpcCluster(f.GetGrpcService()),
		f.GetFilterEnabledMetadata(),
		f.GetFailureModeAllow(),
	)
	if details == "" || end != nil {
		return end
	}
	e := Ending{Share: 1, Kind: Closed, Reason: "denied by the external authorizer", Details: details}
	return []Ending{e.withFlags(flagExtAuthzRefused)}
}

// grpcCluster returns the name of the cluster of a gRPC service, or the target address if Envoy's
// Google client calls it.
func grpcCluster(g *corev3.GrpcService) string {
	if e := g.GetEnvoyGrpc(); e != nil {
		return e.GetClusterName()
	}
	return g.GetGoogleGrpc().GetTargetUri()
}

// askAuthorizer returns the verdict of an authorizer, which Call.Authorizers assumes (by default it
// allows), and adds a step. details is authorizerDenied or authorizerFailed for a denied call, and
// otherwise empty. If only does not match the dynamic metadata, the filter is skipped without a
// step; an unsupported condition in it returns end. failOpen lets the call continue if the
// authorizer fails.
func (w *walk) askAuthorizer(
	name, cluster string,
	only *matcherv3.MetadataMatcher,
	failOpen bool,
) (details string, end []Ending) {
	if only != nil {
		f, err := rbacCall{walk: w}.evalMetadata(only)
		switch {
		case err != nil:
			return "", w.endUnsupported(name, "%v", err)
		case !f.ok:
			return "", nil // the preceding shadow rules have added a step for this
		}
	}
	switch {
	case w.call.Authorizers == Denies:
		w.addNote(StageAccess, name, "the authorizer at %s denies the request: denied", cluster)
		return authorizerDenied, nil
	case w.call.Authorizers == Fails && failOpen:
		w.addNote(
			StageAccess,
			name,
			"the authorizer at %s does not respond: allowed, because its provider has failOpen",
			cluster,
		)
	case w.call.Authorizers == Fails:
		w.addNote(StageAccess, name, "the authorizer at %s does not respond: denied", cluster)
		return authorizerFailed, nil
	case w.call.Authorizers == Allows:
		w.addNote(StageAccess, name, "the authorizer at %s allows the request: continues", cluster)
	default:
		w.addNote(
			StageAccess,
			name,
			"calls the authorizer at %s, which is assumed to allow the request: continues",
			cluster,
		)
	}
	return "", nil
}
