package stream

// Positions in EnvoyTypes.
const (
	cds = iota
	eds
	ecds
	lds
	rds
	sds
	nds
	pcds
	typeCount
)

// pushOrder is EnvoyTypes.
var pushOrder = envoyTypes.list

// configTypes is a table of types like those by which config is served.
var configTypes = NewTypes(
	Type{URL: "networking.istio.io/v1/Gateway", Wildcard: true, Removable: true},
	Type{URL: "networking.istio.io/v1/VirtualService", Wildcard: true, Removable: true},
)
