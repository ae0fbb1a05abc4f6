package explain

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
)

// runAction executes the action of the matched route, and adds steps. It answers 404 (localReply)
// if no route matched, and actions of unknown types are unsupported. A redirect or direct response
// is one ending, a forwarded request may have several.
func (x *exchange) runAction() []Ending {
	r := x.routed.route
	if r == nil {
		return []Ending{x.localReply(http.StatusNotFound, "", "no route").withFlags(flagNoRoute)}
	}
	switch a := r.GetAction().(type) {
	case *routev3.Route_Redirect:
		return x.redirectEnding(a.Redirect)
	case *routev3.Route_DirectResponse:
		e := x.localReply(int(a.DirectResponse.GetStatus()), dataText(a.DirectResponse.GetBody()), "direct response")
		x.addStep(Step{Stage: StageAction, Decided: "answers " + e.describe(), By: x.routeObjects(r)})
		e.Response = x.responseChanges(nil)
		return []Ending{e}
	case *routev3.Route_Route:
		return x.forwardRequest(a.Route)
	default:
		return x.endUnsupported(r.GetName(), "the action %T is not supported", a)
	}
}

// dataText returns the inline data of d. The content of a file is not available here, so a
// placeholder with its name is returned. It returns "" for any other source.
func dataText(d *corev3.DataSource) string {
	switch s := d.GetSpecifier().(type) {
	case *corev3.DataSource_InlineString:
		return s.InlineString
	case *corev3.DataSource_InlineBytes:
		return string(s.InlineBytes)
	case *corev3.DataSource_Filename:
		return "(the file " + s.Filename + ")"
	default:
		return ""
	}
}

// choice is a cluster that a route may select, with its share of the requests.
type choice struct {
	cluster string
	share   float64
	weight  *routev3.WeightedCluster_ClusterWeight // nil if it is the only cluster
}

// errNoWeight is the reason of an Unknown ending if no share of a cluster can be computed.
var errNoWeight = errors.New("the weights of the clusters add up to 0, which envoy rejects")

// clusterChoices returns the clusters of a route action with their shares, and a text that
// describes the selection. For a cluster header without a value, the name is empty. The error
// reports an unsupported cluster specifier, or weights whose sum is 0.
func (x *exchange) clusterChoices(a *routev3.RouteAction) (list []choice, text string, err error) {
	switch s := a.GetClusterSpecifier().(type) {
	case *routev3.RouteAction_Cluster:
		return []choice{{cluster: s.Cluster, share: 1}}, "forwards to " + s.Cluster, nil
	case *routev3.RouteAction_ClusterHeader:
		name, _ := x.request.headerValue(s.ClusterHeader)
		text = fmt.Sprintf("forwards to cluster %q, which header %s names", name, s.ClusterHeader)
		return []choice{{cluster: name, share: 1}}, text, nil
	case *routev3.RouteAction_WeightedClusters:
		total := 0.0
		for _, c := range s.WeightedClusters.GetClusters() {
			total += float64(c.GetWeight().GetValue())
		}
		if total == 0 {
			return nil, "", errNoWeight
		}
		var parts []string
		for _, c := range s.WeightedClusters.GetClusters() {
			share := float64(c.GetWeight().GetValue()) / total
			list = append(list, choice{c.GetName(), share, c})
			parts = append(parts, formatPercent(share)+" "+c.GetName())
		}
		return list, "forwards " + strings.Join(parts, ", "), nil
	default:
		return nil, "", fmt.Errorf("the cluster specifier %T is not supported", s)
	}
}

// forwardRequest resolves the clusters of a route action and returns an ending with its share for
// each of them. It skips clusters with share 0, and sets timeouts, retries and mirrors of forwarded
// requests. It adds steps for the action, its policies and its clusters. An error of clusterChoices
// returns an Unknown ending.
func (x *exchange) forwardRequest(a *routev3.RouteAction) []Ending {
	choices, text, err := x.clusterChoices(a)
	if err != nil {
		return x.endUnsupported(x.routed.route.GetName(), "%v", err)
	}
	x.addStep(Step{Stage: StageAction, Decided: text, By: x.routeObjects(x.routed.route)})
	timeout, perTry, retries := x.routePolicies(a)
	mirrors := x.mirrorClusters(a)
	var out []Ending
	for _, c := range choices {
		if c.share == 0 {
			continue
		}
		x.addPicker(c)
		e := x.forwardTo(c, a)
		if e.Kind == Forwarded {
			e.Timeout, e.PerTry, e.Retries, e.Mirrors = timeout, perTry, retries, mirrors
		}
		e.Share = c.share
		out = append(out, e)
	}
	return out
}

// forwardTo returns the ending of the request in cluster c, and adds steps; the caller sets its
// share. If the cluster is missing, the proxy answers with the action's
// ClusterNotFoundResponseCode, by default 503; without a usable endpoint it answers 503. A cluster
// that is unsupported returns the first ending of resolveCluster.
func (x *exchange) forwardTo(c choice, a *routev3.RouteAction) Ending {
	upstream := x.upstreamRequest(c, a)
	t, end := x.resolveCluster(c.cluster)
	switch {
	case len(end) > 0:
		return end[0]
	case t == nil:
		status := http.StatusServiceUnavailable
		switch a.GetClusterNotFoundResponseCode() {
		case routev3.RouteAction_NOT_FOUND:
			status = http.StatusNotFound
		case routev3.RouteAction_INTERNAL_SERVER_ERROR:
			status = http.StatusInternalServerError
		}
		return x.localReply(status, "", "there is no cluster "+c.cluster).withFlags(flagNoCluster)
	case len(t.endpoints) == 0:
		e := x.localReply(http.StatusServiceUnavailable, "no healthy upstream", "the cluster has no usable endpoint")
		e.Cluster = c.cluster
		return e.withFlags(flagNoHealthyHost)
	}
	return Ending{
		Kind:      Forwarded,
		Cluster:   c.cluster,
		Route:     x.routed.route.GetName(),
		Endpoints: t.endpoints,
		Transport: t.transport,
		Protocol:  t.protocol,
		Upstream:  upstream,
		Response:  x.responseChanges(c.weight),
	}
}

// defaultTimeout is Envoy's default for RouteAction.timeout.
const defaultTimeout = 15 * time.Second

// requestTimeout returns the timeout of the request by a route action, by default defaultTimeout; 0
// is none. If the route has max_grpc_timeout, a gRPC request has the timeout of its header
// grpc-timeout, limited to that maximum unless it is 0. Without the header it has the maximum
// itself. An integer in the header x-envoy-upstream-rq-timeout-ms overrides all.
func (x *exchange) requestTimeout(a *routev3.RouteAction) time.Duration {
	timeout := defaultTimeout
	if a.GetTimeout() != nil {
		timeout = a.GetTimeout().AsDuration()
	}
	if x.request.isGRPC() &&
		a.GetMaxGrpcTimeout() != nil { //nolint:staticcheck // Envoy still goes by it, and so do generated routes
		own, most := x.grpcTimeout(), a.GetMaxGrpcTimeout().AsDuration() //nolint:staticcheck // the same
		timeout = own
		if most > 0 && (own == 0 || own > most) {
			timeout = most
		}
	}
	if ms, ok := x.request.headerValue("x-envoy-upstream-rq-timeout-ms"); ok {
		if n, err := strconv.Atoi(ms); err == nil {
			timeout = time.Duration(n) * time.Millisecond
		}
	}
	return timeout
}

// retryPolicy returns the retries of a route action, by default one, and the timeout per try, or 0
// for none. A virtual host's retry policy applies if the route has none. It returns nil without
// retry_on, or if the policy does not apply to the request (isRetriable).
func (x *exchange) retryPolicy(a *routev3.RouteAction) (retries *Retries, perTry time.Duration) {
	p := a.GetRetryPolicy()
	if p == nil {
		p = x.routed.host.GetRetryPolicy()
	}
	if p.GetRetryOn() == "" || !x.isRetriable(p) {
		return nil, 0
	}
	retries = &Retries{Attempts: 1, On: p.GetRetryOn()}
	if p.GetNumRetries() != nil {
		retries.Attempts = p.GetNumRetries().GetValue()
	}
	return retries, p.GetPerTryTimeout().AsDuration()
}

// routePolicies returns the timeout of the request (requestTimeout), and the retries of a route
// action with their timeout per try (retryPolicy). It adds a step for these and for hash policies,
// if there are any.
func (x *exchange) routePolicies(a *routev3.RouteAction) (timeout, perTry time.Duration, retries *Retries) {
	timeout = x.requestTimeout(a)
	retries, perTry = x.retryPolicy(a)
	var parts []string
	if timeout > 0 {
		parts = append(parts, "answers 504 after "+timeout.String())
	}
	if retries != nil {
		text := fmt.Sprintf("retries %d times on %s", retries.Attempts, retries.On)
		if perTry > 0 {
			text += ", each for " + perTry.String()
		}
		parts = append(parts, text)
	}
	for _, h := range a.GetHashPolicy() {
		parts = append(parts, "keeps requests together by "+hashText(h))
	}
	if len(parts) > 0 {
		x.addNote(StagePolicy, "", "%s", strings.Join(parts, "; "))
	}
	return timeout, perTry, retries
}

// isRetriable reports whether the request has one of the headers that the policy requires for
// retries (retriable_request_headers). It returns true if the policy requires none. An unsupported
// matcher does not match.
func (x *exchange) isRetriable(p *routev3.RetryPolicy) bool {
	wanted := p.GetRetriableRequestHeaders()
	return len(wanted) == 0 || slices.ContainsFunc(wanted, func(h *routev3.HeaderMatcher) bool {
		ok, err := headerMatches(h, x.request)
		return ok && err == nil
	})
}

// hashText names the part of the request that is hashed. An unsupported hash policy gets a fixed
// text.
func hashText(h *routev3.RouteAction_HashPolicy) string {
	switch p := h.GetPolicySpecifier().(type) {
	case *routev3.RouteAction_HashPolicy_Header_:
		return "the header " + p.Header.GetHeaderName()
	case *routev3.RouteAction_HashPolicy_Cookie_:
		return "the cookie " + p.Cookie.GetName()
	case *routev3.RouteAction_HashPolicy_QueryParameter_:
		return "the parameter " + p.QueryParameter.GetName()
	case *routev3.RouteAction_HashPolicy_ConnectionProperties_:
		return "the client's address"
	default:
		return "what is not supported"
	}
}

// grpcTimeout parses the header grpc-timeout: "100m" is 100 milliseconds. It returns 0 if the
// header is missing, its number is invalid or its unit is unknown.
func (x *exchange) grpcTimeout() time.Duration {
	text, ok := x.request.headerValue("grpc-timeout")
	if !ok || len(text) < 2 {
		return 0
	}
	n, err := strconv.ParseInt(text[:len(text)-1], 10, 64)
	units := map[byte]time.Duration{
		'H': time.Hour,
		'M': time.Minute,
		'S': time.Second,
		'm': time.Millisecond,
		'u': time.Microsecond,
		'n': time.Nanosecond,
	}
	if err != nil {
		return 0
	}
	return time.Duration(n) * units[text[len(text)-1]]
}

// mirrorClusters returns the clusters that receive copies of the request, with their shares and
// endpoints, and adds a step for each. The share is the default value of the mirror's fraction, or
// 1. A mirror whose cluster is missing or unsupported has no endpoints.
func (x *exchange) mirrorClusters(a *routev3.RouteAction) []Mirror {
	var out []Mirror
	for _, m := range a.GetRequestMirrorPolicies() {
		share := 1.0
		if m.GetRuntimeFraction() != nil {
			share = fractionOf(m.GetRuntimeFraction().GetDefaultValue())
		}
		x.addStep(
			Step{
				Stage:    StageMirror,
				Resource: m.GetCluster(),
				Decided:  formatPercent(share) + " of requests are mirrored there",
				By:       x.routeObjects(x.routed.route),
			},
		)
		mirror := Mirror{Cluster: m.GetCluster(), Share: share}
		if t, _ := x.resolveCluster(m.GetCluster()); t != nil {
			mirror.Endpoints = t.endpoints
		}
		out = append(out, mirror)
	}
	return out
}
