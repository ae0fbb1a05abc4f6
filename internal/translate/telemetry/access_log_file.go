package telemetry

import (
	"encoding/json"
	"fmt"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	filelogv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/file/v3"
	reqwithoutqueryv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/formatter/req_without_query/v3"

	"google.golang.org/protobuf/types/known/structpb"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/resource"
)

// fileLog is the name of Envoy's logger to files.
const fileLog = "envoy.access_loggers.file"

// meshLogs adds what MeshConfig asks for without providers: accessLogFile, enableEnvoyAccessLogService.
func (m *maker) meshLogs(out *Side) {
	mesh := m.settings.Mesh
	if path := mesh.GetAccessLogFile(); path != "" {
		l := accessLog(fileLog, &filelogv3.FileAccessLog{Path: path, AccessLogFormat: logFormat(meshFormat(mesh))}, "")
		out.HTTPLogs, out.TCPLogs = append(out.HTTPLogs, l), append(out.TCPLogs, l)
		out.ListenerLogs = append(out.ListenerLogs, unmatchedOnly(l))
	}
	if m.logService {
		l := accessLog(httpServiceLog, httpService(&meshconfig.MeshConfig_ExtensionProvider_EnvoyHttpGrpcV3LogProvider{}, service{cluster: bootstrapService}), "")
		out.HTTPLogs = append(out.HTTPLogs, l)
	}
}

// meshFormat is the format of MeshConfig.accessLogFormat and accessLogEncoding. One that Envoy would refuse is not used.
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

// meshFormatFault says why Envoy would refuse MeshConfig.accessLogFormat; "" if it would not. One wrong command would keep
// every proxy from taking any listener.
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

// fileProvider is a provider that logs to a file. A format that Envoy would refuse is not used.
func fileProvider(p *meshconfig.MeshConfig_ExtensionProvider_EnvoyFileAccessLogProvider) *filelogv3.FileAccessLog {
	omit := p.GetOmitEmptyValues()
	format := textLog("", omit)
	if formatFault(p.GetLogFormat().GetText(), p.GetLogFormat().GetLabels()) == "" {
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

// formatFault says what is wrong with a provider's format, text or labels.
func formatFault(text string, labels *structpb.Struct) string {
	if fault := config.FormatFault(text); fault != "" {
		return fault
	}
	return config.FormatsFault(labels.AsMap())
}

func logFormat(f *corev3.SubstitutionFormatString) *filelogv3.FileAccessLog_LogFormat {
	return &filelogv3.FileAccessLog_LogFormat{LogFormat: f}
}

// textLog is a line of a user's, which ends where the line does; the line that operators know if it is empty.
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

// jsonLog is a JSON object for each line; the one that operators know if it has no fields.
func jsonLog(own *structpb.Struct, omitEmpty bool) *corev3.SubstitutionFormatString {
	if len(own.GetFields()) == 0 {
		own = jsonFormat()
	}
	return &corev3.SubstitutionFormatString{
		Formatters: formatters(fmt.Sprint(own.AsMap())), OmitEmptyValues: omitEmpty,
		Format: &corev3.SubstitutionFormatString_JsonFormat{JsonFormat: own},
	}
}

// jsonFields reads a user's format, which is a JSON object as text; nil where it cannot be read.
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

// formatters gives the extensions for commands of a format that Envoy does not have built in.
func formatters(format string) []*corev3.TypedExtensionConfig {
	if !strings.Contains(format, "%REQ_WITHOUT_QUERY(") {
		return nil
	}
	return []*corev3.TypedExtensionConfig{{
		Name: "envoy.formatter.req_without_query", TypedConfig: resource.Pack(new(reqwithoutqueryv3.ReqWithoutQuery)),
	}}
}
