package cluster

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// istioMetadata is the key below which users, dashboards and istioctl look for where a cluster came from.
const istioMetadata = "istio"

type fields map[string]*structpb.Value

func (f fields) proto() *corev3.Metadata {
	if len(f) == 0 {
		return nil
	}
	return &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{istioMetadata: f.message()}}
}

func (f fields) message() *structpb.Struct { return &structpb.Struct{Fields: f} }

func outboundMetadata(in OutboundInput) *corev3.Metadata {
	f := fields{}
	f.putServices(nameOf(in.Service))
	f.putRule(in.Rule)
	if in.Subset != "" {
		f["subset"] = structpb.NewStringValue(in.Subset)
	}
	if in.Service.MeshExternal {
		f["external"] = structpb.NewBoolValue(true)
	}
	return f.proto()
}

// putRule names the DestinationRule by its path at an API server; of several that were merged, the one whose policy counts.
func (f fields) putRule(r *snapshot.DestinationRule) {
	if r != nil && len(r.From) > 0 {
		f["config"] = structpb.NewStringValue("/apis/networking.istio.io/v1/namespaces/" + r.From[0].Namespace + "/destination-rule/" + r.From[0].Name)
	}
}

// name is how metadata and statistics call a service.
type name struct {
	Host            mesh.Hostname
	Name, Namespace string
}

// nameOf gives a service's name. Only those of Kubernetes have one apart from their host.
func nameOf(svc *mesh.Service) name {
	n := name{Host: svc.Host, Name: string(svc.Host), Namespace: svc.Namespace}
	if svc.Provider == mesh.Kubernetes {
		n.Name = svc.Name
	}
	return n
}

// putServices names the services of a cluster: all in the form that users know, the first also as "host;name;namespace", which
// is what metrics of requests can have in them (translate/telemetry).
func (f fields) putServices(names ...name) {
	if len(names) == 0 {
		return
	}
	values := make([]*structpb.Value, len(names))
	for i, n := range names {
		values[i] = n.proto()
	}
	f["services"], f["service"] = list(values...), structpb.NewStringValue(names[0].String())
}

// String is "host;name;namespace".
func (n name) String() string { return string(n.Host) + ";" + n.Name + ";" + n.Namespace }

// builtinMetadata is what metrics show as the service of requests that are for none.
func builtinMetadata(cluster string) *corev3.Metadata {
	return fields{"service": structpb.NewStringValue(name{Name: cluster}.String())}.proto()
}

func (n name) proto() *structpb.Value {
	return structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{
		"host":      structpb.NewStringValue(string(n.Host)),
		"name":      structpb.NewStringValue(n.Name),
		"namespace": structpb.NewStringValue(n.Namespace),
	}})
}

func list(values ...*structpb.Value) *structpb.Value {
	return structpb.NewListValue(&structpb.ListValue{Values: values})
}

// from collects the keys of the objects that shaped a cluster.
func from(svc *mesh.Service, rule *snapshot.DestinationRule, more ...config.Key) []config.Key {
	keys := more
	if svc != nil {
		keys = svc.AppendObjects(keys)
	}
	if rule != nil {
		keys = append(keys, rule.From...)
	}
	return keys
}
