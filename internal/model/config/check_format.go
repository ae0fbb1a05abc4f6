package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// The commands of Envoy 1.40, each followed by a space. bareCommands have no parameters,
// optionalCommands may have them, and parameterCommands require them.
const (
	bareCommands = `ACCESS_LOG_TYPE BYTES_RECEIVED BYTES_RETRANSMITTED BYTES_SENT CONNECTION_ID ` +
		`CONNECTION_TERMINATION_DETAILS ` +
		`CUSTOM_FLAGS DOWNSTREAM_CX_RTT DOWNSTREAM_DECOMPRESSED_HEADER_BYTES_RECEIVED ` +
		`DOWNSTREAM_DECOMPRESSED_HEADER_BYTES_SENT DOWNSTREAM_DETECTED_CLOSE_TYPE DOWNSTREAM_DIRECT_LOCAL_ADDRESS ` +
		`DOWNSTREAM_DIRECT_LOCAL_ADDRESS_ENDPOINT_ID DOWNSTREAM_DIRECT_LOCAL_ADDRESS_WITHOUT_PORT ` +
		`DOWNSTREAM_DIRECT_LOCAL_PORT DOWNSTREAM_DIRECT_REMOTE_ADDRESS DOWNSTREAM_DIRECT_REMOTE_ADDRESS_WITHOUT_PORT ` +
		`DOWNSTREAM_DIRECT_REMOTE_PORT DOWNSTREAM_HANDSHAKE_DURATION DOWNSTREAM_HEADER_BYTES_RECEIVED ` +
		`DOWNSTREAM_HEADER_BYTES_SENT DOWNSTREAM_LOCAL_ADDRESS DOWNSTREAM_LOCAL_ADDRESS_ENDPOINT_ID ` +
		`DOWNSTREAM_LOCAL_ADDRESS_WITHOUT_PORT DOWNSTREAM_LOCAL_CLOSE_REASON DOWNSTREAM_LOCAL_DNS_SAN ` +
		`DOWNSTREAM_LOCAL_EMAIL_SAN DOWNSTREAM_LOCAL_IP_SAN DOWNSTREAM_LOCAL_OTHERNAME_SAN DOWNSTREAM_LOCAL_PORT ` +
		`DOWNSTREAM_LOCAL_SUBJECT DOWNSTREAM_LOCAL_URI_SAN DOWNSTREAM_PEER_CERT DOWNSTREAM_PEER_CHAIN_SERIALS ` +
		`DOWNSTREAM_PEER_DNS_SAN DOWNSTREAM_PEER_EMAIL_SAN DOWNSTREAM_PEER_FINGERPRINT_1 ` +
		`DOWNSTREAM_PEER_FINGERPRINT_256 DOWNSTREAM_PEER_IP_SAN DOWNSTREAM_PEER_ISSUER DOWNSTREAM_PEER_ISSUER_SERIAL ` +
		`DOWNSTREAM_PEER_OTHERNAME_SAN DOWNSTREAM_PEER_SERIAL DOWNSTREAM_PEER_SUBJECT DOWNSTREAM_PEER_URI_SAN ` +
		`DOWNSTREAM_REMOTE_ADDRESS DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT DOWNSTREAM_REMOTE_PORT ` +
		`DOWNSTREAM_TLS_CIPHER DOWNSTREAM_TLS_GROUP DOWNSTREAM_TLS_SESSION_ID DOWNSTREAM_TLS_VERSION ` +
		`DOWNSTREAM_TRANSPORT_FAILURE_REASON DOWNSTREAM_WIRE_BYTES_RECEIVED DOWNSTREAM_WIRE_BYTES_SENT DURATION ` +
		`FILTER_CHAIN_NAME GRPC_STATUS_NUMBER HOSTNAME LISTENER_NAME LOCAL_REPLY_BODY PROTOCOL QUERY_PARAMS ` +
		`REQUEST_DURATION REQUEST_HEADERS_BYTES REQUEST_TX_DURATION RESPONSE_CODE RESPONSE_CODE_DETAILS ` +
		`RESPONSE_DURATION RESPONSE_FLAGS RESPONSE_FLAGS_LONG RESPONSE_HEADERS_BYTES RESPONSE_TRAILERS_BYTES ` +
		`RESPONSE_TX_DURATION ROUNDTRIP_DURATION ROUTE_NAME ROUTE_RESOLUTION_COUNT ROUTE_RESOLUTION_TIME_US SPAN_ID ` +
		`STREAM_ID TLS_JA3_FINGERPRINT TLS_JA4_FINGERPRINT TRACE_ID UNIQUE_ID UPSTREAM_CLUSTER UPSTREAM_CLUSTER_RAW ` +
		`UPSTREAM_CONNECTION_ID UPSTREAM_CONNECTION_IDS_ATTEMPTED UPSTREAM_CONNECTION_POOL_READY_DURATION ` +
		`UPSTREAM_DECOMPRESSED_HEADER_BYTES_RECEIVED UPSTREAM_DECOMPRESSED_HEADER_BYTES_SENT ` +
		`UPSTREAM_DETECTED_CLOSE_TYPE UPSTREAM_HEADER_BYTES_RECEIVED UPSTREAM_HEADER_BYTES_SENT UPSTREAM_HOST ` +
		`UPSTREAM_HOSTS_ATTEMPTED UPSTREAM_HOSTS_ATTEMPTED_WITHOUT_PORT UPSTREAM_HOST_NAME ` +
		`UPSTREAM_HOST_NAMES_ATTEMPTED UPSTREAM_HOST_NAMES_ATTEMPTED_WITHOUT_PORT UPSTREAM_HOST_NAME_WITHOUT_PORT ` +
		`UPSTREAM_LOCAL_ADDRESS UPSTREAM_LOCAL_ADDRESS_WITHOUT_PORT UPSTREAM_LOCAL_CLOSE_REASON ` +
		`UPSTREAM_LOCAL_DNS_SAN UPSTREAM_LOCAL_IP_SAN UPSTREAM_LOCAL_PORT UPSTREAM_LOCAL_URI_SAN UPSTREAM_PEER_CERT ` +
		`UPSTREAM_PEER_DNS_SAN UPSTREAM_PEER_IP_SAN UPSTREAM_PEER_ISSUER UPSTREAM_PEER_SUBJECT UPSTREAM_PEER_URI_SAN ` +
		`UPSTREAM_PROTOCOL UPSTREAM_REMOTE_ADDRESS UPSTREAM_REMOTE_ADDRESS_ENDPOINT_ID ` +
		`UPSTREAM_REMOTE_ADDRESS_WITHOUT_PORT UPSTREAM_REMOTE_PORT UPSTREAM_REQUEST_ATTEMPT_COUNT ` +
		`UPSTREAM_SERVER_NAME UPSTREAM_TLS_CIPHER UPSTREAM_TLS_GROUP UPSTREAM_TLS_SESSION_ID UPSTREAM_TLS_VERSION ` +
		`UPSTREAM_TRANSPORT_FAILURE_REASON UPSTREAM_WIRE_BYTES_RECEIVED UPSTREAM_WIRE_BYTES_SENT VIRTUAL_CLUSTER_NAME `
	optionalCommands = `DOWNSTREAM_PEER_CERT_V_END DOWNSTREAM_PEER_CERT_V_START EMIT_TIME EMIT_TIME_LOCAL ` +
		`GRPC_STATUS PATH ` +
		`REQUESTED_SERVER_NAME START_TIME START_TIME_LOCAL UPSTREAM_PEER_CERT_V_END UPSTREAM_PEER_CERT_V_START `
	parameterCommands = `CEL CLUSTER_METADATA COMMON_DURATION DYNAMIC_METADATA ENVIRONMENT FILTER_STATE METADATA ` +
		`QUERY_PARAM REQ ` +
		`REQUEST_HEADER REQ_WITHOUT_QUERY RESP RESPONSE_HEADER RESPONSE_TRAILER TRAILER UPSTREAM_FILTER_STATE ` +
		`UPSTREAM_METADATA `
)

// FormatFault returns why Envoy would refuse the format of an access log or of a span's tag, or ""
// if it would not. Commands have the form "%REQ(X?Y):10%". A percent sign is escaped as "%%".
func FormatFault(text string) string {
	for rest := text; ; {
		i := strings.IndexByte(rest, '%')
		if i < 0 {
			return ""
		}
		rest = rest[i:]
		if strings.HasPrefix(rest, "%%") {
			rest = rest[2:]
			continue
		}
		m := formatCommand.FindStringSubmatch(rest)
		if m == nil {
			return fmt.Sprintf("has a \"%%\" that begins no command, at %.20q", rest)
		}
		if fault := commandFault(m[1], m[2], m[3]); fault != "" {
			return fault
		}
		rest = rest[len(m[0]):]
	}
}

// commandFault returns why a command of a format is invalid, or "". It refuses unknown commands,
// missing, needless and invalid parameters (parameterFault), and a length of a command that takes
// none (takesLength). parameters includes its parentheses, length its colon; both may be "".
func commandFault(name, parameters, length string) string {
	given := strings.TrimSuffix(strings.TrimPrefix(parameters, "("), ")")
	switch {
	case !hasCommand(bareCommands+optionalCommands+parameterCommands, name):
		return fmt.Sprintf("has an unknown command %s", name)
	case length != "" && !takesLength(name):
		return fmt.Sprintf("command %s takes no length", name)
	case given == "" && hasCommand(parameterCommands, name):
		return fmt.Sprintf("command %s needs parameters", name)
	case given == "":
		return ""
	case hasCommand(bareCommands, name):
		return fmt.Sprintf("command %s takes no parameters", name)
	default:
		return parameterFault(name, given)
	}
}

// hasCommand reports whether a list of commands, each followed by a space, contains name.
func hasCommand(list, name string) bool { return strings.Contains(" "+list, " "+name+" ") }

// takesLength reports whether a command may have a maximum length.
func takesLength(name string) bool {
	switch name {
	case "PATH", "QUERY_PARAMS":
		return true
	case "CLUSTER_METADATA", "UPSTREAM_METADATA", "COMMON_DURATION":
		return false
	default:
		return hasCommand(parameterCommands, name)
	}
}

// parameterFault returns why the parameters given, without parentheses, of an access log command
// are invalid, or "". CEL needs a valid expression (celType), METADATA one of metadataKinds,
// FILTER_STATE and UPSTREAM_FILTER_STATE KEY, KEY:PLAIN, KEY:TYPED or KEY:FIELD:NAME.
// COMMON_DURATION needs START:END or START:END:UNIT. Options must be known to Envoy (optionFault),
// names of headers must be valid (headerParameterFault), and times must not have line ends.
func parameterFault(name, given string) string {
	parts := strings.Split(given, ":")
	switch name {
	case "CEL":
		if _, fault := celType(given); fault != "" {
			return fmt.Sprintf("command CEL(%.40s) %s", given, fault)
		}
	case "METADATA":
		return optionFault(name, given, parts[:1], metadataKinds())
	case "FILTER_STATE", "UPSTREAM_FILTER_STATE":
		if len(parts) == 2 && !slices.Contains([]string{"", "PLAIN", "TYPED"}, parts[1]) ||
			len(parts) > 2 && parts[1] != "FIELD" {
			return fmt.Sprintf("command %s(%s) wants KEY, KEY:PLAIN, KEY:TYPED or KEY:FIELD:NAME", name, given)
		}
	case "COMMON_DURATION":
		if n := len(parts); n < 2 || n > 3 || n == 3 && !slices.Contains([]string{"ms", "us", "ns"}, parts[2]) {
			return fmt.Sprintf("command COMMON_DURATION(%s) wants START:END or START:END:UNIT, with a UNIT of ms, us or ns",
				given)
		}
	case "GRPC_STATUS":
		return optionFault(name, given, []string{given}, []string{"CAMEL_STRING", "SNAKE_STRING", "NUMBER"})
	case "PATH":
		return optionFault(name, given, parts, []string{"", "WQ", "NQ"}, []string{"", "ORIG", "PATH", "ORIG_OR_PATH"})
	case "REQUESTED_SERVER_NAME":
		return optionFault(name, given, parts, []string{"", "SNI_ONLY", "SNI_FIRST", "HOST_FIRST"},
			[]string{"", "ORIG_OR_HOST", "HOST", "ORIG"})
	case "REQ", "REQUEST_HEADER", "REQ_WITHOUT_QUERY", "RESP", "RESPONSE_HEADER", "RESPONSE_TRAILER", "TRAILER":
		return headerParameterFault(name, given)
	default:
		if hasCommand(optionalCommands, name) && lineEndInTime.MatchString(given) {
			return fmt.Sprintf("command %s(%s) has a line end", name, given)
		}
	}
	return ""
}

// lineEndInTime matches a conversion of strftime to a line end, also with flags and a width.
var lineEndInTime = regexp.MustCompile(`%[-_0^#]*[1-9]*[EO]?n`)

// optionFault returns why the options in parts are invalid, or "": there are at most as many as
// lists, and each must be in the list of its position. given are all parameters, for the message.
func optionFault(name, given string, parts []string, lists ...[]string) string {
	for i, part := range parts {
		if i >= len(lists) {
			return fmt.Sprintf("command %s(%s) has more than %d options", name, given, len(lists))
		}
		if !slices.Contains(lists[i], part) {
			known := slices.DeleteFunc(slices.Clone(lists[i]), func(option string) bool { return option == "" })
			return fmt.Sprintf("command %s(%s): %q is not one of %s", name, given, part, strings.Join(known, ", "))
		}
	}
	return ""
}

// headerParameterFault returns why the parameters of a command for a header are invalid, or "": it
// refuses more than one alternative, and texts that are not names of headers, except empty ones.
func headerParameterFault(name, given string) string {
	headers := strings.Split(given, "?")
	if len(headers) > 2 {
		return fmt.Sprintf("command %s(%s) has more than one alternative", name, given)
	}
	for _, header := range headers {
		if fault := HeaderNameFault(header); fault != "" && header != "" {
			return fmt.Sprintf("command %s(%s): %s", name, given, fault)
		}
	}
	return ""
}

// metadataKinds returns the sources that %METADATA(kind:…)% accepts.
func metadataKinds() []string {
	return []string{"DYNAMIC", "CLUSTER", "ROUTE", "UPSTREAM_HOST", "LISTENER", "VIRTUAL_HOST", "LISTENER_FILTER_CHAIN"}
}

// formatCommand matches a command at the beginning of a text. A length has as many digits as Envoy
// can parse in any case.
var formatCommand = regexp.MustCompile(`^%([A-Z0-9_]+)(\(.*?\))?(:[0-9]{1,18})?%`)

// FormatsFault returns the first fault of the texts in a JSON value, nested ones included, or "".
// Each text is checked as a format (FormatFault); keys of objects and other values are not. Objects
// are visited in the order of their sorted keys.
func FormatsFault(v any) string {
	switch v := v.(type) {
	case string:
		return FormatFault(v)
	case []any:
		for _, one := range v {
			if fault := FormatsFault(one); fault != "" {
				return fault
			}
		}
	case map[string]any:
		for _, k := range sortedKeys(v) {
			if fault := FormatsFault(v[k]); fault != "" {
				return fault
			}
		}
	}
	return ""
}
