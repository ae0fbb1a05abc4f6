package options

// GatewayAPI configures the use of Gateway API objects. All fields but Enabled are about writes to
// an API server.
type GatewayAPI struct {
	// Enabled reads Gateways and routes of the Gateway API (default true;
	// PILOT_ENABLE_GATEWAY_API). Gateways between networks are read regardless of it.
	Enabled bool
	// WriteStatus writes the status of objects (default true; PILOT_ENABLE_GATEWAY_API_STATUS).
	WriteStatus bool
	// Deploy deploys gateways (default true; PILOT_ENABLE_GATEWAY_API_DEPLOYMENT_CONTROLLER).
	Deploy bool
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
	return GatewayAPI{Enabled: true, WriteStatus: true, Deploy: true, CreateClasses: true, CopyMetadata: true}
}
