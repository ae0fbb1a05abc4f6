package options

// GatewayAPI configures the use of Gateway API objects. The zero value has Istio's defaults: all
// parts are enabled. All but Off are about writes to an API server.
type GatewayAPI struct {
	// Off ignores Gateways and routes of the Gateway API, except Gateways between networks (set by
	// PILOT_ENABLE_GATEWAY_API=false).
	Off bool
	// NoStatus disables writes to the status of objects (set by
	// PILOT_ENABLE_GATEWAY_API_STATUS=false).
	NoStatus bool
	// NoDeployments disables the deployment of gateways (set by
	// PILOT_ENABLE_GATEWAY_API_DEPLOYMENT_CONTROLLER=false).
	NoDeployments bool
	// NoClasses disables the creation of GatewayClasses (set by
	// PILOT_ENABLE_GATEWAY_API_GATEWAYCLASS_CONTROLLER=false).
	NoClasses bool
	// NoCopiedMetadata keeps labels and annotations of a Gateway that has none in
	// spec.infrastructure from the objects that are deployed for it (set by
	// PILOT_ENABLE_GATEWAY_API_COPY_LABELS_ANNOTATIONS=false).
	NoCopiedMetadata bool
}
