package wire

const adsService = "/envoy.service.discovery.v3.AggregatedDiscoveryService/"

// SotWMethod and DeltaMethod are the gRPC methods of the two variants of the protocol.
const (
	SotWMethod  = adsService + "StreamAggregatedResources"
	DeltaMethod = adsService + "DeltaAggregatedResources"
)
