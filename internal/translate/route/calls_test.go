package route

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/proto"

	"github.com/meshpilot/meshpilot/internal/diagnostics/explain"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/test/support/golden"
)

// call is one line of "calls".
type call struct {
	text, route string
	request     *explain.Request
}

func calls(t testing.TB, c *golden.Case) []call {
	t.Helper()
	var list []call
	for line := range strings.Lines(string(c.Input("calls"))) {
		text, _, _ := strings.Cut(line, "=>")
		words := strings.Fields(text)
		if len(words) < 3 {
			t.Fatalf("call %q: want NAME METHOD URL [HEADER=VALUE]", text)
		}
		var headers []string
		for _, w := range words[3:] {
			headers = append(headers, strings.Replace(w, "=", ":", 1))
		}
		r, err := explain.ParseRequest(words[1]+" "+words[2], headers...)
		if err != nil {
			t.Fatalf("call %q: %v", text, err)
		}
		list = append(list, call{strings.TrimSpace(text), words[0], r})
	}
	return list
}

// answer describes in one line how the request is routed: "virtual host, route: action".
func (c call) answer(t testing.TB, named func(string) *routev3.RouteConfiguration) string {
	t.Helper()
	config := named(c.route)
	if config == nil {
		t.Fatalf("call %q: no such route", c.text)
	}
	place := c.place(t, config)
	if place == nowhere {
		return "404, no virtual host"
	}
	for _, vh := range config.GetVirtualHosts() {
		for i, r := range vh.GetRoutes() {
			if place == placeOf(vh, i) {
				name := r.GetName()
				if name == "" {
					name = fmt.Sprintf("#%d", i)
				}
				return vh.GetName() + ", " + name + ": " + action(r)
			}
		}
		if place == placeOf(vh, len(vh.GetRoutes())) {
			return "404, no route in " + vh.GetName()
		}
	}
	t.Fatalf("call %q: the answer is %s", c.text, place)
	return ""
}

// place finds the route that takes the request, by its place.
func (c call) place(t testing.TB, config *routev3.RouteConfiguration) string {
	t.Helper()
	const at = "/socket"
	l, err := resource.Encode(at, api.ListenerType, answering(at, config))
	if err != nil {
		t.Fatal(err)
	}
	// With HTTP/2 the client sends the scheme; with HTTP/1.1 it is that of the connection.
	path, err := explain.Explain(&explain.Resources{Listeners: []*resource.Resource{l}},
		explain.Call{Direction: explain.Direct, Socket: at, Carries: explain.HTTP2, Request: c.request})
	if err != nil {
		t.Fatalf("call %q: %v", c.text, err)
	}
	if !path.Supported() || len(path.Endings) != 1 {
		t.Fatalf("call %q: %+v", c.text, path)
	}
	for _, h := range path.Endings[0].Response {
		if h.Name == placeHeader {
			return h.Value
		}
	}
	return fmt.Sprint(path.Endings[0].Status)
}

const (
	placeHeader = "x-place"
	// nowhere is the position of requests that no virtual host matches.
	nowhere = "404"
)

// placeOf returns the position that an answering route reports. The position after the last route
// is that of requests that no route matches.
func placeOf(vh *routev3.VirtualHost, i int) string { return fmt.Sprintf("%s #%d", vh.GetName(), i) }

// answering makes a listener on a socket whose routes answer with their place.
func answering(path string, c *routev3.RouteConfiguration) *listenerv3.Listener {
	c = proto.CloneOf(c)
	for _, vh := range c.GetVirtualHosts() {
		rest := &routev3.Route{Match: &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{}}}
		vh.Routes = append(vh.Routes, rest)
		for i, r := range vh.GetRoutes() {
			vh.Routes[i] = &routev3.Route{
				Match: r.Match,
				Action: &routev3.Route_DirectResponse{
					DirectResponse: &routev3.DirectResponseAction{Status: http.StatusOK},
				},
				ResponseHeadersToAdd: []*corev3.HeaderValueOption{
					{Header: &corev3.HeaderValue{Key: placeHeader, Value: placeOf(vh, i)}},
				},
			}
		}
	}
	hcm := resource.Pack(&hcmv3.HttpConnectionManager{
		StatPrefix:     "routes",
		RouteSpecifier: &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: c},
		HttpFilters: []*hcmv3.HttpFilter{{
			Name: "envoy.filters.http.router", ConfigType: &hcmv3.HttpFilter_TypedConfig{
				TypedConfig: resource.Pack(new(routerv3.Router)),
			},
		}},
	})
	return &listenerv3.Listener{
		Name:    path,
		Address: &corev3.Address{Address: &corev3.Address_Pipe{Pipe: &corev3.Pipe{Path: path}}},
		FilterChains: []*listenerv3.FilterChain{{Filters: []*listenerv3.Filter{{
			Name:       "envoy.filters.network.http_connection_manager",
			ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: hcm},
		}}}},
	}
}

// action describes the action of a route.
func action(r *routev3.Route) string {
	switch {
	case r.GetRedirect() != nil:
		return redirection(r.GetRedirect())
	case r.GetDirectResponse() != nil:
		return fmt.Sprintf("%d at once", r.GetDirectResponse().GetStatus())
	case r.GetRoute().GetWeightedClusters() != nil:
		var parts []string
		for _, c := range r.GetRoute().GetWeightedClusters().GetClusters() {
			parts = append(parts, fmt.Sprintf("%d %s", c.GetWeight().GetValue(), c.GetName()))
		}
		return strings.Join(parts, " + ")
	default:
		return r.GetRoute().GetCluster()
	}
}

func redirection(d *routev3.RedirectAction) string {
	var to []string
	for _, p := range []struct{ name, value string }{
		{"scheme", d.GetSchemeRedirect()}, {"host", d.GetHostRedirect()}, {"path", d.GetPathRedirect()}, {"prefix", d.GetPrefixRewrite()},
	} {
		if p.value != "" {
			to = append(to, p.name+" "+p.value)
		}
	}
	if d.GetPortRedirect() != 0 {
		to = append(to, fmt.Sprintf("port %d", d.GetPortRedirect()))
	}
	return d.GetResponseCode().String() + " to " + strings.Join(to, ", ")
}
