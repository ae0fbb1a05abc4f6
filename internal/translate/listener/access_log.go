package listener

import (
	"encoding/json"
	"strings"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	filelogv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/file/v3"
	reqwithoutqueryv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/formatter/req_without_query/v3"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"google.golang.org/protobuf/types/known/structpb"
)

// textFormat is the line that operators of Istio know.
const textFormat = `[%START_TIME%] "%REQ(:METHOD)% %REQ(X-ENVOY-ORIGINAL-PATH?:PATH)% %PROTOCOL%" %RESPONSE_CODE% ` +
	`%RESPONSE_FLAGS% %RESPONSE_CODE_DETAILS% %CONNECTION_TERMINATION_DETAILS% "%UPSTREAM_TRANSPORT_FAILURE_REASON%" ` +
	`%BYTES_RECEIVED% %BYTES_SENT% %DURATION% %RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)% "%REQ(X-FORWARDED-FOR)%" ` +
	`"%REQ(USER-AGENT)%" "%REQ(X-REQUEST-ID)%" "%REQ(:AUTHORITY)%" "%UPSTREAM_HOST%" %UPSTREAM_CLUSTER_RAW% ` +
	`%UPSTREAM_LOCAL_ADDRESS% %DOWNSTREAM_LOCAL_ADDRESS% %DOWNSTREAM_REMOTE_ADDRESS% %REQUESTED_SERVER_NAME% %ROUTE_NAME%` + "\n"

// jsonFormat is the same as a JSON object.
func jsonFormat() map[string]any {
	return map[string]any{
		"authority":                         "%REQ(:AUTHORITY)%",
		"bytes_received":                    "%BYTES_RECEIVED%",
		"bytes_sent":                        "%BYTES_SENT%",
		"connection_termination_details":    "%CONNECTION_TERMINATION_DETAILS%",
		"downstream_local_address":          "%DOWNSTREAM_LOCAL_ADDRESS%",
		"downstream_remote_address":         "%DOWNSTREAM_REMOTE_ADDRESS%",
		"duration":                          "%DURATION%",
		"method":                            "%REQ(:METHOD)%",
		"path":                              "%REQ(X-ENVOY-ORIGINAL-PATH?:PATH)%",
		"protocol":                          "%PROTOCOL%",
		"request_id":                        "%REQ(X-REQUEST-ID)%",
		"requested_server_name":             "%REQUESTED_SERVER_NAME%",
		"response_code":                     "%RESPONSE_CODE%",
		"response_code_details":             "%RESPONSE_CODE_DETAILS%",
		"response_flags":                    "%RESPONSE_FLAGS%",
		"route_name":                        "%ROUTE_NAME%",
		"start_time":                        "%START_TIME%",
		"upstream_cluster":                  "%UPSTREAM_CLUSTER_RAW%",
		"upstream_host":                     "%UPSTREAM_HOST%",
		"upstream_local_address":            "%UPSTREAM_LOCAL_ADDRESS%",
		"upstream_service_time":             "%RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)%",
		"upstream_transport_failure_reason": "%UPSTREAM_TRANSPORT_FAILURE_REASON%",
		"user_agent":                        "%REQ(USER-AGENT)%",
		"x_forwarded_for":                   "%REQ(X-FORWARDED-FOR)%",
	}
}

// accessLogs gives the file log that MeshConfig.accessLogFile asks for, none if it is empty. A format of the user's that
// Envoy would refuse is not used.
func accessLogs(mesh *meshconfig.MeshConfig) []*accesslogv3.AccessLog {
	if mesh.GetAccessLogFile() == "" {
		return nil
	}
	own := mesh.GetAccessLogFormat()
	if accessLogFault(mesh) != "" {
		own = ""
	}
	format := &corev3.SubstitutionFormatString{Formatters: formatters(own)}
	if mesh.GetAccessLogEncoding() == meshconfig.MeshConfig_JSON {
		format.Format = &corev3.SubstitutionFormatString_JsonFormat{JsonFormat: jsonLog(own)}
	} else {
		format.Format = &corev3.SubstitutionFormatString_TextFormatSource{TextFormatSource: &corev3.DataSource{
			Specifier: &corev3.DataSource_InlineString{InlineString: textLog(own)},
		}}
	}
	return []*accesslogv3.AccessLog{{
		Name: "envoy.access_loggers.file",
		ConfigType: &accesslogv3.AccessLog_TypedConfig{TypedConfig: packed(&filelogv3.FileAccessLog{
			Path:            mesh.GetAccessLogFile(),
			AccessLogFormat: &filelogv3.FileAccessLog_LogFormat{LogFormat: format},
		})},
	}}
}

// formatters gives the extensions for commands of a format that Envoy does not have built in.
func formatters(format string) []*corev3.TypedExtensionConfig {
	if !strings.Contains(format, "%REQ_WITHOUT_QUERY(") {
		return nil
	}
	return []*corev3.TypedExtensionConfig{{
		Name: "envoy.formatter.req_without_query", TypedConfig: packed(new(reqwithoutqueryv3.ReqWithoutQuery)),
	}}
}

func textLog(own string) string {
	if own == "" {
		return textFormat
	}
	if !strings.HasSuffix(own, "\n") {
		own += "\n"
	}
	return own
}

// jsonLog reads a user's format, which is a JSON object as text; one that cannot be read gives the default.
func jsonLog(own string) *structpb.Struct {
	fields := jsonFormat()
	if own != "" {
		var given map[string]any
		if json.Unmarshal([]byte(own), &given) == nil {
			fields = given
		}
	}
	s, err := structpb.NewStruct(fields)
	if err != nil {
		s, _ = structpb.NewStruct(jsonFormat())
	}
	return s
}
