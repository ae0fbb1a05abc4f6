package telemetry

import "google.golang.org/protobuf/types/known/structpb"

// textFormat is Istio's default format of access logs.
const textFormat = `[%START_TIME%] "%REQ(:METHOD)% %REQ(X-ENVOY-ORIGINAL-PATH?:PATH)% %PROTOCOL%" %RESPONSE_CODE% ` +
	`%RESPONSE_FLAGS% %RESPONSE_CODE_DETAILS% %CONNECTION_TERMINATION_DETAILS% "%UPSTREAM_TRANSPORT_FAILURE_REASON%" ` +
	`%BYTES_RECEIVED% %BYTES_SENT% %DURATION% %RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)% "%REQ(X-FORWARDED-FOR)%" ` +
	`"%REQ(USER-AGENT)%" "%REQ(X-REQUEST-ID)%" "%REQ(:AUTHORITY)%" "%UPSTREAM_HOST%" %UPSTREAM_CLUSTER_RAW% ` +
	`%UPSTREAM_LOCAL_ADDRESS% %DOWNSTREAM_LOCAL_ADDRESS% %DOWNSTREAM_REMOTE_ADDRESS% ` +
	`%REQUESTED_SERVER_NAME% %ROUTE_NAME%` + "\n"

// jsonFormat returns Istio's default format of access logs as JSON objects. It has the commands of
// textFormat.
func jsonFormat() *structpb.Struct {
	return stringFields(map[string]string{
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
	})
}

// stringFields converts a map of strings to a Struct. It is never nil.
func stringFields(m map[string]string) *structpb.Struct {
	s := &structpb.Struct{Fields: make(map[string]*structpb.Value, len(m))}
	for k, v := range m {
		s.Fields[k] = structpb.NewStringValue(v)
	}
	return s
}
