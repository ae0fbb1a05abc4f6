package telemetry

import (
	"encoding/json"
	"fmt"
	"strings"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	filelogv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/file/v3"
	reqwithoutqueryv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/formatter/req_without_query/v3"

	"google.golang.org/protobuf/types/known/structpb"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/resource"
)

// fileLog is the name of Envoy's file logger.
const fileLog = "envoy.access_loggers.file"

// addMeshLogs adds to out the access logs that MeshConfig configures without providers: the file
// accessLogFile, and the proxy's log service if m.logService is set. Both get requests,
// connections, and the unmatched connections of listeners, which the service gets as a log of its
// own name.
func (m *builder) addMeshLogs(out *Side) {
	mesh := m.settings.Mesh
	if path := mesh.GetAccessLogFile(); path != "" {
		l := accessLog(fileLog, &filelogv3.FileAccessLog{Path: path, AccessLogFormat: logFormat(meshFormat(mesh))}, "")
		out.HTTPLogs, out.TCPLogs = append(out.HTTPLogs, l), append(out.TCPLogs, l)
		out.ListenerLogs = append(out.ListenerLogs, unmatchedOnly(l))
	}
	if !m.logService {
		return
	}
	at := service{cluster: bootstrapService}
	connections := func(name string) *accesslogv3.AccessLog {
		return accessLog(tcpServiceLog, tcpService(
			&meshconfig.MeshConfig_ExtensionProvider_EnvoyTcpGrpcV3LogProvider{LogName: name}, at), "")
	}
	out.HTTPLogs = append(out.HTTPLogs, accessLog(httpServiceLog, httpService(nil, at), ""))
	out.TCPLogs = append(out.TCPLogs, connections(tcpLogName))
	out.ListenerLogs = append(out.ListenerLogs, unmatchedOnly(connections(listenerLogName)))
}

// meshFormat returns the format of MeshConfig.accessLogFormat in the encoding accessLogEncoding. It
// returns the default format of that encoding if none is set, if JSON fields cannot be parsed, or
// if Envoy would refuse the format.
func meshFormat(mesh *meshconfig.MeshConfig) *corev3.SubstitutionFormatString {
	own := mesh.GetAccessLogFormat()
	if meshFormatFault(mesh) != "" {
		own = ""
	}
	if mesh.GetAccessLogEncoding() == meshconfig.MeshConfig_JSON {
		return jsonLog(jsonFields(own), false)
	}
	return textLog(own, false)
}

// meshFormatFault returns why Envoy would refuse MeshConfig.accessLogFormat, or "" if it would not
// or the format is not set. One invalid command would make every proxy reject all listeners.
func meshFormatFault(m *meshconfig.MeshConfig) string {
	own := m.GetAccessLogFormat()
	if own == "" {
		return ""
	}
	if m.GetAccessLogEncoding() != meshconfig.MeshConfig_JSON {
		return config.FormatFault(own)
	}
	var fields map[string]any
	if err := json.Unmarshal([]byte(own), &fields); err != nil {
		return fmt.Sprintf("is not a JSON object (%v)", err)
	}
	return config.FormatsFault(fields)
}

// fileProvider returns the config of a provider that logs to a file, by default /dev/stdout. A
// format that Envoy would refuse is replaced by the default. A provider with the name of the
// built-in one, envoy, has the format of MeshConfig, unless it sets logFormat or omitEmptyValues.
func (m *builder) fileProvider(
	name string,
	p *meshconfig.MeshConfig_ExtensionProvider_EnvoyFileAccessLogProvider,
) *filelogv3.FileAccessLog {
	omit := p.GetOmitEmptyValues()
	format := textLog("", omit)
	if name == builtinLog && p.GetLogFormat() == nil && !omit {
		format = meshFormat(m.settings.Mesh)
	} else if formatFault(p.GetLogFormat().GetText(), p.GetLogFormat().GetLabels()) == "" {
		switch f := p.GetLogFormat().GetLogFormat().(type) {
		case *meshconfig.MeshConfig_ExtensionProvider_EnvoyFileAccessLogProvider_LogFormat_Text:
			format = textLog(f.Text, omit)
		case *meshconfig.MeshConfig_ExtensionProvider_EnvoyFileAccessLogProvider_LogFormat_Labels:
			format = jsonLog(f.Labels, omit)
		}
	}
	path := p.GetPath()
	if path == "" {
		path = "/dev/stdout"
	}
	return &filelogv3.FileAccessLog{Path: path, AccessLogFormat: logFormat(format)}
}

// formatFault returns why Envoy would refuse a provider's format, text or labels, or "".
func formatFault(text string, labels *structpb.Struct) string {
	if fault := config.FormatFault(text); fault != "" {
		return fault
	}
	return config.FormatsFault(labels.AsMap())
}

// logFormat returns f as the format of a file logger.
func logFormat(f *corev3.SubstitutionFormatString) *filelogv3.FileAccessLog_LogFormat {
	return &filelogv3.FileAccessLog_LogFormat{LogFormat: f}
}

// textLog returns the text format own with a newline at its end, or the default format if own is
// "". If omitEmpty is set, empty values are left out.
func textLog(own string, omitEmpty bool) *corev3.SubstitutionFormatString {
	line := own
	switch {
	case own == "":
		line = textFormat
	case !strings.HasSuffix(own, "\n"):
		line += "\n"
	}
	return &corev3.SubstitutionFormatString{
		Formatters: formatters(own), OmitEmptyValues: omitEmpty,
		Format: &corev3.SubstitutionFormatString_TextFormatSource{TextFormatSource: &corev3.DataSource{
			Specifier: &corev3.DataSource_InlineString{InlineString: line},
		}},
	}
}

// jsonLog returns the format own as one JSON object per line, or the default format if own has no
// fields. If omitEmpty is set, empty values are left out.
func jsonLog(own *structpb.Struct, omitEmpty bool) *corev3.SubstitutionFormatString {
	if len(own.GetFields()) == 0 {
		own = jsonFormat()
	}
	return &corev3.SubstitutionFormatString{
		Formatters: formatters(fmt.Sprint(own.AsMap())), OmitEmptyValues: omitEmpty,
		Format: &corev3.SubstitutionFormatString_JsonFormat{JsonFormat: own},
	}
}

// jsonFields parses a user's format, a JSON object as text. It returns nil if it cannot be parsed.
func jsonFields(own string) *structpb.Struct {
	var given map[string]any
	if json.Unmarshal([]byte(own), &given) != nil {
		return nil
	}
	s, err := structpb.NewStruct(given)
	if err != nil {
		return nil
	}
	return s
}

// formatters returns the extensions for commands in a format that Envoy does not have built in, or
// nil.
func formatters(format string) []*corev3.TypedExtensionConfig {
	if !strings.Contains(format, "%REQ_WITHOUT_QUERY(") {
		return nil
	}
	return []*corev3.TypedExtensionConfig{{
		Name: "envoy.formatter.req_without_query", TypedConfig: resource.Pack(new(reqwithoutqueryv3.ReqWithoutQuery)),
	}}
}
