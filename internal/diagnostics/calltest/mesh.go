package calltest

import (
	"net/netip"
	"strings"

	"github.com/meshpilot/meshpilot/internal/diagnostics/diff"
	"github.com/meshpilot/meshpilot/internal/diagnostics/diff/offline"
	"github.com/meshpilot/meshpilot/internal/diagnostics/explain"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/translate"
)

// Mesh evaluates cases on the configuration of the proxies that manifests imply. It must be used by
// one goroutine at a time.
type Mesh struct {
	snapshot    *snapshot.Snapshot
	translation *diff.Translation
	proxies     map[string]*mesh.Proxy // by NAME.NAMESPACE
	resources   map[*mesh.Proxy]*explain.Resources
}

// NewMesh returns the Mesh of objects. meshConfig is MeshConfig in YAML, or nil for the defaults.
// It returns an error if meshConfig is invalid.
func NewMesh(objects *offline.Objects, meshConfig []byte) (*Mesh, error) {
	m, err := offline.NewMesh(meshConfig)
	if err != nil {
		return nil, err
	}
	s := m.SetObjects(objects)
	return &Mesh{
		snapshot: s, proxies: offline.Proxies(s), resources: map[*mesh.Proxy]*explain.Resources{},
		translation: diff.NewTranslation(s, translate.NewTable(translate.Options{}).Generators),
	}, nil
}

// Result is the result of one case.
type Result struct {
	Case *Case
	// Path is the path of the call; nil if there is an error.
	Path *explain.Path
	// Err is the reason why the case could not be evaluated, such as an unknown workload.
	Err error
	// Differences are the differences between the path and the expectations.
	Differences Differences
}

// Passed reports whether the call could be evaluated and is as expected.
func (r *Result) Passed() bool { return r.Err == nil && len(r.Differences) == 0 }

// Run evaluates a case and compares the path with its expectations. Result.Err is set if the call
// cannot be evaluated.
func (m *Mesh) Run(c *Case) *Result {
	r := &Result{Case: c}
	if r.Path, r.Err = m.Evaluate(c); r.Err == nil {
		r.Differences = Judge(c, r.Path, m.WorkloadAt)
	}
	return r
}

// Evaluate returns the path of a case's call through the proxy of its caller and the proxies of the
// workloads that may receive it. An Into call at a sidecar ends there. The endings are those after
// the receiving proxies. Callee is the path through the first proxy that rejects the call, or
// through the first proxy if none does. It returns an error if the workload is unknown or
// ambiguous, or the call is malformed.
func (m *Mesh) Evaluate(c *Case) (*explain.Path, error) {
	proxy, err := offline.FindProxy(m.proxies, c.From+c.Into)
	if err != nil {
		return nil, err
	}
	call, err := m.callOf(c, proxy)
	if err != nil {
		return nil, err
	}
	path, err := explain.Explain(m.resourcesOf(proxy), call)
	if err != nil || c.Into != "" && proxy.Type != mesh.RouterProxy {
		return path, err
	}
	return path, AddCallees(path, func(e explain.Ending, one explain.Endpoint) (*explain.Path, error) {
		return m.calleePath(path.Call, e, one, proxy)
	})
}

// WorkloadAt returns the name of the workload at an IP:PORT, or address itself if there is none or
// it is malformed. The port is not compared.
func (m *Mesh) WorkloadAt(address string) string {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return address
	}
	for ip, w := range m.snapshot.Workloads() {
		if ip == at.Addr().Unmap() {
			return w.Name
		}
	}
	return address
}

// resourcesOf returns the resources of a proxy, which it generates at the first call.
func (m *Mesh) resourcesOf(p *mesh.Proxy) *explain.Resources {
	r := m.resources[p]
	if r == nil {
		r = m.translation.ExplainResources(p)
		m.resources[p] = r
	}
	return r
}

// callOf returns the call of a case, with addresses, identity (As) and direction, as the first
// proxy receives it. It returns an error if the request or its destination is malformed. Into sends
// it to the first proxy itself: as inbound connection of a sidecar, else directly. With Via it is a
// direct call to the destination.
func (m *Mesh) callOf(c *Case, proxy *mesh.Proxy) (explain.Call, error) {
	call, err := c.Request()
	if err != nil {
		return call, err
	}
	host, port, err := c.Destination()
	if err != nil {
		return call, err
	}
	address := m.resolve(host, proxy)
	switch {
	case c.Into == "" && c.Via == "":
		call.Direction = explain.Outbound
	case c.Into != "" && proxy.Type == mesh.SidecarProxy:
		call.Direction = explain.Inbound
		address, port = proxy.Addresses[0], m.workloadPort(host, port, proxy)
	default:
		call.Direction = explain.Direct
		if c.Into != "" {
			address = proxy.Addresses[0]
		}
	}
	call.To = netip.AddrPortFrom(address, port)
	if c.Address.IsValid() {
		call.From = netip.AddrPortFrom(c.Address, 0)
	}
	if c.As != "" {
		call.SetIdentity(c.As, m.snapshot.Settings.TrustDomain)
	}
	return call, nil
}

// workloadPort returns the port at which the proxy's workload serves a port of the Service host. It
// returns port itself if the workload does not serve that.
func (m *Mesh) workloadPort(host string, port uint16, proxy *mesh.Proxy) uint16 {
	v := m.translation.View(proxy)
	svc := v.ServiceNamed(host, proxy.DNSDomain)
	for _, i := range v.Inbound {
		if svc != nil && i.Service.Host == svc.Host && i.Port.Number == uint32(port) {
			return uint16(i.TargetPort)
		}
	}
	return port
}

// resolve returns the address to which a host resolves for a proxy's workload; an IP address
// resolves to itself. It returns a placeholder (RFC 5737, TEST-NET-1) for a host that is no service
// with an address, as if DNS had answered.
func (m *Mesh) resolve(host string, proxy *mesh.Proxy) netip.Addr {
	if a, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return a
	}
	v := m.translation.View(proxy)
	if svc := v.ServiceNamed(host, proxy.DNSDomain); svc != nil {
		if a, ok := v.AddressOf(svc); ok {
			return a
		}
	}
	return netip.AddrFrom4([4]byte{192, 0, 2, 1})
}
