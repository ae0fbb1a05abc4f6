package readapi

import (
	"cmp"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// purposeOf returns the text that follows the name of an object of the kind in a sentence, such as
// "routes requests and connections for its hosts". It returns "" for an unknown kind.
func purposeOf(kind api.Kind) string {
	switch kind {
	case api.VirtualService:
		return "routes requests and connections for its hosts"
	case api.DestinationRule:
		return "sets load balancing, connection pools, TLS and subsets of calls to its host"
	case api.Gateway:
		return "opens ports of the gateways that its selector selects, for its hosts"
	case api.ServiceEntry:
		return "defines services, with their ports and endpoints"
	case api.WorkloadEntry:
		return "defines a workload, which is an endpoint of the services that select it"
	case api.WorkloadGroup:
		return "is the template of the WorkloadEntries of workloads that register themselves"
	case api.Sidecar:
		return "limits the services that its proxies know, and sets their listeners"
	case api.EnvoyFilter:
		return "patches generated resources"
	case api.ProxyConfig:
		return "sets the bootstrap of its proxies"
	case api.AuthorizationPolicy:
		return "allows or denies calls to its workloads"
	case api.PeerAuthentication:
		return "sets the mutual TLS mode of connections to its workloads"
	case api.RequestAuthentication:
		return "accepts tokens in requests to its workloads"
	case api.Telemetry:
		return "sets access logs, metrics and spans of its proxies"
	case api.WasmPlugin, api.TrafficExtension:
		return "adds a filter to its proxies"
	default:
		return purposeOfKubernetes(kind)
	}
}

// purposeOfKubernetes returns a phrase about what objects of a Kubernetes kind do, or of a kind of
// the Gateway API (purposeOfGatewayAPI). It returns "" for other kinds.
func purposeOfKubernetes(kind api.Kind) string {
	switch kind {
	case api.Service:
		return "defines a service, with its ports and addresses"
	case api.EndpointSlice:
		return "lists endpoints of a service"
	case api.Pod:
		return "is a workload, and an endpoint of the services that select it"
	case api.Namespace:
		return "selects by its labels which objects are read, and the network of its workloads"
	case api.Node:
		return "sets the locality of its pods"
	case api.Secret:
		return "has a certificate that proxies may be sent"
	case api.RemoteSecret:
		return "has a certificate of another cluster that proxies may be sent"
	case api.ConfigMap:
		return "has settings of the mesh, or certificates that proxies may be sent"
	case api.Ingress:
		return "routes requests from outside, as a Gateway and VirtualServices"
	case api.IngressClass:
		return "selects the controller of Ingresses"
	case api.ServiceExport:
		return "exports a service to the other clusters"
	case api.ServiceImport:
		return "imports a service of the other clusters"
	default:
		return purposeOfGatewayAPI(kind)
	}
}

// purposeOfGatewayAPI returns a phrase about what objects of a kind of the Gateway API do, or ""
// for another kind.
func purposeOfGatewayAPI(kind api.Kind) string {
	switch kind {
	case api.GatewayClass:
		return "selects the controller and the settings of Gateways"
	case api.KubernetesGateway, api.ListenerSet:
		return "opens ports of a gateway, for its hosts"
	case api.HTTPRoute, api.GRPCRoute:
		return "routes requests of the Gateways and Services that it is attached to"
	case api.TLSRoute, api.TCPRoute, api.UDPRoute:
		return "routes connections of the Gateways and Services that it is attached to"
	case api.ReferenceGrant:
		return "permits references from other namespaces"
	case api.BackendTLSPolicy:
		return "sets TLS of calls to a backend"
	case api.XBackendTrafficPolicy:
		return "limits retries of calls to a backend"
	case api.XMesh:
		return "reports the features of the mesh"
	case api.XBackend:
		return "defines an external service that routes call"
	case api.InferencePool:
		return "defines a service of model servers, whose endpoint a picker chooses"
	default:
		return ""
	}
}

// describeSettings returns the fields of the spec of an object that the snapshot keeps, or the
// services and endpoints made from a Service or Pod. It returns nil for other kinds, for kept
// objects whose spec is no protobuf message, and if the snapshot has nothing of the object.
func describeSettings(s *snapshot.Snapshot, k config.Key) []string {
	if c := s.Config(k); c != nil {
		if m, ok := c.Spec.(proto.Message); ok {
			return describeFields(m.ProtoReflect())
		}
		return nil
	}
	switch k.Kind {
	case api.Service:
		return describeService(s, k)
	case api.Pod:
		return describePod(s, k)
	default:
		return nil
	}
}

// maxItems limits the values of a field that are listed.
const maxItems = 5

// describeFields returns a line "NAME: VALUE" for each field of a spec that is set, with the value
// in the form of describeValue. An enum is also listed if it has its first value and that is a
// setting, as in tls: {mode: DISABLE}.
func describeFields(m protoreflect.Message) []string {
	var lines []string
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		if !m.Has(f) && !isFirstValueSetting(f) {
			continue
		}
		lines = append(lines, f.JSONName()+": "+describeValue(f, m.Get(f)))
	}
	return lines
}

// isFirstValueSetting reports whether f is an enum whose presence is unknown, because its first
// value is not encoded, and whose first value is a setting: DISABLE, but not UNSET.
func isFirstValueSetting(f protoreflect.FieldDescriptor) bool {
	if f.Enum() == nil || f.HasPresence() || f.IsList() || f.IsMap() {
		return false
	}
	name := string(f.Enum().Values().ByNumber(0).Name())
	return !strings.HasPrefix(name, "UNSET") && !strings.HasPrefix(name, "UNSPECIFIED")
}

// describeValue returns the value of a field in one line: at most maxItems elements of a map,
// sorted, or of a list, and messages in braces. Maps of messages have only their keys. Messages for
// a single value, such as BoolValue and Duration, are described by it. An enum value is its name,
// or its number if it is unknown.
func describeValue(f protoreflect.FieldDescriptor, v protoreflect.Value) string {
	switch {
	case f.IsMap():
		var parts []string
		v.Map().Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
			part := k.String()
			if f.MapValue().Message() == nil {
				part += "=" + v.String()
			}
			parts = append(parts, part)
			return true
		})
		slices.Sort(parts)
		return joinSome(parts)
	case f.IsList() && f.Message() == nil:
		var parts []string
		for i := range v.List().Len() {
			parts = append(parts, v.List().Get(i).String())
		}
		return joinSome(parts)
	case f.IsList():
		return describeList(v.List())
	case f.Message() != nil:
		if text, ok := describeWrapped(v.Message()); ok {
			return text
		}
		parts := describeFields(v.Message())
		if len(parts) == 0 {
			return "{}"
		}
		return "{" + strings.Join(parts, "; ") + "}"
	case f.Enum() != nil:
		if x := f.Enum().Values().ByNumber(v.Enum()); x != nil {
			return string(x.Name())
		}
		return fmt.Sprint(v.Enum())
	default:
		return v.String()
	}
}

// describeWrapped returns the value of a Duration or of any wrapper, such as BoolValue, as text,
// and false for other messages.
func describeWrapped(m protoreflect.Message) (string, bool) {
	if d, ok := m.Interface().(*durationpb.Duration); ok {
		return d.AsDuration().String(), true
	}
	if m.Descriptor().ParentFile().Path() != wrapperspb.File_google_protobuf_wrappers_proto.Path() {
		return "", false
	}
	return m.Get(m.Descriptor().Fields().ByName("value")).String(), true
}

// describeList returns the names of the elements of a list of messages, or their number if one of
// them has no name. Of more than maxItems names, the others are only counted.
func describeList(l protoreflect.List) string {
	var names []string
	for i := range l.Len() {
		m := l.Get(i).Message()
		if f := m.Descriptor().Fields().ByName("name"); f != nil && f.Kind() == protoreflect.StringKind &&
			m.Get(f).String() != "" {
			names = append(names, m.Get(f).String())
		}
	}
	if len(names) == l.Len() {
		return joinSome(names)
	}
	return fmt.Sprint(l.Len())
}

// joinSome joins at most maxItems texts by commas, and adds the number of the others.
func joinSome(parts []string) string {
	text := strings.Join(parts[:min(len(parts), maxItems)], ", ")
	if more := len(parts) - maxItems; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// describeService returns a line with host, ports and number of endpoints for each service made
// from the Kubernetes Service k.
func describeService(s *snapshot.Snapshot, k config.Key) []string {
	var lines []string
	for _, svc := range s.Services() {
		if svc.From != k {
			continue
		}
		var ports []string
		for _, p := range svc.Ports {
			ports = append(ports, fmt.Sprintf("%d (%s)", p.Number, p.Name))
		}
		lines = append(lines, fmt.Sprintf("host: %s; ports: %s; endpoints: %d",
			svc.Host, joinSome(ports), len(s.Endpoints(svc.ServiceKey).Endpoints)))
	}
	return lines
}

// describePod returns a line for each endpoint of a service that is the pod k, at most maxUses.
func describePod(s *snapshot.Snapshot, k config.Key) []string {
	var lines []string
	for _, svc := range s.Services() {
		for _, e := range s.Endpoints(svc.ServiceKey).Endpoints {
			if e.Workload == k.Name && e.Namespace == k.Namespace && len(lines) < maxUses {
				at := net.JoinHostPort(e.Address, strconv.FormatUint(uint64(e.Port), 10))
				lines = append(lines, fmt.Sprintf("endpoint: %s of %s, port %s, %s",
					at, svc.Host, e.ServicePort, cmp.Or(e.Health, "HEALTHY")))
			}
		}
	}
	return lines
}
