package listener

import (
	"fmt"
	"strings"
	"testing"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/testkit/envoy"
)

func logging(format string, encoding meshconfig.MeshConfig_AccessLogEncoding) *meshconfig.MeshConfig {
	m := mesh.DefaultMeshConfig()
	m.AccessLogFile, m.AccessLogFormat, m.AccessLogEncoding = "/dev/stdout", format, encoding
	return m
}

// TestFormatsOfOnesOwn holds what is said of formats to what Envoy does with them: those without fault are all loaded at
// once; of the others Envoy is given the default.
func TestFormatsOfOnesOwn(t *testing.T) {
	good := []string{
		"", "plain", "100%%", "%RESPONSE_CODE%", "%REQ(X?Y):10% %RESP(a)%", "%START_TIME% %START_TIME(%Y-%m-%dT%H:%M:%S%z)%",
		"%REQ_WITHOUT_QUERY(X-ENVOY-ORIGINAL-PATH?:PATH)%", "%DYNAMIC_METADATA(a:b):5%", "%FILTER_STATE(a:PLAIN)%", "%PATH(NQ)% %PATH%",
		"%METADATA(ROUTE:a:b)%", "%CEL(request.path)%", "%COMMON_DURATION(US_RX_BEG:US_RX_END:ms)%", "%REQ(a)%%%%REQ(b)%",
	}
	for _, name := range strings.Fields(bareCommands + optionalCommands) {
		good = append(good, "%"+name+"%")
	}
	var all []string
	for _, f := range good {
		if fault := accessLogFault(logging(f, meshconfig.MeshConfig_TEXT)); fault != "" {
			t.Errorf("%q: %s", f, fault)
		}
		all = append(all, f)
	}
	bad := map[string]string{
		"%FOO%": "unknown command FOO", "50%": "begins no command", "%RESPONSE_CODE": "begins no command", "%response_code%": "begins no command",
		"%REQ%": "needs parameters", "%REQ()%": "needs parameters", "%REQ(a?b?c)%": "more than one alternative",
		"%RESPONSE_CODE(x)%": "no parameters", "%PROTOCOL:3%": "no length", "%START_TIME:3%": "no length", "%REQ(a):x%": "begins no command",
	}
	for f, want := range bad {
		if fault := accessLogFault(logging(f, meshconfig.MeshConfig_TEXT)); !strings.Contains(fault, want) {
			t.Errorf("%q: found %q, want %q", f, fault, want)
		}
		all = append(all, f)
	}
	for f, want := range map[string]string{
		`{"a": "%RESPONSE_CODE%", "b": ["%REQ(a)%", {"c": 1, "d": null}]}`: "",
		`{"a": "%FOO%"}`: "unknown command", `{"a": ["x", {"b": "5%"}]}`: "begins no command", `["a"]`: "no JSON object", `{`: "no JSON object",
	} {
		m := logging(f, meshconfig.MeshConfig_JSON)
		fault := accessLogFault(m)
		if (want == "") != (fault == "") || want == "no JSON object" != strings.Contains(fault, "JSON") || want != "no JSON object" && !strings.Contains(fault, want) {
			t.Errorf("%q: found %q, want %q", f, fault, want)
		}
		if reports(UnhonouredMesh(m), "accessLogFormat") != (fault != "") {
			t.Errorf("%q: fault %q, reported otherwise", f, fault)
		}
	}
	var c envoy.Config
	for i, f := range all {
		c.Listeners = append(c.Listeners, planned(logging(f, meshconfig.MeshConfig_TEXT), i))
	}
	c.Listeners = append(c.Listeners, planned(logging(`{"a": "%FOO%"}`, meshconfig.MeshConfig_JSON), len(all)), planned(logging("{", meshconfig.MeshConfig_JSON), len(all)+1))
	envoy.Validate(t, c)
}

// planned makes some listener with the settings.
func planned(m *meshconfig.MeshConfig, i int) *listenerv3.Listener {
	s := &Spec{Name: fmt.Sprint("l", i), Address: fmt.Sprintf("10.0.%d.%d", i>>8, i&255), Port: 80, Default: Chain{TCP: forward("c")}}
	return build(s, newCommon(&snapshot.Settings{Mesh: m}))
}

func TestTracingCanBeSwitchedOff(t *testing.T) {
	m := mesh.DefaultMeshConfig()
	if tracing(m) == nil {
		t.Error("by default there is no tracing")
	}
	m.EnableTracing = false
	if tracing(m) != nil {
		t.Error("there is tracing")
	}
}
