package diff

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/meshpilot/meshpilot/internal/diagnostics/explain"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
)

const (
	// maxCalls limits the calls that are followed for one group, maxCallGroups the groups.
	maxCalls      = 40
	maxCallGroups = 50
	// maxMatches limits the calls of one virtual host.
	maxMatches = 8
)

// changedCalls returns the calls of a group's first proxy that end elsewhere or otherwise after the
// change. It follows at most maxCalls calls that the changed resources imply: to services, as their
// routes match, and to the proxy's own ports (callPlanner). Calls through resources that cannot be
// decoded are left out.
func (c *comparison) changedCalls(g *group) []CallChange {
	before, after := c.before.keyOf(g.proxy), c.after.keyOf(g.proxy)
	old, now := c.before.resourcesOf(before), c.after.resourcesOf(after)
	planner := callPlanner{
		proxy: g.proxy, views: []*view.View{c.after.viewOf(after), c.before.viewOf(before)}, planned: map[string]bool{},
	}
	for _, d := range g.differences {
		planner.addDifference(d)
	}
	var list []CallChange
	for _, call := range planner.calls {
		x, err := explain.Explain(explainResources(old), call)
		if err != nil {
			continue // a resource that cannot be decoded is reported as such
		}
		y, err := explain.Explain(explainResources(now), call)
		if err != nil {
			continue
		}
		change := CallChange{Call: callText(call), Before: endingTexts(x), After: endingTexts(y)}
		if !slices.Equal(change.Before, change.After) {
			list = append(list, change)
		}
	}
	return list
}

// explainResources returns the resources in the form that package explain reads, with listeners
// sorted by name. Clusters are in no particular order.
func explainResources(r resources) *explain.Resources {
	x := &explain.Resources{Named: func(typeURL,
		name string) *resource.Resource {
		return r[resourceName{typeURL, name}]
	}}
	for n, one := range r {
		switch n.typeURL {
		case api.ListenerType:
			x.Listeners = append(x.Listeners, one)
		case api.ClusterType:
			x.Clusters = append(x.Clusters, one)
		}
	}
	slices.SortFunc(x.Listeners, func(a, b *resource.Resource) int { return strings.Compare(a.Name, b.Name) })
	return x
}

// callText returns a call in one line, with its headers as "-H 'NAME: VALUE'" and "as IDENTITY", if
// it has one. Quotes in values are not escaped.
func callText(call explain.Call) string {
	text := call.String()
	if call.Request != nil {
		for _, h := range call.Request.Header {
			text += fmt.Sprintf(" -H '%s: %s'", h.Name, h.Value)
		}
	}
	if call.Identity != "" {
		text += " as " + call.Identity
	}
	return text
}

// endingTexts returns the endings of a path in one line each, with their timeouts and mirrors.
// Retries are included; texts may be equal.
func endingTexts(p *explain.Path) []string {
	var list []string
	for _, e := range p.Endings {
		text := e.String()
		if e.Timeout > 0 {
			text += fmt.Sprintf(", timeout %s", e.Timeout)
		}
		if e.Retries != nil {
			text += fmt.Sprintf(", %d retries", e.Retries.Attempts)
		}
		for _, m := range e.Mirrors {
			text += fmt.Sprintf(", %.0f %% mirrored to %s", 100*m.Share, m.Cluster)
		}
		list = append(list, text)
	}
	return list
}

// callPlanner collects the calls that changed resources imply, without duplicates.
type callPlanner struct {
	proxy   *mesh.Proxy
	views   []*view.View // after and before the change
	calls   []explain.Call
	planned map[string]bool
}

// add adds a call unless it is planned already, or maxCalls are planned.
func (p *callPlanner) add(call explain.Call) {
	if text := callText(call); len(p.calls) < maxCalls && !p.planned[text] {
		p.planned[text] = true
		p.calls = append(p.calls, call)
	}
}

// addDifference adds the calls that one changed resource implies. Secrets, listeners other than
// virtualInbound, and the outbound clusters of gateways imply none. A route implies a call to each
// changed virtual host, a cluster or endpoints one to the service, inbound changes and extensions
// the inbound calls.
func (p *callPlanner) addDifference(d difference) {
	r := d.either()
	switch r.TypeURL {
	case api.RouteType:
		for _, h := range changedHosts(d) {
			p.addVirtualHost(r.Name, h)
		}
	case api.ClusterType, api.EndpointType:
		name, err := mesh.ParseClusterName(r.Name)
		switch {
		case err != nil:
		case name.Direction == mesh.Inbound:
			p.addInbound()
		case p.proxy.Type == mesh.SidecarProxy:
			p.addService(name.Host, name.Port, "/", nil)
		}
	case api.ListenerType:
		if r.Name == "virtualInbound" {
			p.addInbound()
		}
	case api.ExtensionType:
		p.addInbound()
	}
}

// changedHosts returns the virtual hosts of a route configuration that were added, removed or
// changed in a field: removed ones in the version before the change, others in the version after
// it. They are sorted by name.
func changedHosts(d difference) []*routev3.VirtualHost {
	read := func(r *resource.Resource) map[string]*routev3.VirtualHost {
		hosts := map[string]*routev3.VirtualHost{}
		if r == nil {
			return hosts
		}
		if c, ok := decodeBody(r).(*routev3.RouteConfiguration); ok {
			for _, h := range c.GetVirtualHosts() {
				hosts[h.GetName()] = h
			}
		}
		return hosts
	}
	before, after := read(d.before), read(d.after)
	changed := map[string]*routev3.VirtualHost{}
	for name, h := range before {
		if after[name] == nil {
			changed[name] = h
		}
	}
	for name, h := range after {
		if old := before[name]; old == nil || len(diffMessages(old.ProtoReflect(), h.ProtoReflect())) > 0 {
			changed[name] = h
		}
	}
	var list []*routev3.VirtualHost
	for _, name := range sortedKeys(changed) {
		list = append(list, changed[name])
	}
	return list
}

// addVirtualHost adds a call to a virtual host for each of its first maxMatches routes, with the
// path and headers of requestOf. For a gateway, the port is in routes, the name of the route
// configuration. For a sidecar, the name of the virtual host is the service's host and port; if
// there is no such service, no call is added.
func (p *callPlanner) addVirtualHost(routes string, h *routev3.VirtualHost) {
	host, portText, _ := strings.Cut(h.GetName(), ":")
	var port uint32
	_, _ = fmt.Sscan(portText, &port) // 0 is the port of no service
	for _, r := range h.GetRoutes()[:min(len(h.GetRoutes()), maxMatches)] {
		path, headers := requestOf(r.GetMatch())
		if p.proxy.Type == mesh.RouterProxy {
			p.addGatewayCall(routes, h, path, headers)
		} else {
			p.addService(mesh.Hostname(host), port, path, headers)
		}
	}
}

// requestOf returns a path and headers that a match accepts, as far as they are literal. The path
// is "/" if the match has no literal one. Query parameters, pseudo headers, and headers other than
// exact ones are ignored.
func requestOf(m *routev3.RouteMatch) (path string, headers []explain.Header) {
	path = "/"
	for _, literal := range []string{m.GetPath(), m.GetPathSeparatedPrefix(), m.GetPrefix()} {
		if literal != "" {
			path = literal
			break
		}
	}
	for _, h := range m.GetHeaders() {
		if value := h.GetStringMatch().GetExact(); value != "" && !strings.HasPrefix(h.GetName(), ":") {
			headers = append(headers, explain.Header{Name: h.GetName(), Value: value})
		}
	}
	return path, headers
}

// addService adds a call of a sidecar's application to a port of a service. It is a GET request
// with path and headers if the port is HTTP; if it is TLS, host is the server name. The service is
// that of the View after the change, or else of the one before. It does nothing if neither has the
// service with that port.
func (p *callPlanner) addService(host mesh.Hostname, number uint32, path string, headers []explain.Header) {
	for _, v := range p.views {
		svc := v.Service(host)
		if svc == nil {
			continue
		}
		port, ok := svc.Port(number)
		if !ok {
			continue
		}
		call := explain.Call{Direction: explain.Outbound, To: netip.AddrPortFrom(addressOf(v, svc), uint16(number))}
		if port.Protocol.IsHTTP() {
			call.Request = &explain.Request{
				Method: "GET", Scheme: "http", Authority: fmt.Sprintf("%s:%d", host, number), Path: path,
				Header: headers,
			}
		}
		if port.Protocol.IsHTTP2() {
			call.Carries = explain.HTTP2
		}
		if port.Protocol.IsTLS() {
			call.Carries, call.ServerName = explain.TLS, string(host)
		}
		p.add(call)
		return
	}
}

// addressOf returns the address that callers of a service connect to, or a placeholder (RFC 5737,
// TEST-NET-1) if the View has none, because DNS then decides.
func addressOf(v *view.View, svc *mesh.Service) netip.Addr {
	if a, ok := v.AddressOf(svc); ok {
		return a
	}
	return netip.AddrFrom4([4]byte{192, 0, 2, 1})
}

// addGatewayCall adds a GET request to an HTTP port of a gateway, whose route configuration routes
// is named for it ("http.8080"). Its host is the first domain of h, with "any" for "*", or
// "example.com" for all domains. It does nothing for the route configurations of HTTPS, which do
// not name a port, and for a proxy without an address.
func (p *callPlanner) addGatewayCall(routes string, h *routev3.VirtualHost, path string, headers []explain.Header) {
	text, ok := strings.CutPrefix(routes, "http.")
	if !ok || len(p.proxy.Addresses) == 0 {
		return
	}
	var port uint16
	if _, err := fmt.Sscan(text, &port); err != nil {
		return
	}
	host := "example.com"
	if domains := h.GetDomains(); len(domains) > 0 && domains[0] != "*" {
		host = strings.Replace(domains[0], "*", "any", 1)
	}
	p.add(explain.Call{
		Direction: explain.Direct, To: netip.AddrPortFrom(p.proxy.Addresses[0], port),
		Request: &explain.Request{Method: "GET", Scheme: "http", Authority: host, Path: path, Header: headers},
	})
}

// addInbound adds calls to the proxy's own service ports, of the View after the change and the one
// before. They are GET and POST of "/" for HTTP ports. Each call is made in plain text and by
// mutual TLS of the account "default" of its namespace. It adds none for a proxy without an
// address.
func (p *callPlanner) addInbound() {
	if len(p.proxy.Addresses) == 0 {
		return
	}
	for _, v := range p.views {
		for _, i := range v.Inbound {
			call := explain.Call{Direction: explain.Inbound,
				To: netip.AddrPortFrom(p.proxy.Addresses[0], uint16(i.TargetPort))}
			account := fmt.Sprintf("spiffe://%s/ns/%s/sa/default", v.Settings.TrustDomain, p.proxy.Namespace)
			if !i.Port.Protocol.IsHTTP() {
				p.addWithIdentity(call, account, "istio-peer-exchange", "istio")
				continue
			}
			for _, method := range []string{"GET", "POST"} {
				call.Request = &explain.Request{
					Method: method, Scheme: "http", Authority: fmt.Sprintf("%s:%d", i.Service.Host, i.Port.Number),
					Path: "/",
				}
				p.addWithIdentity(call, account, "istio-http/1.1", "istio", "http/1.1")
			}
		}
	}
}

// addWithIdentity adds a call in plain text, and one by mutual TLS of an account.
func (p *callPlanner) addWithIdentity(call explain.Call, account string, alpn ...string) {
	p.add(call)
	call.Carries, call.ALPN, call.Identity = explain.TLS, alpn, account
	p.add(call)
}
