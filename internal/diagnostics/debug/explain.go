package debug

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"

	"github.com/meshpilot/meshpilot/internal/diagnostics/explain"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/xds/push"
)

// someAddress is the placeholder for an address that only DNS can resolve (RFC 5737, TEST-NET-1).
const someAddress = "192.0.2.1"

// explainPage serves the path of a call, computed from the resources that a proxy was sent. The
// query parameters are:
//
//	proxyID    the proxy whose call is explained (required)
//	url        (required) "http://host:9080/path?query", "tcp://host:port" or "tls://server-name:port"
//	method     the HTTP method (default GET)
//	header     "name: value", may be repeated
//	protocol   "h2c" for HTTP/2, "http/1.0"
//	to         the destination "address:port" (default: as the proxy resolves the URL's host)
//	inbound    the call is inbound to the proxy's workload
//	both       also explain the call at the workload that receives it
//	principal  "cluster.local/ns/shop/sa/web" or "shop/web": the identity of the caller.
//	           The call is then inbound, by mutual TLS.
//	from       the caller's IP address
//	claim      "groups=a,b", of a token that is assumed to be valid; a token itself is a header
//	authorizer the answer of external authorizers: "allow", "deny", or "fail" for no answer
//	text       respond with text instead of JSON
func (p *Pages) explainPage(q question) (answer, error) {
	c, err := p.findConnection(q)
	if err != nil {
		return answer{}, err
	}
	call, err := p.parseCall(q, c.Proxy)
	if err != nil {
		return answer{}, Refusal{http.StatusBadRequest, err.Error()}
	}
	path, err := explain.Explain(p.resourcesOf(c), call)
	if err != nil {
		return answer{}, err
	}
	path.Notes = append(p.hostNotes(q, call, c.Proxy), p.routeNotes(call, path)...)
	path.Notes = append(path.Notes, p.precedenceNotes(q, call, c.Proxy, path)...)
	if q.Has("both") {
		if path.Callee, err = p.explainCallee(q, c.Proxy, path); err != nil {
			return answer{}, err
		}
	}
	if q.Has("text") {
		return answer{"text/plain; charset=utf-8", []byte(path.String())}, nil
	}
	return jsonAnswer(q, path)
}

// resourcesOf returns the resources that a proxy was sent, and objects of the current snapshot, in
// the form that explain.Explain reads.
func (p *Pages) resourcesOf(c push.Connection) *explain.Resources {
	of := func(typeURL string) (list []*resource.Resource) {
		if w, ok := watchedType(c, typeURL); ok {
			list = w.Resources()
		}
		return list
	}
	s := p.Snapshot()
	return &explain.Resources{
		Listeners: of(api.ListenerType), Clusters: of(api.ClusterType),
		Named: func(typeURL, name string) *resource.Resource {
			for _, r := range of(typeURL) {
				if r.Name == name {
					return r
				}
			}
			return nil
		},
		Object: func(k config.Key) *config.Config { return s.Config(k) },
	}
}

// parseCall parses the call from the query parameters. It returns an error if the URL is missing,
// has no port or has an unsupported scheme, or if another parameter is malformed.
func (p *Pages) parseCall(q question, proxy *mesh.Proxy) (explain.Call, error) {
	call := explain.Call{Direction: explain.Outbound, Carries: explain.Carried(q.Get("protocol"))}
	if q.Has("inbound") {
		call.Direction = explain.Inbound
	}
	if proxy.Type == mesh.RouterProxy {
		call.Direction = explain.Direct
	}
	scheme, rest, ok := strings.Cut(q.Get("url"), "://")
	if !ok {
		return call, fmt.Errorf(
			"no call is given: ?url=http://host:port/path, tcp://host:port or tls://server-name:port",
		)
	}
	authority := authorityOf(rest)
	switch scheme {
	case "http", "https":
		method := q.Get("method")
		if method == "" {
			method = http.MethodGet
		}
		var err error
		if call.Request, err = explain.ParseRequest(method+" "+q.Get("url"), q.Values["header"]...); err != nil {
			return call, err
		}
		if scheme == "https" { // only a proxy that terminates TLS can see the request
			call.Carries, call.ServerName = explain.TLS, hostOf(authority)
		}
	case "tls":
		call.Carries, call.ServerName = explain.TLS, hostOf(authority)
	case "tcp":
	default:
		return call, fmt.Errorf("calls of %s:// are not known here: http, https, tcp or tls", scheme)
	}
	if err := p.parseCaller(&call, q); err != nil {
		return call, err
	}
	var err error
	call.To, err = p.callDestination(q.Get("to"), scheme, authority, proxy)
	if call.Direction == explain.Inbound && q.Get("to") == "" && err == nil {
		call.To = p.workloadPort(call.To.Port(), hostOf(authority), proxy)
	}
	return call, err
}

// workloadPort returns the workload's own address and the target port that a service port maps to.
// If the workload does not serve that port for the host, the port is returned unchanged.
func (p *Pages) workloadPort(port uint16, host string, proxy *mesh.Proxy) netip.AddrPort {
	at := netip.MustParseAddr(someAddress)
	if len(proxy.Addresses) > 0 {
		at = proxy.Addresses[0]
	}
	s := p.Snapshot()
	for _, i := range view.Build(s, view.KeyFor(s, proxy)).Inbound {
		name, _, _ := strings.Cut(string(i.Service.Host), ".")
		if i.Port.Number == uint32(port) &&
			(strings.EqualFold(host, name) || strings.HasPrefix(strings.ToLower(host), name+".")) {
			return netip.AddrPortFrom(at, uint16(i.TargetPort))
		}
	}
	return netip.AddrPortFrom(at, port)
}

// callDestination returns the address and port that a call is sent to. It is the address in to if
// set; otherwise the host is resolved as the proxy would. The default port is 80 for http, and 443
// for https and tls. It returns an error for tcp without a port.
func (p *Pages) callDestination(to, scheme, authority string, proxy *mesh.Proxy) (netip.AddrPort, error) {
	if to != "" {
		return netip.ParseAddrPort(to)
	}
	port := map[string]string{"http": "80", "https": "443", "tls": "443"}[scheme]
	if _, given, err := net.SplitHostPort(authority); err == nil {
		port = given
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("%s://%s has no port", scheme, authority)
	}
	return netip.AddrPortFrom(p.addressOf(hostOf(authority), proxy), uint16(number)), nil
}

// authorityOf returns the host and port of a URL without its scheme.
func authorityOf(url string) string {
	authority, _, _ := strings.Cut(url, "/")
	authority, _, _ = strings.Cut(authority, "?")
	return authority
}

// hostOf returns the host of an authority, without port or brackets.
func hostOf(authority string) string {
	if h, _, err := net.SplitHostPort(authority); err == nil {
		return h
	}
	return strings.Trim(authority, "[]")
}

// serviceOf returns the service that a host names for a proxy, as its DNS search domains resolve it;
// nil if there is none.
func serviceOf(v *view.View, host string, proxy *mesh.Proxy) *mesh.Service {
	_, cluster, _ := strings.Cut(proxy.DNSDomain, ".")
	_, domain, _ := strings.Cut(cluster, ".")
	for _, name := range []string{host, host + "." + proxy.DNSDomain, host + "." + cluster, host + "." + domain} {
		if svc := v.Service(mesh.Hostname(strings.ToLower(strings.TrimSuffix(name, ".")))); svc != nil {
			return svc
		}
	}
	return nil
}

// hostNotes returns hints about the host of an outbound call: the service does not have the port, or
// the proxy has no service of that name. It returns nothing for an IP address, for an inbound call and
// if the caller has chosen the destination.
func (p *Pages) hostNotes(q question, call explain.Call, proxy *mesh.Proxy) []string {
	_, rest, _ := strings.Cut(q.Get("url"), "://")
	host := hostOf(authorityOf(rest))
	if _, err := netip.ParseAddr(host); err == nil || call.Direction != explain.Outbound || q.Get("to") != "" {
		return nil
	}
	s := p.Snapshot()
	svc := serviceOf(view.Build(s, view.KeyFor(s, proxy)), host, proxy)
	if svc == nil {
		return []string{fmt.Sprintf(
			"the proxy has no service %q: DNS decides the address, and the placeholder %s is used here; --to sets another one",
			host, someAddress,
		)}
	}
	number := uint32(call.To.Port())
	if _, ok := svc.Port(number); ok {
		return nil
	}
	var ports []string
	for _, port := range svc.Ports {
		ports = append(ports, fmt.Sprintf("%d (%s)", port.Number, port.Name))
	}
	return []string{fmt.Sprintf(
		"service %s has no port %d, so none of its configuration applies; its ports are %s",
		svc.Host, number, strings.Join(ports, ", "),
	)}
}

// addressOf resolves a host as the proxy would. It returns the host itself if it is an IP address.
// Otherwise it returns the first address of the service with that name, or of one of its endpoints.
// If it finds none, it returns someAddress.
func (p *Pages) addressOf(host string, proxy *mesh.Proxy) netip.Addr {
	if a, err := netip.ParseAddr(host); err == nil {
		return a
	}
	s := p.Snapshot()
	v := view.Build(s, view.KeyFor(s, proxy))
	svc := serviceOf(v, host, proxy)
	if svc == nil {
		return netip.MustParseAddr(someAddress)
	}
	candidates := svc.Addresses
	for _, e := range v.Endpoints(svc).Endpoints {
		candidates = append(candidates[:len(candidates):len(candidates)], e.Address)
	}
	for _, c := range candidates {
		if a, err := netip.ParseAddr(c); err == nil && !a.IsUnspecified() {
			return a
		}
	}
	return netip.MustParseAddr(someAddress)
}
