package xdsdump

import (
	"slices"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/translate"
	"github.com/meshpilot/meshpilot/test/support/envoy"
	"github.com/meshpilot/meshpilot/test/support/golden"
)

// AllResources returns the clusters, listeners, endpoints, extensions and routes of a View, in this order. A
// name that a listener requests and no generator produces fails the test; a route configuration may
// be none.
func AllResources(t testing.TB, table *translate.Table, v *view.View) []*resource.Resource {
	t.Helper()
	clusters, listeners := allOfType(table, v, api.ClusterType), allOfType(table, v, api.ListenerType)
	list := slices.Concat(clusters, listeners)
	for _, r := range clusters {
		if name := assignmentName(golden.Decode(t, r).(*clusterv3.Cluster)); name != "" {
			if r := namedResource(table, v, api.EndpointType, name); r != nil {
				list = append(list, r)
			}
		}
	}
	var extensions, routes []string
	for _, r := range listeners {
		e, s := referencedNames(t, golden.Decode(t, r).(*listenerv3.Listener))
		extensions, routes = append(extensions, e...), append(routes, s...)
	}
	for _, name := range distinctNames(extensions) {
		r := namedResource(table, v, api.ExtensionType, name)
		if r == nil {
			t.Fatalf("a listener refers to the extension %q, which does not exist", name)
		}
		list = append(list, r)
	}
	for _, name := range distinctNames(routes) {
		if r := namedResource(table, v, api.RouteType, name); r != nil {
			list = append(list, r)
		}
	}
	return list
}

// ConfigOf returns the result of All as one configuration, with extensions inlined.
func ConfigOf(t testing.TB, list []*resource.Resource) envoy.Config {
	t.Helper()
	extensions := map[string]*anypb.Any{}
	rest := slices.DeleteFunc(slices.Clone(list), func(r *resource.Resource) bool {
		if r.TypeURL != api.ExtensionType {
			return false
		}
		extensions[r.Name] = golden.Decode(t, r).(*corev3.TypedExtensionConfig).GetTypedConfig()
		return true
	})
	c := envoy.FromResources(t, rest...)
	for _, l := range c.Listeners {
		for f := range allFilters(l) {
			if f.GetConfigDiscovery() != nil {
				f.ConfigType = &listenerv3.Filter_TypedConfig{TypedConfig: extensions[f.Name]}
			} else {
				putInside(t, f, extensions)
			}
		}
	}
	return c
}

// putInside replaces the HTTP filters of a connection manager that refer to extensions by these
// extensions.
func putInside(t testing.TB, f *listenerv3.Filter, extensions map[string]*anypb.Any) {
	t.Helper()
	m := connectionManager(t, f)
	if m == nil {
		return
	}
	for _, h := range m.HttpFilters {
		if h.GetConfigDiscovery() != nil {
			h.ConfigType = &hcmv3.HttpFilter_TypedConfig{TypedConfig: extensions[h.Name]}
		}
	}
	if err := f.GetTypedConfig().MarshalFrom(m); err != nil {
		t.Fatal(err)
	}
}

// connectionManager decodes a connection manager. It returns nil for another filter.
func connectionManager(t testing.TB, f *listenerv3.Filter) *hcmv3.HttpConnectionManager {
	t.Helper()
	m := new(hcmv3.HttpConnectionManager)
	if !f.GetTypedConfig().MessageIs(m) {
		return nil
	}
	if err := f.GetTypedConfig().UnmarshalTo(m); err != nil {
		t.Fatal(err)
	}
	return m
}

func allOfType(table *translate.Table, v *view.View, typeURL string) []*resource.Resource {
	var list []*resource.Resource
	for _, g := range table.Generators {
		if g.TypeURL == typeURL && g.All != nil {
			list = append(list, g.All(v)...)
		}
	}
	return list
}

func namedResource(table *translate.Table, v *view.View, typeURL, name string) *resource.Resource {
	for _, g := range table.Generators {
		if g.TypeURL == typeURL && g.Named != nil {
			if r := g.Named(v, name); r != nil {
				return r
			}
		}
	}
	return nil
}

// assignmentName returns the name of a cluster's endpoints in EDS, or "" if the cluster does not
// use EDS.
func assignmentName(c *clusterv3.Cluster) string {
	switch {
	case c.GetType() != clusterv3.Cluster_EDS:
		return ""
	case c.GetEdsClusterConfig().GetServiceName() != "":
		return c.GetEdsClusterConfig().GetServiceName()
	default:
		return c.GetName()
	}
}

// referencedNames returns the extensions and route configurations that a listener refers to.
func referencedNames(t testing.TB, l *listenerv3.Listener) (extensions, routes []string) {
	t.Helper()
	for f := range allFilters(l) {
		if f.GetConfigDiscovery() != nil {
			extensions = append(extensions, f.Name)
		}
		m := connectionManager(t, f)
		if name := m.GetRds().GetRouteConfigName(); name != "" {
			routes = append(routes, name)
		}
		for _, h := range m.GetHttpFilters() {
			if h.GetConfigDiscovery() != nil {
				extensions = append(extensions, h.Name)
			}
		}
	}
	return extensions, routes
}

func allFilters(l *listenerv3.Listener) func(yield func(*listenerv3.Filter) bool) {
	return func(yield func(*listenerv3.Filter) bool) {
		for _, chain := range append(slices.Clone(l.GetFilterChains()), l.GetDefaultFilterChain()) {
			for _, f := range chain.GetFilters() {
				if !yield(f) {
					return
				}
			}
		}
	}
}

func distinctNames(names []string) []string {
	slices.Sort(names)
	return slices.Compact(names)
}
