package patch

import (
	"slices"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	networking "istio.io/api/networking/v1alpha3"

	"google.golang.org/protobuf/proto"
)

// hostOutcome is the result of patching a virtual host.
type hostOutcome struct {
	body    []byte // nil if it was removed
	tallies tallies
}

// hostWork is a virtual host being patched.
type hostWork struct {
	tallies
	list   *list
	active []bool // if nil, all are active
	host   *routev3.VirtualHost
}

// patchHost applies the patches of l to an encoded VirtualHost, and then to its routes; if active
// is not nil, only the patches for which it is true. Patches that add virtual hosts are ignored.
// The outcome has no body if the VirtualHost is removed. Its tallies have the patches that matched,
// had an effect or failed. A VirtualHost that cannot be decoded or encoded is unchanged.
func patchHost(body []byte, l *list, active []bool) *hostOutcome {
	w := &hostWork{tallies: make(tallies, len(l.patches)), list: l, active: active, host: new(routev3.VirtualHost)}
	if err := proto.Unmarshal(body, w.host); err != nil {
		return &hostOutcome{body: body, tallies: w.tallies}
	}
	for i, p := range w.patchesOf(networking.EnvoyFilter_VIRTUAL_HOST) {
		w.recordDepth(i, matchedResource)
		value, _ := p.value.(*routev3.VirtualHost)
		switch {
		case p.adds() || !p.matchesHost(w.host):
			continue
		case p.removes():
			w.recordEffects(i, 1)
			return &hostOutcome{tallies: w.tallies}
		case value == nil:
			continue
		case p.merges():
			next, err := mergeMessage(w.host, p)
			if err != nil {
				w.fail(i, err)
				continue
			}
			w.host = next
		default: // REPLACE
			w.host = proto.CloneOf(value)
		}
		w.recordEffects(i, 1)
	}
	w.patchRoutes()
	if !w.hasEffect() {
		return &hostOutcome{body: body, tallies: w.tallies}
	}
	next, err := proto.MarshalOptions{Deterministic: true}.Marshal(w.host)
	if err != nil {
		return &hostOutcome{body: body, tallies: make(tallies, len(l.patches))}
	}
	return &hostOutcome{body: next, tallies: w.tallies}
}

// patchesOf iterates over the active patches of type a, with their indexes in the list.
func (w *hostWork) patchesOf(a applyTo) func(yield func(int, *patch) bool) {
	return func(yield func(int, *patch) bool) {
		for i, p := range w.list.patches {
			if p.applyTo == a && (w.active == nil || w.active[i]) && !yield(i, p) {
				return
			}
		}
	}
}

// patchRoutes applies HTTP_ROUTE patches to w.host. Merges and removals come first, so that added
// routes are not modified. It does nothing for a virtual host with a matcher, because Envoy refuses
// routes beside it. Failures are recorded.
func (w *hostWork) patchRoutes() {
	if w.host.GetMatcher() != nil {
		return
	}
	for i, p := range w.patchesOf(networking.EnvoyFilter_HTTP_ROUTE) {
		w.recordDepth(i, matchedResource)
		if !p.matchesHost(w.host) {
			continue
		}
		w.recordDepth(i, matchedVirtualHost)
		switch {
		case p.removes():
			var n int
			w.host.Routes, n = editList(w.host.Routes, p, p.matchesRoute)
			w.recordEffects(i, n)
		case p.merges():
			w.mergeRoutes(i, p)
		}
	}
	for i, p := range w.patchesOf(networking.EnvoyFilter_HTTP_ROUTE) {
		if p.removes() || p.merges() || !p.matchesHost(w.host) {
			continue
		}
		var n int
		w.host.Routes, n = editList(w.host.Routes, p, p.matchesRoute)
		w.recordEffects(i, n)
	}
}

// mergeRoutes merges patch p, with index i, into each route of w.host that it matches. A route for
// which that fails is unchanged, and the failure recorded. It does nothing if the value of p is not
// a route.
func (w *hostWork) mergeRoutes(i int, p *patch) {
	if _, ok := p.value.(*routev3.Route); !ok {
		return
	}
	for at, r := range w.host.GetRoutes() {
		if !p.matchesRoute(r) {
			continue
		}
		next, err := mergeMessage(r, p)
		if err != nil {
			w.fail(i, err)
			continue
		}
		w.host.Routes[at] = next
		w.recordEffects(i, 1)
	}
}

// matchesHost reports whether the patch's match, which must include the RouteConfiguration, also
// includes the virtual host: by name, and by one of its domains. Conditions that are not set match
// any virtual host; a domain is compared literally.
func (p *patch) matchesHost(h *routev3.VirtualHost) bool {
	m := p.route.GetVhost()
	return (m.GetName() == "" || m.GetName() == h.GetName()) &&
		(m.GetDomainName() == "" || slices.Contains(h.GetDomains(), m.GetDomainName()))
}

// matchesRoute reports whether the patch's match, which must include the virtual host, also
// includes the route: by name and kind of action. An unset name or kind matches any route.
func (p *patch) matchesRoute(r *routev3.Route) bool {
	m := p.route.GetVhost().GetRoute()
	if m.GetName() != "" && m.GetName() != r.GetName() {
		return false
	}
	switch m.GetAction() {
	case networking.EnvoyFilter_RouteConfigurationMatch_RouteMatch_ROUTE:
		return r.GetRoute() != nil
	case networking.EnvoyFilter_RouteConfigurationMatch_RouteMatch_REDIRECT:
		return r.GetRedirect() != nil
	case networking.EnvoyFilter_RouteConfigurationMatch_RouteMatch_DIRECT_RESPONSE:
		return r.GetDirectResponse() != nil
	default:
		return true
	}
}
