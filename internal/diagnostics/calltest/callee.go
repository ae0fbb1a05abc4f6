package calltest

import (
	"net/netip"

	"github.com/meshpilot/meshpilot/internal/diagnostics/explain"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// AddCallees replaces path.Endings: an endpoint whose sidecar does not accept the call is replaced
// by that sidecar's endings, with their share of all calls. Other endpoints stay. Callee and
// Metadata are taken from the path through the first sidecar, or through the first that does not
// accept the call.
//
// calleePath returns the path through the sidecar at an endpoint with a share, or nil if there is
// no sidecar: such an endpoint accepts every call. Its first error is returned, and the endings
// then stay unchanged.
func AddCallees(path *explain.Path, calleePath func(explain.Ending, explain.Endpoint) (*explain.Path, error)) error {
	var endings []explain.Ending
	accepted := true
	for _, e := range path.Endings {
		rest := e
		rest.Share, rest.Endpoints = 0, nil
		if len(e.Endpoints) == 0 || e.Kind != explain.Forwarded {
			endings = append(endings, e)
			continue
		}
		for _, one := range e.Endpoints {
			var callee *explain.Path
			var err error
			if one.Share > 0 {
				callee, err = calleePath(e, one)
			}
			switch {
			case err != nil:
				return err
			case callee != nil && (path.Callee == nil || accepted && !IsForwarded(callee)):
				path.Callee, path.Metadata, accepted = callee, callee.Metadata, IsForwarded(callee)
			}
			if callee == nil || IsForwarded(callee) {
				rest.Share += e.Share * one.Share
				rest.Endpoints = append(rest.Endpoints, one)
				continue
			}
			for _, end := range callee.Endings {
				end.Share *= e.Share * one.Share
				endings = append(endings, end)
			}
		}
		if rest.Share > 0 {
			for i := range rest.Endpoints {
				rest.Endpoints[i].Share *= e.Share / rest.Share
			}
			endings = append(endings, rest)
		}
	}
	path.Endings = endings
	return nil
}

// calleePath returns the path of a call through the sidecar at the endpoint one of the ending e. It
// returns nil if no sidecar receives the call.
func (m *Mesh) calleePath(call explain.Call, e explain.Ending, one explain.Endpoint, caller *mesh.Proxy) (*explain.Path,
	error) {
	inbound, ok := explain.CalleeCall(call, e, one, caller.Addresses[0], m.identityOf(caller),
		m.snapshot.Settings.TrustDomain)
	if !ok {
		return nil, nil
	}
	proxy := m.sidecarAt(inbound.To.Addr())
	if proxy == nil {
		return nil, nil
	}
	return explain.Explain(m.resourcesOf(proxy), inbound)
}

// identityOf returns the SPIFFE ID of the workload at the proxy's first address. It is
// NAMESPACE/default, with the proxy's namespace, if the workload is unknown or has no account.
func (m *Mesh) identityOf(p *mesh.Proxy) string {
	for ip, w := range m.snapshot.Workloads() {
		if ip == p.Addresses[0] && w.Account != "" {
			return w.Account
		}
	}
	return p.Namespace + "/default"
}

// sidecarAt returns the sidecar at an address, or nil. Only the first address of each sidecar is
// compared.
func (m *Mesh) sidecarAt(a netip.Addr) *mesh.Proxy {
	for _, p := range m.proxies {
		if p.Type == mesh.SidecarProxy && p.Addresses[0] == a.Unmap() {
			return p
		}
	}
	return nil
}

// IsForwarded reports whether all endings of a path are Forwarded. It returns true for a path
// without endings.
func IsForwarded(p *explain.Path) bool {
	for _, e := range p.Endings {
		if e.Kind != explain.Forwarded {
			return false
		}
	}
	return true
}
