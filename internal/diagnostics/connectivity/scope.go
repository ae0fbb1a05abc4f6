package connectivity

import (
	"fmt"
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/translate/cluster"
)

// scopeOf returns "" if proxies of the class have a cluster for a port of the service, or else why
// not: the service is not exported to them, not imported by their Sidecar, not a destination of
// their Gateways, or hidden by another one of its host. A workload without a proxy (nil) can call
// everything.
func (c *class) scopeOf(svc *mesh.Service, port uint32) string {
	if c == nil {
		return ""
	}
	own := c.view.Service(svc.Host)
	switch {
	case own != nil && own.ServiceKey != svc.ServiceKey:
		return fmt.Sprintf("calls of this host go to the service of namespace %s", own.Namespace)
	case c.role == Gateway && own == nil:
		return fmt.Sprintf("the service is not exported to namespace %s", c.namespace)
	case c.role == Gateway && !c.view.GatewayRoutes(svc.Host, port):
		return "no VirtualService of its Gateways routes to the service"
	case own != nil && c.view.ImportsPort(svc.Host, port):
		return ""
	case c.sidecar == (config.Key{}):
		return fmt.Sprintf("the service is not exported to namespace %s", c.namespace)
	}
	k := c.view.Key
	k.Sidecar = config.Key{}
	if all := view.Build(c.view.Snapshot, k).Service(svc.Host); all == nil {
		return fmt.Sprintf("the service is not exported to namespace %s", c.namespace)
	}
	return fmt.Sprintf("%s does not import it", c.sidecar)
}

// reaches reports whether proxies of the class have a cluster for a port of the service that
// proxies capture. They have none if they see another service under its host.
func (c *class) reaches(svc *mesh.Service) bool {
	if own := c.view.Service(svc.Host); own == nil || own.ServiceKey != svc.ServiceKey {
		return false
	}
	return slices.ContainsFunc(svc.Ports,
		func(p mesh.Port) bool { return p.Protocol.Captured() && c.scopeOf(svc, p.Number) == "" })
}

// transportTo returns how proxies of the class connect to a port of the service at a workload that
// accepts mutual TLS or not. A workload without a proxy (nil) uses plain text, and so does one
// without a cluster for the port. The proxies must see a service of that host.
func (c *class) transportTo(svc *mesh.Service, port uint32, acceptsTLS bool) cluster.OutboundTransport {
	if c == nil {
		return cluster.PlainText
	}
	for name, transport := range cluster.Transports(c.view, c.view.Service(svc.Host)) {
		if name.Port == port && name.Subset == "" {
			return transport.ForEndpoint(acceptsTLS)
		}
	}
	return cluster.PlainText
}
