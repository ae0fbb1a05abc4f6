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

func (f fields) toStruct() *structpb.Struct { return &structpb.Struct{Fields: f} }

// outboundMetadata returns the cluster's service, DestinationRule, subset and whether it is
// external to the mesh, as metadata.
func outboundMetadata(in OutboundInput) *corev3.Metadata {
	f := fields{}
	f.setServices(nameOf(in.Service))
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

// setServices sets "services" to all names in the form that Istio uses, and "service" to the first
// as "host;name;namespace", which request metrics can read (translate/telemetry). It does nothing
// without names.
func (f fields) setServices(names ...name) {
	if len(names) == 0 {
		return
	}
	values := make([]*structpb.Value, len(names))
	for i, n := range names {
		values[i] = n.toValue()
	}
	f["services"], f["service"] = listValue(values...), structpb.NewStringValue(names[0].String())
}

// String returns "host;name;namespace".
func (n name) String() string { return string(n.Host) + ";" + n.Name + ";" + n.Namespace }

// builtinMetadata returns the metadata of a cluster without a service. Metrics show the cluster's
// name as the service's name.
func builtinMetadata(cluster string) *corev3.Metadata {
	return fields{"service": structpb.NewStringValue(name{Name: cluster}.String())}.toMetadata()
}

func (n name) toValue() *structpb.Value {
	return structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{
		"host":      structpb.NewStringValue(string(n.Host)),
		"name":      structpb.NewStringValue(n.Name),
		"namespace": structpb.NewStringValue(n.Namespace),
	}})
}

func listValue(values ...*structpb.Value) *structpb.Value {
	return structpb.NewListValue(&structpb.ListValue{Values: values})
}

// objectKeys returns more, then the keys of the objects that the service and the rule derive from.
// svc and rule may be nil.
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
