package patch

import (
	"fmt"
	"slices"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"

	networking "istio.io/api/networking/v1alpha3"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// patchConnectionManagers returns filters with patches applied inside HTTP connection managers: to
// HTTP filters, and to inline routes. A connection manager that cannot be decoded or encoded is
// unchanged, and all HTTP_FILTER patches fail. filters, which belong to the chain c, is not
// modified.
func (w *listenerWork) patchConnectionManagers(
	c *listenerv3.FilterChain,
	filters []*listenerv3.Filter,
) []*listenerv3.Filter {
	next := filters
	for at, f := range filters {
		if f.GetTypedConfig().MessageName() != connectionManager {
			continue
		}
		patched, err := w.patchConnectionManager(c, f)
		if err != nil {
			for i := range w.patchesOf(networking.EnvoyFilter_HTTP_FILTER) {
				w.fail(i, err)
			}
			continue
		}
		if patched != f {
			next = slices.Clone(next)
			next[at] = patched
		}
	}
	return next
}

// patchConnectionManager returns a patched copy of the filter, or the filter itself if no patch has
// an effect. It returns an error only if the filter cannot be decoded or encoded.
func (w *listenerWork) patchConnectionManager(
	c *listenerv3.FilterChain,
	f *listenerv3.Filter,
) (*listenerv3.Filter, error) {
	m := new(hcmv3.HttpConnectionManager)
	if err := f.GetTypedConfig().UnmarshalTo(m); err != nil {
		return nil, fmt.Errorf("decode %q: %w", f.GetName(), stableError(err))
	}
	var changed bool
	m.HttpFilters, changed = w.httpFilters(c, f.GetName(), m.GetHttpFilters())
	if routes := m.GetRouteConfig(); routes != nil {
		if next := w.inlineRoutes(routes); next != routes {
			m.RouteSpecifier = &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: next}
			changed = true
		}
	}
	if !changed {
		return f, nil
	}
	typed, err := pack(m)
	if err != nil {
		return nil, err
	}
	next := proto.CloneOf(f)
	next.ConfigType = &listenerv3.Filter_TypedConfig{TypedConfig: typed}
	return next, nil
}

// httpFilters returns the filters of the named connection manager with the HTTP_FILTER patches
// applied, and whether any had an effect. Matches, effects and failures are recorded in w.
func (w *listenerWork) httpFilters(
	c *listenerv3.FilterChain,
	manager string,
	filters []*hcmv3.HttpFilter,
) ([]*hcmv3.HttpFilter, bool) {
	f := filterList[*hcmv3.HttpFilter]{
		work: w, applyTo: networking.EnvoyFilter_HTTP_FILTER, classes: httpClasses(), terminal: isRouter,
		matches: func(i int, p *patch) bool {
			w.recordDepth(i, matchedResource)
			if !p.matchesChain(w.listener.GetName(), c) {
				return false
			}
			w.recordDepth(i, matchedChain)
			if n := p.networkFilter(); n != "" && n != manager {
				return false
			}
			w.recordDepth(i, matchedNetworkFilter)
			return true
		},
	}
	return f.apply(filters)
}

// isRouter reports whether an HTTP filter must be the last of its list. Other terminal filters are
// rare and not recognized. It goes by the type of its configuration.
func isRouter(typed *anypb.Any) bool {
	return typed.MessageName() == "envoy.extensions.filters.http.router.v3.Router"
}
