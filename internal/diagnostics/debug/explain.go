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

// someAddress stands for an address that only DNS knows (RFC 5737, TEST-NET-1).
const someAddress = "192.0.2.1"

// explain says where a call of a proxy goes, by what that proxy was sent:
//
//	proxyID    whose call it is
//	url        "http://reviews:9080/path?query", or "tcp://host:port", "tls://server-name:port"
//	method     of HTTP, GET if nothing is said
//	header     "name: value", any number of times
//	protocol   "h2c" for HTTP/2, "http/1.0"
//	to         where it is sent, "address:port": by default what the URL's host means to the proxy
//	inbound    the call comes in
//	both       what becomes of it at the workload that it goes to is said too
//	principal  who calls, "cluster.local/ns/shop/sa/web" or "shop/web": by mutual TLS, and so it comes in
//	from       the caller's address
//	claim      "groups=a,b": of a token that is taken for valid; a token itself is a header
//	authorizer what external authorizers say: "allow", "deny", or "fail" for nothing
func (p *Pages) explain(q question) (answer, error) {
	c, err := p.find(q)
	if err != nil {
		return answer{}, err
	}
	call, err := p.call(q, c.Proxy)
	if err != nil {
		return answer{}, Refusal{http.StatusBadRequest, err.Error()}
	}
	path, err := explain.Explain(p.sent(c), call)
	if err != nil {
		return answer{}, err
	}
	if q.Has("both") {
		if path.Callee, err = p.callee(q, c.Proxy, path); err != nil {
			return answer{}, err
		}
	}
	if q.Has("text") {
		return answer{"text/plain; charset=utf-8", []byte(path.String())}, nil
	}
	return written(q, path)
}

// sent gives what a proxy was sent.
func (p *Pages) sent(c push.Connection) *explain.Resources {
	of := func(typeURL string) (list []*resource.Resource) {
		if w, ok := watch(c, typeURL); ok {
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

// call reads the call that is asked about.
func (p *Pages) call(q question, proxy *mesh.Proxy) (explain.Call, error) {
	call := explain.Call{Direction: explain.Outbound, Carries: explain.Carried(q.Get("protocol"))}
	if q.Has("inbound") {
		call.Direction = explain.Inbound
	}
	if proxy.Type == mesh.RouterProxy {
		call.Direction = explain.Direct
	}
	scheme, rest, ok := strings.Cut(q.Get("url"), "://")
	if !ok {
		return call, fmt.Errorf("no call is given: ?url=http://host:port/path, tcp://host:port or tls://server-name:port")
	}
	authority, _, _ := strings.Cut(rest, "/")
	authority, _, _ = strings.Cut(authority, "?")
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
		if scheme == "https" { // what is inside only a proxy sees that ends it
			call.Carries, call.ServerName = explain.TLS, hostOf(authority)
		}
	case "tls":
		call.Carries, call.ServerName = explain.TLS, hostOf(authority)
	case "tcp":
	default:
		return call, fmt.Errorf("calls of %s:// are not known here: http, https, tcp or tls", scheme)
	}
	if err := p.caller(&call, q); err != nil {
		return call, err
	}
	var err error
	call.To, err = p.destination(q.Get("to"), scheme, authority, proxy)
	if call.Direction == explain.Inbound && q.Get("to") == "" && err == nil {
		call.To = p.workloadPort(call.To.Port(), hostOf(authority), proxy)
	}
	return call, err
}

// workloadPort gives the workload's own address, and the port at it that the port of a service leads to.
func (p *Pages) workloadPort(port uint16, host string, proxy *mesh.Proxy) netip.AddrPort {
	at := netip.MustParseAddr(someAddress)
	if len(proxy.Addresses) > 0 {
		at = proxy.Addresses[0]
	}
	s := p.Snapshot()
	for _, i := range view.Build(s, view.KeyFor(s, proxy)).Inbound {
		name, _, _ := strings.Cut(string(i.Service.Host), ".")
		if i.Port.Number == uint32(port) && (strings.EqualFold(host, name) || strings.HasPrefix(strings.ToLower(host), name+".")) {
			return netip.AddrPortFrom(at, uint16(i.TargetPort))
		}
	}
	return netip.AddrPortFrom(at, port)
}

// destination says where a call is sent: to an address that is given, or what a host means to the proxy.
func (p *Pages) destination(to, scheme, authority string, proxy *mesh.Proxy) (netip.AddrPort, error) {
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

func hostOf(authority string) string {
	if h, _, err := net.SplitHostPort(authority); err == nil {
		return h
	}
	return strings.Trim(authority, "[]")
}

// addressOf gives the address that a host means to a proxy: itself, that of a service, or of one of a service's endpoints.
func (p *Pages) addressOf(host string, proxy *mesh.Proxy) netip.Addr {
	if a, err := netip.ParseAddr(host); err == nil {
		return a
	}
	s := p.Snapshot()
	v := view.Build(s, view.KeyFor(s, proxy))
	_, cluster, _ := strings.Cut(proxy.DNSDomain, ".")
	_, domain, _ := strings.Cut(cluster, ".")
	for _, name := range []string{host, host + "." + proxy.DNSDomain, host + "." + cluster, host + "." + domain} {
		svc := v.Service(mesh.Hostname(strings.ToLower(strings.TrimSuffix(name, "."))))
		if svc == nil {
			continue
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
	}
	return netip.MustParseAddr(someAddress)
}
