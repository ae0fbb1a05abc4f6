package wire

// Type is one of the xDS types that every sidecar requests, in Envoy's order.
type Type int

// The types.
const (
	CDS Type = iota
	EDS
	LDS
	RDS
	ECDS
	// NumTypes is the number of types; as an index it means any other type.
	NumTypes
)

const typePrefix = "type.googleapis.com/envoy.config."

// URL returns the type URL.
func (t Type) URL() string {
	switch t {
	case CDS:
		return typePrefix + "cluster.v3.Cluster"
	case EDS:
		return typePrefix + "endpoint.v3.ClusterLoadAssignment"
	case LDS:
		return typePrefix + "listener.v3.Listener"
	case RDS:
		return typePrefix + "route.v3.RouteConfiguration"
	case ECDS:
		return typePrefix + "core.v3.TypedExtensionConfig"
	}
	return ""
}

// String is the short name: "CDS".
func (t Type) String() string {
	switch t {
	case CDS:
		return "CDS"
	case EDS:
		return "EDS"
	case LDS:
		return "LDS"
	case RDS:
		return "RDS"
	case ECDS:
		return "ECDS"
	}
	return "other"
}

// Wildcard is set if the whole type is sent without a request by name.
func (t Type) Wildcard() bool { return t == CDS || t == LDS }

// TypeOf returns the Type of a type URL, or NumTypes for another one.
func TypeOf(url []byte) Type {
	for t := range NumTypes {
		if string(url) == t.URL() {
			return t
		}
	}
	return NumTypes
}
