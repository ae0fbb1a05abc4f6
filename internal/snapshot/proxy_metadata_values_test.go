package snapshot

import (
	"testing"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// TestInvalidMetadataOf checks a valid and an invalid value of each key, parsed as the metadata of a
// node.
func TestInvalidMetadataOf(t *testing.T) {
	values := map[string][2]string{
		"DNS_AUTO_ALLOCATE":               {"1", "on"},
		"DNS_CAPTURE":                     {"true", "yes"},
		"ENABLE_SELF_DISCOVERY":           {"false", "enabled"},
		"HTTP10":                          {"1", "true"},
		"HTTP_PROXY_PORT":                 {"0", "70000"},
		"IDLE_TIMEOUT":                    {"0s", "300"},
		"INBOUND_LISTENER_EXACT_BALANCE":  {"true", "on"},
		"OUTBOUND_LISTENER_EXACT_BALANCE": {"1", "exact"},
		"MESHPILOT_ON_DEMAND":             {"true", "always"},
		"MESHPILOT_SOCKET_MARK":           {"1338", "0x539x"},
		"POD_PORTS":                       {"[]", "8080"},
		"UNPRIVILEGED_POD":                {"1", "yes"},
		"credential":                      {"true", "1"},
		"file-credential":                 {"true", "yes"},
	}
	if len(values) != len(metadataValues) {
		t.Errorf("%d keys are tested, want %d", len(values), len(metadataValues))
	}
	for key, c := range values {
		for i, text := range append(c[:], "") {
			m, _ := mesh.ParseNodeMetadata([]byte(`{"` + key + `": "` + text + `"}`))
			list := InvalidMetadataOf(&m)
			if i == 1 && (len(list) != 1 || list[0].Key != key || list[0].Value != text) || i != 1 && list != nil {
				t.Errorf("%s=%q: %+v", key, text, list)
			}
		}
	}
}
