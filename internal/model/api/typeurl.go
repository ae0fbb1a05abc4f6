package api

// Type URLs of the resources served over xDS (xDS protocol, "Resource Types").
const (
	ClusterType  = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
	EndpointType = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
	ListenerType = "type.googleapis.com/envoy.config.listener.v3.Listener"
	RouteType    = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration"
	SecretType   = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret"
	// ExtensionType is the configuration of a filter that is served by ECDS (config_discovery).
	ExtensionType = "type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig"

	// NameTableType and ProxyConfigType are requested by Istio's agent for itself: the names that
	// its DNS proxy resolves, and its settings.
	NameTableType   = "type.googleapis.com/istio.networking.nds.v1.NameTable"
	ProxyConfigType = "type.googleapis.com/istio.mesh.v1alpha1.ProxyConfig"

	// DebugSyncType is Istio's synthetic resource with the sync status of all proxies.
	DebugSyncType = "istio.io/debug/syncz"
)

// ShortType returns the usual abbreviation of a type (CDS, EDS, LDS, RDS, SDS, ECDS, NDS, PCDS), or
// the URL itself if it has none. Metrics and logs use it.
func ShortType(typeURL string) string {
	switch typeURL {
	case ClusterType:
		return "CDS"
	case EndpointType:
		return "EDS"
	case ListenerType:
		return "LDS"
	case RouteType:
		return "RDS"
	case SecretType:
		return "SDS"
	case ExtensionType:
		return "ECDS"
	case NameTableType:
		return "NDS"
	case ProxyConfigType:
		return "PCDS"
	default:
		return typeURL
	}
}
