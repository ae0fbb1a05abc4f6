package explain

import (
	"net/http"
	"strings"

	corsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/cors/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
)

// corsFilter evaluates the CORS filter if there is a policy (perRoute), the request has an Origin
// header and the filter's fraction is not 0. It returns the answer to a preflight request, unless
// its origin is not allowed and such preflights are forwarded (the default). Otherwise it returns
// nil, and sets x.cors, the changes of the response, if the origin is allowed. It adds a step for
// each result and for unsupported configuration.
func (x *exchange) corsFilter(f *hcmv3.HttpFilter) *Ending {
	packed := x.perRoute(f.GetName())
	if packed == nil {
		return nil
	}
	p, ok := unpackAny(packed, new(corsv3.CorsPolicy))
	if !ok {
		x.addNote(StageUnsupported, f.GetName(), "its configuration %s is not supported", packed.GetTypeUrl())
		return nil
	}
	origin, there := x.request.headerValue("origin")
	if !there || origin == "" ||
		p.GetFilterEnabled() != nil && fractionOf(p.GetFilterEnabled().GetDefaultValue()) == 0 {
		return nil
	}
	allowed := false
	for _, m := range p.GetAllowOriginStringMatch() {
		ok, err := stringMatches(m, origin)
		if err != nil {
			x.addNote(StageUnsupported, f.GetName(), "%v", err)
		}
		allowed = allowed || ok
	}
	wanted, preflight := x.request.headerValue("access-control-request-method")
	preflight = preflight && wanted != "" && x.request.Method == http.MethodOptions
	switch {
	case preflight && (allowed || !p.GetForwardNotMatchingPreflights().GetValue() &&
		p.GetForwardNotMatchingPreflights() != nil):
		x.addCORSStep(f.GetName(), origin, allowed, "answers the preflight")
		return x.preflightEnding(p, origin, allowed)
	case allowed:
		x.addCORSStep(f.GetName(), origin, allowed, "says so in the response")
		x.cors = corsChanges(p, origin)
	default:
		x.addCORSStep(f.GetName(), origin, allowed, "lets the request pass")
	}
	return nil
}

// addCORSStep adds a step of the CORS filter name: whether it allows the origin, and what it does.
func (x *exchange) addCORSStep(name, origin string, allowed bool, decided string) {
	text := "origin " + origin + " is not allowed"
	if allowed {
		text = "origin " + origin + " is allowed"
	}
	x.addStep(
		Step{Stage: StageFilter, Resource: name, Matched: text, Decided: decided, By: x.routeObjects(x.routed.route)},
	)
}

// preflightEnding returns the answer 200 to a preflight request. It has the headers of the policy,
// except empty ones, only if the origin is allowed.
func (x *exchange) preflightEnding(p *corsv3.CorsPolicy, origin string, allowed bool) *Ending {
	e := &Ending{Share: 1, Kind: Answered, Status: http.StatusOK, Reason: "CORS preflight"}
	if !allowed {
		return e
	}
	e.Header = []Header{{"access-control-allow-origin", origin}}
	for _, h := range []Header{
		{"access-control-allow-methods", p.GetAllowMethods()}, {"access-control-allow-headers", p.GetAllowHeaders()},
		{"access-control-max-age", p.GetMaxAge()}, {"access-control-expose-headers", p.GetExposeHeaders()},
	} {
		if h.Value != "" {
			e.Header = append(e.Header, h)
		}
	}
	if p.GetAllowCredentials().GetValue() {
		e.Header = append(e.Header, Header{"access-control-allow-credentials", "true"})
	}
	return e
}

// corsChanges returns the header changes of the response to a request of an allowed origin that is
// not a preflight request. They are the origin, credentials and exposed headers, if allowed.
func corsChanges(p *corsv3.CorsPolicy, origin string) []HeaderChange {
	out := []HeaderChange{{"set", "access-control-allow-origin", origin}}
	if p.GetAllowCredentials().GetValue() {
		out = append(out, HeaderChange{"set", "access-control-allow-credentials", "true"})
	}
	if e := strings.TrimSpace(p.GetExposeHeaders()); e != "" {
		out = append(out, HeaderChange{"set", "access-control-expose-headers", e})
	}
	return out
}
