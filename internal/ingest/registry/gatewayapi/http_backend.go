package gatewayapi

import (
	"fmt"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/config"
)

// destinations returns the usable destinations of a rule with their weights, the filters of each
// other than header modifiers (nil if none has any), and the total weight of the unusable backends.
// Verdicts about backends and their filters go to r.resolved and r.supported. Filters of the only
// backend are added to the rule's filters. A backend with unsupported filters sets x.wrongBackend.
func (r *routeReader) destinations(
	x *httpRule,
) (list []*networking.HTTPRouteDestination, backends []config.BackendFilters, invalid uint32) {
	filtered := false
	for i, b := range x.backends {
		at := fmt.Sprintf("%s.backendRefs[%d]", x.field, i)
		weight := weightOf(b.Weight)
		f := r.convertFilters(at, b.Filters)
		var to *networking.Destination
		var picker *config.EndpointPicker
		if isPool(b.BackendObjectReference) {
			to, picker = r.poolBackend(at, b.BackendObjectReference, &f.supported)
		} else {
			var v verdict
			to, v = r.backend(at, b.BackendObjectReference)
			r.resolve(v)
		}
		r.resolve(f.resolved)
		if to != nil && len(x.backends) == 1 {
			x.filters.addBackend(at, &f)
		} else {
			f.checkBackend(at)
		}
		if !f.supported.ok() {
			r.supported.worse(f.supported)
			x.wrongBackend = true
			to = nil
		}
		if to == nil || f.blocked {
			invalid += weight
			continue
		}
		list = append(list, &networking.HTTPRouteDestination{
			Destination: to,
			Weight:      int32(weight), //nolint:gosec // limited by the API
			Headers:     f.headers,
		})
		backends = append(backends, config.BackendFilters{CORS: f.cors, Authorizer: f.authorizer, Picker: picker})
		filtered = filtered || f.cors != nil || f.authorizer != nil || picker != nil
	}
	if !filtered {
		backends = nil
	}
	return list, backends, invalid
}

// addBackend moves the filters o of a rule's only backend to the rule's filters, except header
// modifiers, which apply after the rule's header modifiers. If both have a redirect or rewrite, or
// both an ExternalAuth, it fails o.supported and moves nothing. A CORS filter replaces the rule's.
// Mirrors are added to the rule's mirrors, and a blocking filter blocks the rule.
func (f *filters) addBackend(at string, o *filters) {
	switch {
	case o.redirect != nil && (f.redirect != nil || f.rewrite != nil),
		o.rewrite != nil && (f.redirect != nil || f.rewrite != nil):
		o.supported.worse(unsupported("%s.filters: the rule has a RequestRedirect or URLRewrite, too", at))
		return
	case o.authorizer != nil && f.authorizer != nil:
		o.supported.worse(unsupported("%s.filters: the rule has an ExternalAuth, too", at))
		return
	}
	if o.redirect != nil {
		f.redirect = o.redirect
	}
	if o.rewrite != nil {
		f.rewrite = o.rewrite
	}
	if o.cors != nil {
		f.cors = o.cors
	}
	if o.authorizer != nil {
		f.authorizer = o.authorizer
	}
	f.mirrors, f.blocked = append(f.mirrors, o.mirrors...), f.blocked || o.blocked
	o.cors, o.authorizer, o.blocked = nil, nil, false
}

// checkBackend fails f.supported if one of several backends has a redirect, a mirror or a rewrite
// of the path, because Envoy has these only by route. A rewrite of the hostname becomes a header
// operation.
func (f *filters) checkBackend(at string) {
	switch {
	case f.redirect != nil, len(f.mirrors) > 0, f.rewrite != nil && f.rewrite.Path != nil:
		f.supported.worse(unsupported(
			"%s.filters: redirects, mirrors and rewrites of paths are supported only if the rule has one backend", at))
	case f.rewrite != nil && f.rewrite.Hostname != nil:
		f.headers = withHeaders(f.headers)
		if f.headers.Request == nil {
			f.headers.Request = new(networking.Headers_HeaderOperations)
		}
		if f.headers.Request.Set == nil {
			f.headers.Request.Set = map[string]string{}
		}
		f.headers.Request.Set["host"] = string(*f.rewrite.Hostname)
	}
}
