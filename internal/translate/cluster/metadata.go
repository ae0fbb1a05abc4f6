package cluster

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/meshpilot/meshpilot/internal/config"
	"github.com/meshpilot/meshpilot/internal/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// istioMetadata is the key below which users, dashboards and istioctl look for where a cluster came from.
const istioMetadata = "istio"

type fields map[string]*structpb.Value

func (f fields) proto() *corev3.Metadata {
	if len(f) == 0 {
		return nil
	}
	return &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{istioMetadata: {Fields: f}}}
}

func outboundMetadata(in OutboundInput) *corev3.Metadata {
	f := fields{"services": list(serviceName(in.Service))}
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

func serviceName(svc *mesh.Service) *structpb.Value { return nameOf(svc).proto() }

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
	if svc != nil && svc.From != (config.Key{}) {
		keys = append(keys, svc.From)
	}
	if rule != nil {
		keys = append(keys, rule.From...)
	}
	return keys
}
