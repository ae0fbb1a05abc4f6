package cluster

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// istioMetadata is the metadata namespace in which users, dashboards and istioctl look up the
// source of a cluster.
const istioMetadata = "istio"

type fields map[string]*structpb.Value

// toMetadata returns the fields in the metadata namespace "istio", or nil without fields.
func (f fields) toMetadata() *corev3.Metadata {
	if len(f) == 0 {
		return nil
	}
	return &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{istioMetadata: f.toStruct()}}
}

// toStruct returns f as a Struct, which shares its map.
func (f fields) toStruct() *structpb.Struct { return &structpb.Struct{Fields: f} }

// outboundMetadata returns the cluster's service, DestinationRule, subset and whether it is
// external to the mesh, as metadata. The subset is left out if in.Subset is "", "external" if the
// service is in the mesh.
func outboundMetadata(in OutboundInput) *corev3.Metadata {
	f := fields{}
	f.setService(nameOf(in.Service))
	f.setRule(in.Rule)
	if in.Subset != "" {
		f["subset"] = structpb.NewStringValue(in.Subset)
	}
	if in.Service.MeshExternal {
		f["external"] = structpb.NewBoolValue(true)
	}
	return f.toMetadata()
}

// setRule sets "config" to the path of the DestinationRule at an API server. Of several merged
// rules, it is the first, whose policy applies. It does nothing if r is nil or has no object.
func (f fields) setRule(r *snapshot.DestinationRule) {
	if r != nil && len(r.From) > 0 {
		f["config"] = structpb.NewStringValue(
			"/apis/networking.istio.io/v1/namespaces/" + r.From[0].Namespace + "/destination-rule/" + r.From[0].Name,
		)
	}
}

// name is a service's name in metadata and statistics.
type name struct {
	Host            mesh.Hostname
	Name, Namespace string
}

// nameOf returns a service's name in metadata. Only services of Kubernetes have a name other than
// their host.
func nameOf(svc *mesh.Service) name {
	n := name{Host: svc.Host, Name: string(svc.Host), Namespace: svc.Namespace}
	if svc.Provider == mesh.Kubernetes {
		n.Name = svc.Name
	}
	return n
}

// setService sets "service" to "host;name;namespace", which request metrics read
// (translate/telemetry). istiod sets "services" instead, a list of structs that only the metrics
// filter of Istio's Envoy reads.
func (f fields) setService(n name) { f["service"] = structpb.NewStringValue(n.String()) }

// String returns "host;name;namespace".
func (n name) String() string { return string(n.Host) + ";" + n.Name + ";" + n.Namespace }

// builtinMetadata returns the metadata of a cluster without a service. Metrics show the cluster's
// name as the service's name.
func builtinMetadata(cluster string) *corev3.Metadata {
	f := fields{}
	f.setService(name{Name: cluster})
	return f.toMetadata()
}

// objectKeys returns more, then the keys of the objects that the service and the rule derive from.
// It may append to the memory of more. svc and rule may be nil.
func objectKeys(svc *mesh.Service, rule *snapshot.DestinationRule, more ...config.Key) []config.Key {
	keys := more
	if svc != nil {
		keys = svc.AppendObjects(keys)
	}
	if rule != nil {
		keys = append(keys, rule.From...)
	}
	return keys
}
