package options

import (
	"github.com/meshpilot/meshpilot/internal/diagnostics/readapi"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// monitoringPort is the port of the control plane's Service that serves the read API.
const monitoringPort = 15014

// ReadAPIPeers returns how the other replicas are found: by the addresses in Peers, or without them
// by the endpoints of this revision's Service, istiod or istiod-REVISION, as the chart names it.
func (o Options) ReadAPIPeers() readapi.Peers {
	name := "istiod"
	if o.Revision != "" && o.Revision != "default" {
		name += "-" + o.Revision
	}
	return readapi.Peers{
		Addresses: o.Peers, Port: monitoringPort, Self: o.PodName,
		Service: mesh.ServiceKey{Namespace: o.Namespace, Host: mesh.Hostname(name + "." + o.Namespace + ".svc." + o.Domain)},
	}
}
