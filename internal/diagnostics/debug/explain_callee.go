package debug

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"slices"

	"github.com/meshpilot/meshpilot/internal/diagnostics/explain"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/xds/push"
)

// setReceived sets Endpoint.Received to the call as a sidecar at the endpoint would receive it,
// even if there is none. It does so for all endpoints of a path to which the call is forwarded by
// IP address (receivedCall); the others stay unchanged. Lists of endpoints are copied, because
// endings may share them.
func (e *explanation) setReceived(path *explain.Path) {
	for i, end := range path.Endings {
		end.Endpoints = slices.Clone(end.Endpoints) // other endings may have the same list
		for j, one := range end.Endpoints {
			if call, ok := e.receivedCall(path, end, one); ok {
				end.Endpoints[j].Received = &call
			}
		}
		path.Endings[i].Endpoints = end.Endpoints
	}
}

// receivedCall returns the call as a sidecar at the endpoint one of the ending end receives it. ok
// is false if the call is not forwarded to an IP address.
func (e *explanation) receivedCall(path *explain.Path, end explain.Ending, one explain.Endpoint) (call explain.Call,
	ok bool) {
	var from netip.Addr
	if len(e.proxy.Addresses) > 0 {
		from = e.proxy.Addresses[0]
	}
	return explain.CalleeCall(path.Call, end, one, from, accountOf(e.proxy), e.view.Settings.TrustDomains()[0])
}

// explainReceived returns the path of a call, in JSON as Endpoint.Received has it, through the
// sidecar at its destination. The path has no notes of this package. It returns a Refusal if the
// text is malformed (400). It also returns one (404) if no sidecar at the address that the caller
// may see is connected to this replica.
func (p *Pages) explainReceived(text string, caller Caller) (*explain.Path, error) {
	var call explain.Call
	if err := json.Unmarshal([]byte(text), &call); err != nil {
		return nil, Refusal{http.StatusBadRequest, "call: " + err.Error()}
	}
	c, ok := p.connectionAt(caller, call.To.Addr())
	if !ok {
		return nil, Refusal{http.StatusNotFound,
			fmt.Sprintf("no sidecar at %s is connected to this replica", call.To.Addr())}
	}
	s := p.Snapshot()
	e := &explanation{Pages: p, asker: caller, proxy: c.Proxy, view: view.Build(s, view.KeyFor(s, c.Proxy))}
	return explain.Explain(e.resourcesOf(c, readNames{}), call)
}

// explainCallee explains the forwarded call at the first endpoint whose sidecar is connected to
// this replica and visible to the caller of the page. The call is inbound there. If the calling
// proxy uses mutual TLS of the mesh, the call has the identity of that proxy. It returns nil
// without an error if there is no such endpoint.
func (e *explanation) explainCallee(path *explain.Path) (*explain.Path, error) {
	for _, end := range path.Endings {
		for _, one := range end.Endpoints {
			call, ok := e.receivedCall(path, end, one)
			if !ok {
				continue
			}
			c, ok := e.connectionAt(e.asker, call.To.Addr())
			if !ok {
				continue
			}
			return explain.Explain(e.resourcesOf(c, readNames{}), call)
		}
	}
	return nil, nil
}

// connectionAt returns the connection of the sidecar at the address. The second result is false if
// no sidecar with the address is connected, or asker may not see it. Of several streams it returns
// the stream with the lowest ID.
func (p *Pages) connectionAt(asker Caller, a netip.Addr) (push.Connection, bool) {
	first := ""
	for _, s := range p.Proxies.StreamStates() {
		if s.Proxy.Type == mesh.SidecarProxy && asker.CanRead(s.Proxy.Namespace) && slices.Contains(s.Proxy.Addresses, a) &&
			(first == "" || s.ID < first) {
			first = s.ID
		}
	}
	return p.Proxies.Connection(first)
}

// accountOf returns the "namespace/account" in a proxy's certificate. It is the account that the
// proxy was authenticated as. If the proxy is not authenticated, it is the account in its metadata.
func accountOf(proxy *mesh.Proxy) string {
	if proxy.Account.Name != "" {
		return proxy.Account.Namespace + "/" + proxy.Account.Name
	}
	return proxy.Namespace + "/" + proxy.Metadata.ServiceAccount
}
