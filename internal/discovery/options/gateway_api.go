package options

import (
	"github.com/meshpilot/meshpilot/internal/base/recovery"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/gatewayapi"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// GatewayAPI configures the use of Gateway API objects. All fields but Enabled and BindServices are
// about writes to an API server.
type GatewayAPI struct {
	// Enabled reads Gateways and routes of the Gateway API (default true;
	// PILOT_ENABLE_GATEWAY_API). Gateways between networks are read regardless of it.
	Enabled bool
	// WriteStatus writes the status of objects (default true; PILOT_ENABLE_GATEWAY_API_STATUS).
	WriteStatus bool
	// Deploy deploys gateways (default true; PILOT_ENABLE_GATEWAY_API_DEPLOYMENT_CONTROLLER).
	Deploy bool
	// BindServices lets Gateways be bound to the proxies of an existing Service by an address of
	// type Hostname (default true; ENABLE_GATEWAY_API_MANUAL_DEPLOYMENT).
	BindServices bool
	// CreateClasses creates the default GatewayClasses (default true;
	// PILOT_ENABLE_GATEWAY_API_GATEWAYCLASS_CONTROLLER).
	CreateClasses bool
	// CopyMetadata copies the labels and annotations of a Gateway to the objects that are deployed
	// for it, unless it has spec.infrastructure (default true;
	// PILOT_ENABLE_GATEWAY_API_COPY_LABELS_ANNOTATIONS).
	CopyMetadata bool
}

// DefaultGatewayAPI returns Istio's defaults: everything is enabled.
func DefaultGatewayAPI() GatewayAPI {
	return GatewayAPI{
		Enabled: true, WriteStatus: true, Deploy: true, BindServices: true, CreateClasses: true, CopyMetadata: true,
	}
}

// GatewayConverter returns the options of the converter of Gateway API objects. If config objects
// are read from an API server, the addresses of Gateways are those of the Services deployed for
// them. The clock and the callbacks are not set.
func (o Options) GatewayConverter(r *recovery.Recorder) gatewayapi.Options {
	return gatewayapi.Options{
		Domain: o.Domain, Cluster: mesh.ClusterID(o.ClusterID), Deploys: o.ConfigFromCluster(),
		HTTP3: o.Features.QUICListeners, IgnoreHostnames: !o.GatewayAPI.BindServices,
		InferencePools:  o.Features.InferencePools,
		ClusterSetHosts: o.Registry.ClusterSet.Exports && o.Registry.ClusterSet.Hosts,
		MeshSessions:    o.Features.PersistentSessions, Recovery: r,
	}
}
