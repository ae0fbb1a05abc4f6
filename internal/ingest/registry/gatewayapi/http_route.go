package gatewayapi

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/config"
)

// routeReader converts one route.
type routeReader struct {
	converter *Converter
	object    *config.Config
	// inMesh is set if it is converted for parents that are Services or ServiceEntries.
	inMesh bool
	// refs are the objects that the route refers to.
	refs []config.Key
	// resolved is the first failed reference. wrong is the number of rules with a value that is not
	// supported, and supported the first of them. partial is the number of rules that are wrong for
	// some of their matches or backends only.
	resolved, supported verdict
	wrong, partial      int
	// unresolved are all failed references, and ignored all values without effect.
	unresolved, ignored []verdict

	http  []*networking.HTTPRoute
	extra []config.HTTPExtension
	tcp   []*networking.TCPRoute
	tls   []*networking.TLSRoute
}

// resolve records the verdict about a reference in r.resolved, which keeps the first failure, and
// each distinct failure in r.unresolved.
func (r *routeReader) resolve(v verdict) {
	r.resolved.worse(v)
	if !v.ok() && !slices.Contains(r.unresolved, v) {
		r.unresolved = append(r.unresolved, v)
	}
}

// httpRule is a rule of an HTTPRoute or GRPCRoute.
type httpRule struct {
	field, name string
	index       int
	matches     []httpMatch
	filters     filters
	backends    []gatewayv1.HTTPBackendRef
	timeouts    *gatewayv1.HTTPRouteTimeouts
	retry       *gatewayv1.HTTPRouteRetry
	session     *gatewayv1.SessionPersistence
	// verdict is the first value that is not supported. failure is the status of answers to
	// requests that cannot be forwarded.
	verdict verdict
	failure uint32
	// wrongBackend is set if a backend has filters that are not supported.
	wrongBackend bool
}

// readHTTPRoute adds the routes of an HTTPRoute's rules to r (addRule). A rule without matches
// matches all requests. Requests that cannot be forwarded are answered with 500. A backend timeout
// without effect, because retry.attempts is 0, is added to r.ignored.
func (r *routeReader) readHTTPRoute(spec *gatewayv1.HTTPRouteSpec) {
	for i, rule := range spec.Rules {
		x := httpRule{
			field:    fmt.Sprintf("spec.rules[%d]", i),
			name:     ruleName(r.object, i, rule.Name),
			index:    i,
			backends: rule.BackendRefs,
			timeouts: rule.Timeouts,
			retry:    rule.Retry,
			session:  rule.SessionPersistence,
			failure:  500,
		}
		x.filters = r.convertFilters(x.field, rule.Filters)
		matches := rule.Matches
		if len(matches) == 0 {
			matches = []gatewayv1.HTTPRouteMatch{{}}
		}
		for j, m := range matches {
			converted, v := convertMatch(fmt.Sprintf("%s.matches[%d]", x.field, j), m)
			x.verdict.worse(v)
			x.matches = append(x.matches, converted)
		}
		r.addRule(x)
		if t := rule.Timeouts; t != nil && t.BackendRequest != nil && x.retries() == 0 {
			r.ignored = append(r.ignored, verdict{
				message: x.field + ".timeouts.backendRequest: has no effect: it limits each try, and retry.attempts is 0",
			})
		}
	}
}

// addRule appends a route for each match of a rule to r.http and r.extra. A rule with an
// unsupported value, or a blocking filter, answers its requests with x.failure; if the value is not
// supported for some matches only, the routes of the others forward. It has no route if a match
// itself is not supported. An unsupported value increments r.wrong, and fails r.supported. It also
// increments r.partial if some match is supported and, with an unsupported backend, another can be
// used.
func (r *routeReader) addRule(x httpRule) {
	r.resolve(x.filters.resolved)
	matchable := x.verdict
	x.verdict.worse(x.filters.supported)
	destinations, backends, invalid := r.destinations(&x)
	session, fault := r.newSession(&x, destinations)
	x.verdict.worse(fault)
	supported, usable := x.verdict, false
	for j, m := range x.matches {
		to := &networking.HTTPRoute{
			Name:    x.name,
			Match:   []*networking.HTTPMatchRequest{m.match},
			Headers: x.filters.headers,
		}
		extra := config.HTTPExtension{
			Order:        m.rank.text(r.object, x.index, j),
			PathElements: m.elements,
			CORS:         x.filters.cors,
			Authorizer:   x.filters.authorizer,
			Backends:     backends,
		}
		v := x.verdict
		if x.filters.redirect != nil {
			v.worse(setRedirect(to, &extra, x.filters.redirect, m, x.field))
		} else {
			v.worse(r.forward(to, &extra, &x, m, destinations, invalid))
		}
		supported.worse(v)
		usable = usable || v.ok()
		if !v.ok() || x.filters.blocked {
			to = &networking.HTTPRoute{
				Name:           x.name,
				Match:          to.Match,
				DirectResponse: &networking.HTTPDirectResponse{Status: x.failure},
			}
			extra = config.HTTPExtension{Order: extra.Order, PathElements: extra.PathElements}
		}
		if matchable.ok() {
			if v.ok() && !x.filters.blocked && session != nil && len(to.Route) > 0 {
				r.addSession(to, &extra, session)
			}
			r.http, r.extra = append(r.http, to), append(r.extra, extra)
		}
	}
	if !supported.ok() || x.wrongBackend {
		r.wrong++
		if usable && (!x.wrongBackend || len(destinations) > 0) {
			r.partial++
		}
		r.supported.worse(supported)
	}
}

// forward sets the action of a route to forward to the destinations, with the rule's rewrite,
// mirrors, timeouts and retries. If there are none or their weights are all 0, requests are
// answered with x.failure, and so is the share of the weight invalid otherwise. The verdict fails
// for unsupported rewrites and timeouts.
func (r *routeReader) forward(
	to *networking.HTTPRoute,
	extra *config.HTTPExtension,
	x *httpRule,
	m httpMatch,
	destinations []*networking.HTTPRouteDestination,
	invalid uint32,
) verdict {
	total := uint32(0)
	for _, d := range destinations {
		total += uint32(d.GetWeight()) //nolint:gosec // not negative
	}
	if total == 0 {
		to.DirectResponse = &networking.HTTPDirectResponse{Status: x.failure}
		return verdict{}
	}
	to.Route, to.Mirrors = destinations, x.filters.mirrors
	extra.InvalidWeight = invalid
	if invalid > 0 {
		extra.InvalidStatus = x.failure
	}
	v := setRewrite(to, x.filters.rewrite, m, x.field)
	v.worse(setTimeouts(to, x))
	return v
}

// Retries of a rule with a retry policy.
const (
	// retryConditions are the failures that are always retried: of connections, of requests that
	// ended without a response, and the gRPC statuses that Istio retries.
	retryConditions = "connect-failure,refused-stream,reset,unavailable,cancelled"
	defaultAttempts = 2
)

// retries returns the number of retries of a rule's retry policy, by default defaultAttempts, or -1
// if the rule has no policy.
func (x *httpRule) retries() int {
	switch {
	case x.retry == nil:
		return -1
	case x.retry.Attempts == nil:
		return defaultAttempts
	default:
		return *x.retry.Attempts
	}
}

// setTimeouts sets the timeout and retries of a forwarding route. With retries the backend's
// timeout is that of each try. Without a retry policy, it is that of the request if the request has
// none or a longer one. With 0 retries it has no effect, as in Istio. The verdict fails for invalid
// durations, which are left out.
func setTimeouts(to *networking.HTTPRoute, x *httpRule) verdict {
	var request, backend *durationpb.Duration
	var v verdict
	if x.timeouts != nil {
		request = readDuration(x.timeouts.Request, x.field+".timeouts.request", &v)
		backend = readDuration(x.timeouts.BackendRequest, x.field+".timeouts.backendRequest", &v)
	}
	to.Timeout = request
	if x.retry == nil {
		if request.AsDuration() == 0 || backend.AsDuration() > 0 && backend.AsDuration() < request.AsDuration() {
			if backend.AsDuration() > 0 {
				to.Timeout = backend
			}
		}
		return v
	}
	attempts := x.retries()
	to.Retries = &networking.HTTPRetry{Attempts: int32(attempts)} //nolint:gosec // small
	if attempts == 0 {
		return v
	}
	on := []string{retryConditions}
	for _, code := range x.retry.Codes {
		on = append(on, strconv.Itoa(int(code)))
	}
	to.Retries.RetryOn = strings.Join(on, ",")
	to.Retries.Backoff = readDuration(x.retry.Backoff, x.field+".retry.backoff", &v)
	if backend.AsDuration() > 0 {
		to.Retries.PerTryTimeout = backend
	}
	return v
}

// readDuration returns a parsed duration, or nil if d is nil. For an invalid or negative one it
// returns nil and fails v.
func readDuration(d *gatewayv1.Duration, field string, v *verdict) *durationpb.Duration {
	if d == nil {
		return nil
	}
	parsed, err := time.ParseDuration(string(*d))
	if err != nil || parsed < 0 {
		v.worse(unsupported("%s: %q is not a duration", field, *d))
		return nil
	}
	return durationpb.New(parsed)
}
