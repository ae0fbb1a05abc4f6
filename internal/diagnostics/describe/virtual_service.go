package describe

import (
	"fmt"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// VirtualService is an object with routes for a service, or to it.
type VirtualService struct {
	// Object is KIND/NAMESPACE/NAME; From has its delegates too.
	Object string   `json:"object"`
	From   []string `json:"from"`
	Hosts  []string `json:"hosts"`
	// Gateways are "mesh" or "namespace/name".
	Gateways []string `json:"gateways"`
	Routes   []Route  `json:"routes"`
}

// Route is a route of a VirtualService.
type Route struct {
	// Field is its path in the object, with the routes of delegates in place.
	Field string `json:"field"`
	Name  string `json:"name,omitempty"`
	// Match is what requests have to match; "" matches all.
	Match        string        `json:"match,omitempty"`
	Destinations []Destination `json:"destinations,omitempty"`
	// Action is redirect or directResponse, for a route without destinations.
	Action string `json:"action,omitempty"`
}

// Destination is a destination of a route.
type Destination struct {
	Host   string `json:"host"`
	Subset string `json:"subset,omitempty"`
	Port   uint32 `json:"port,omitempty"`
	Weight int32  `json:"weight,omitempty"`
}

// newVirtualService returns the description of vs, and reports whether it concerns svc: sidecars in
// the service's namespace see it with a host that covers the service's host, or a route has exactly
// that host as destination. It reports false for delegates.
func newVirtualService(vs *snapshot.VirtualService, svc *mesh.Service) (VirtualService, bool) {
	if len(vs.Hosts) == 0 {
		return VirtualService{}, false
	}
	x := VirtualService{Object: vs.Config.Key.String(), Gateways: vs.Gateways, Routes: routesOf(vs)}
	for _, k := range vs.From {
		x.From = append(x.From, k.String())
	}
	concerns := false
	for _, h := range vs.Hosts {
		x.Hosts = append(x.Hosts, string(h))
		concerns = concerns || slices.Contains(vs.Gateways, snapshot.MeshGateway) && h.Covers(svc.Host) &&
			vs.IsVisibleTo(svc.Namespace)
	}
	for _, r := range x.Routes {
		concerns = concerns || slices.ContainsFunc(r.Destinations,
			func(d Destination) bool { return d.Host == string(svc.Host) })
	}
	return x, concerns
}

// routesOf returns the HTTP, TLS and TCP routes of a VirtualService, in this order. Only HTTP
// routes have names and actions. Matches are texts: paths and field names of HTTP, server names of
// TLS, field names of TCP.
func routesOf(vs *snapshot.VirtualService) []Route {
	list := []Route{}
	for i, h := range vs.Spec.GetHttp() {
		r := Route{Field: fmt.Sprintf("http[%d]", i), Name: h.GetName(), Match: requestMatchText(h.GetMatch())}
		switch {
		case h.GetRedirect() != nil:
			r.Action = "redirect"
		case h.GetDirectResponse() != nil:
			r.Action = "directResponse"
		}
		for _, d := range h.GetRoute() {
			r.Destinations = append(r.Destinations, newDestination(vs, d.GetDestination(), d.GetWeight()))
		}
		list = append(list, r)
	}
	for i, t := range vs.Spec.GetTls() {
		r := Route{Field: fmt.Sprintf("tls[%d]", i)}
		var names []string
		for _, m := range t.GetMatch() {
			names = append(names, m.GetSniHosts()...)
		}
		r.Match = "server name " + strings.Join(names, ", ")
		for _, d := range t.GetRoute() {
			r.Destinations = append(r.Destinations, newDestination(vs, d.GetDestination(), d.GetWeight()))
		}
		list = append(list, r)
	}
	for i, t := range vs.Spec.GetTcp() {
		r := Route{Field: fmt.Sprintf("tcp[%d]", i)}
		var matches []string
		for _, m := range t.GetMatch() {
			matches = append(matches, strings.Join(setFields(m, ""), ", "))
		}
		r.Match = joinMatches(matches)
		for _, d := range t.GetRoute() {
			r.Destinations = append(r.Destinations, newDestination(vs, d.GetDestination(), d.GetWeight()))
		}
		list = append(list, r)
	}
	return list
}

// newDestination returns d with its host resolved to a full name in the namespace of vs.
func newDestination(vs *snapshot.VirtualService, d *networking.Destination, weight int32) Destination {
	return Destination{string(vs.ResolveHost(d.GetHost())), d.GetSubset(), d.GetPort().GetNumber(), weight}
}

// requestMatchText returns the paths of the matches of a route and the names of their other fields,
// with " or " between matches. It returns "" for a route that matches all requests.
func requestMatchText(list []*networking.HTTPMatchRequest) string {
	var matches []string
	for _, m := range list {
		var parts []string
		switch u := m.GetUri().GetMatchType().(type) {
		case *networking.StringMatch_Exact:
			parts = append(parts, u.Exact)
		case *networking.StringMatch_Prefix:
			parts = append(parts, u.Prefix+"*")
		case *networking.StringMatch_Regex:
			parts = append(parts, "regex "+u.Regex)
		}
		for _, name := range setFields(m, "uri") {
			if name != "name" && name != "ignoreUriCase" {
				parts = append(parts, name)
			}
		}
		matches = append(matches, strings.Join(parts, ", "))
	}
	return joinMatches(matches)
}

// joinMatches returns the texts of matches joined by " or ". It returns "" if one of them is empty,
// because a match without conditions matches all.
func joinMatches(matches []string) string {
	if slices.Contains(matches, "") {
		return ""
	}
	return strings.Join(matches, " or ")
}
