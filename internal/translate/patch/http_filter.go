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

// connectionManagers gives the filters with what is inside HTTP connection managers patched: HTTP filters, and routes that
// do not come by RDS.
func (w *listenerWork) connectionManagers(c *listenerv3.FilterChain, filters []*listenerv3.Filter) []*listenerv3.Filter {
	next := filters
	for at, f := range filters {
		if f.GetTypedConfig().MessageName() != connectionManager {
			continue
		}
		patched, err := w.connectionManager(c, f)
		if err != nil {
			for i := range w.of(networking.EnvoyFilter_HTTP_FILTER) {
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

// connectionManager gives a copy of the filter as patched, or the filter if nothing was changed.
func (w *listenerWork) connectionManager(c *listenerv3.FilterChain, f *listenerv3.Filter) (*listenerv3.Filter, error) {
	m := new(hcmv3.HttpConnectionManager)
	if err := f.GetTypedConfig().UnmarshalTo(m); err != nil {
		return nil, fmt.Errorf("decode %q: %w", f.GetName(), plain(err))
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
	typed, err := packed(m)
	if err != nil {
		return nil, err
	}
	next := proto.CloneOf(f)
	next.ConfigType = &listenerv3.Filter_TypedConfig{TypedConfig: typed}
	return next, nil
}

// httpFilters gives the filters of the connection manager of that name as patched by HTTP_FILTER.
func (w *listenerWork) httpFilters(c *listenerv3.FilterChain, manager string, filters []*hcmv3.HttpFilter) ([]*hcmv3.HttpFilter, bool) {
	f := filterList[*hcmv3.HttpFilter]{
		work: w, applyTo: networking.EnvoyFilter_HTTP_FILTER, classes: httpClasses(), terminal: isRouter,
		matches: func(i int, p *patch) bool {
			w.reach(i, matchedResource)
			if !p.matchesChain(w.listener.GetName(), c) {
				return false
			}
			w.reach(i, matchedChain)
			if n := p.networkFilter(); n != "" && n != manager {
				return false
			}
			w.reach(i, matchedNetworkFilter)
			return true
		},
	}
	return f.patched(filters)
}

// isRouter says whether an HTTP filter is the one that must be the last of its list. There are others, seldom used.
func isRouter(typed *anypb.Any) bool {
	return typed.MessageName() == "envoy.extensions.filters.http.router.v3.Router"
}
