package telemetry

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	grpclogv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/grpc/v3"
	otellogv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/open_telemetry/v3"
	commonv1 "go.opentelemetry.io/proto/otlp/common/v1"

	"google.golang.org/protobuf/types/known/structpb"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/snapshot/view"
)

// Names of Envoy's loggers to services.
const (
	httpServiceLog   = "envoy.access_loggers.http_grpc"
	tcpServiceLog    = "envoy.access_loggers.tcp_grpc"
	openTelemetryLog = "envoy.access_loggers.open_telemetry"
)

// bootstrapService is the cluster of ProxyConfig.envoyAccessLogService, which the bootstrap
// defines.
const bootstrapService = "envoy_accesslog_service"

// Default names of logs, as services receive them.
const (
	httpLogName          = "http_envoy_accesslog"
	tcpLogName           = "tcp_envoy_accesslog"
	listenerLogName      = "listener_envoy_accesslog"
	openTelemetryLogName = "otel_envoy_accesslog"
)

// httpService returns the config of a logger that sends logs of HTTP requests to the gRPC service
// at. The default name of the log is httpLogName.
func httpService(
	p *meshconfig.MeshConfig_ExtensionProvider_EnvoyHttpGrpcV3LogProvider,
	at service,
) *grpclogv3.HttpGrpcAccessLogConfig {
	return &grpclogv3.HttpGrpcAccessLogConfig{
		CommonConfig: serviceConfig(
			cmp.Or(p.GetLogName(), httpLogName),
			at,
			p.GetFilterStateObjectsToLog(),
		),
		AdditionalRequestHeadersToLog:   p.GetAdditionalRequestHeadersToLog(),
		AdditionalResponseHeadersToLog:  p.GetAdditionalResponseHeadersToLog(),
		AdditionalResponseTrailersToLog: p.GetAdditionalResponseTrailersToLog(),
	}
}

// tcpService returns the config of a logger that sends logs of connections to the gRPC service at.
// The default name of the log is tcpLogName.
func tcpService(
	p *meshconfig.MeshConfig_ExtensionProvider_EnvoyTcpGrpcV3LogProvider,
	at service,
) *grpclogv3.TcpGrpcAccessLogConfig {
	return &grpclogv3.TcpGrpcAccessLogConfig{
		CommonConfig: serviceConfig(cmp.Or(p.GetLogName(), tcpLogName), at, p.GetFilterStateObjectsToLog()),
	}
}

// serviceConfig returns the common config of loggers that send records to a service over gRPC: the
// log's name, the service, and the names of the filter state objects in each record.
func serviceConfig(name string, at service, filterState []string) *grpclogv3.CommonGrpcAccessLogConfig {
	return &grpclogv3.CommonGrpcAccessLogConfig{
		LogName:                 name,
		GrpcService:             grpcService(at),
		TransportApiVersion:     corev3.ApiVersion_V3,
		FilterStateObjectsToLog: filterState,
	}
}

// grpcService returns the gRPC service at the cluster of at, with its host as authority.
func grpcService(at service) *corev3.GrpcService {
	return &corev3.GrpcService{TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{
		EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{ClusterName: at.cluster, Authority: at.host},
	}}
}

// openTelemetryService returns the config of a logger that sends records to the OpenTelemetry
// service at. The text of the format is the body, by default Istio's, and its labels are the
// attributes; if Envoy would refuse either, both are dropped. Envoy adds no attributes of its own.
// The default name of the log is openTelemetryLogName. Envoys that lack
// view.OpenTelemetryLogService get the deprecated common_config.
func (m *builder) openTelemetryService(
	p *meshconfig.MeshConfig_ExtensionProvider_EnvoyOpenTelemetryLogProvider,
	at service,
) *otellogv3.OpenTelemetryAccessLogConfig {
	out := &otellogv3.OpenTelemetryAccessLogConfig{DisableBuiltinLabels: true}
	if name := cmp.Or(p.GetLogName(), openTelemetryLogName); m.lacks.Has(view.OpenTelemetryLogService) {
		out.CommonConfig = serviceConfig(name, at, nil) //nolint:staticcheck // older Envoys know no other
	} else {
		out.LogName, out.GrpcService = name, grpcService(at)
	}
	body, labels := p.GetLogFormat().GetText(), p.GetLogFormat().GetLabels()
	if formatFault(body, labels) != "" {
		body, labels = "", nil
	}
	out.Body = textValue(cmp.Or(body, strings.TrimSuffix(textFormat, "\n")))
	if len(labels.GetFields()) > 0 {
		out.Attributes = attributeList(labels)
	}
	out.Formatters = formatters(body + " " + labels.String())
	return out
}

// attributeList converts the fields of a struct to OpenTelemetry attributes, sorted by name, with
// their values converted by attributeValue. Nested structs are converted in the same way. If fields
// is nil or empty, the list is empty.
func attributeList(fields *structpb.Struct) *commonv1.KeyValueList {
	list := new(commonv1.KeyValueList)
	for _, name := range slices.Sorted(maps.Keys(fields.GetFields())) {
		list.Values = append(
			list.Values,
			&commonv1.KeyValue{Key: name, Value: attributeValue(fields.GetFields()[name])},
		)
	}
	return list
}

// attributeValue converts a value to the types that Envoy accepts in attributes: a text with
// commands, a list or a list of attributes. Numbers, booleans and null become their JSON text.
func attributeValue(v *structpb.Value) *commonv1.AnyValue {
	switch k := v.GetKind().(type) {
	case *structpb.Value_StringValue:
		return textValue(k.StringValue)
	case *structpb.Value_StructValue:
		return &commonv1.AnyValue{Value: &commonv1.AnyValue_KvlistValue{KvlistValue: attributeList(k.StructValue)}}
	case *structpb.Value_ListValue:
		list := new(commonv1.ArrayValue)
		for _, one := range k.ListValue.GetValues() {
			list.Values = append(list.Values, attributeValue(one))
		}
		return &commonv1.AnyValue{Value: &commonv1.AnyValue_ArrayValue{ArrayValue: list}}
	default: // Envoy's formatter accepts nothing else.
		text, err := v.MarshalJSON()
		if err != nil {
			return textValue("")
		}
		return textValue(string(text))
	}
}

// textValue returns an OpenTelemetry value that is a string.
func textValue(s string) *commonv1.AnyValue {
	return &commonv1.AnyValue{Value: &commonv1.AnyValue_StringValue{StringValue: s}}
}
