package snapshot

import (
	"slices"
	"strconv"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// InvalidMetadata is a value in the metadata of a proxy that is not used, because it has another
// form than its key requires.
type InvalidMetadata struct {
	// Key is the key in the metadata, without ISTIO_META_. Value is its text.
	Key, Value string
	// Want describes valid values. Instead describes what applies in place of Value.
	Want, Instead string
}

// metadataValue is a key of the metadata whose text is parsed.
type metadataValue struct {
	key           string
	isValid       func(text string) bool
	want, instead string
}

// metadataValues are the keys that the control plane parses as durations, numbers, booleans or
// lists.
var metadataValues = []metadataValue{ //nolint:gochecknoglobals // a constant table
	{"DNS_AUTO_ALLOCATE", isBoolean, "true or false", "false applies"},
	{"DNS_CAPTURE", isBoolean, "true or false", "false applies"},
	{"ENABLE_SELF_DISCOVERY", isBoolean, "true or false", "false applies"},
	{"HTTP10", oneOf("0", "1", "false"), "1 or 0", "HTTP/1.0 is accepted only with PILOT_HTTP10"},
	{"HTTP_PROXY_PORT", isPort, "a port, or 0 for none", "the port of MeshConfig.proxyHttpPort applies"},
	{"IDLE_TIMEOUT", isIdleTimeout, "a duration that is not negative, such as 300s", "the defaults of Envoy apply"},
	{"INBOUND_LISTENER_EXACT_BALANCE", isBoolean, "true or false", "false applies"},
	{"MESHPILOT_ON_DEMAND", isBoolean, "true or false", "false applies"},
	{"MESHPILOT_SOCKET_MARK", isNumber, "a number", "upstream connections have no mark"},
	{"OUTBOUND_LISTENER_EXACT_BALANCE", isBoolean, "true or false", "false applies"},
	{"POD_PORTS", isPortList, `a list such as [{"containerPort": 8080}]`, "its invalid entries are left out"},
	{"UNPRIVILEGED_POD", isBoolean, "true or false", "false applies"},
	{"credential", oneOf("true", "false"), "true or false", "false applies"},
	{"file-credential", oneOf("true", "false"), "true or false", "false applies"},
}

// InvalidMetadataOf returns the values of a proxy's metadata that are parsed as durations, numbers,
// booleans or lists and are invalid, sorted by key. Empty and missing values are valid, and values
// that are no strings are not checked.
func InvalidMetadataOf(m *mesh.NodeMetadata) []InvalidMetadata {
	var list []InvalidMetadata
	for _, v := range metadataValues {
		if text := m.Strings[v.key]; text != "" && !v.isValid(text) {
			list = append(list, InvalidMetadata{Key: v.key, Value: text, Want: v.want, Instead: v.instead})
		}
	}
	return list
}

// isBoolean reports whether a text is a boolean as mesh.StringBool decodes it (strconv.ParseBool).
func isBoolean(text string) bool {
	_, err := strconv.ParseBool(text)
	return err == nil
}

// isNumber reports whether a text is a number as mesh.StringInt decodes it, also with a fraction.
func isNumber(text string) bool {
	_, err := strconv.ParseFloat(text, 64)
	return err == nil
}

// isPortList reports whether mesh.PortList decodes every entry of a text, which is a JSON list of
// ports.
func isPortList(text string) bool { return mesh.PortListFault([]byte(text)) == nil }

// isPort reports whether a text is a port or 0.
func isPort(text string) bool {
	_, ok := parsePort(text)
	return ok
}

// isIdleTimeout reports whether a text is a duration that is not negative.
func isIdleTimeout(text string) bool {
	_, ok := parseIdleTimeout(text)
	return ok
}

// oneOf returns a function that reports whether a text is one of the given ones.
func oneOf(texts ...string) func(string) bool {
	return func(text string) bool { return slices.Contains(texts, text) }
}
