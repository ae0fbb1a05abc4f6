package api

// Type URLs of the resources served over xDS (xDS protocol, "Resource Types").
const (
	ClusterType  = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
	EndpointType = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
	ListenerType = "type.googleapis.com/envoy.config.listener.v3.Listener"
	RouteType    = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration"
	SecretType   = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret"

	// DebugSyncType is the type URL of Istio's synthetic resource that tells the state of all proxies.
	DebugSyncType = "istio.io/debug/syncz"
)

// ShortType gives the name that operators know a type by (CDS, EDS, LDS, RDS, SDS), or the URL itself if it has none.
// Metrics and logs use it.
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
	default:
		return typeURL
	}
}
