package mesh

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/meshpilot/meshpilot/internal/model/config"
)

func TestMeshConfigOverDefaults(t *testing.T) {
	m, err := ParseMeshConfig([]byte(`
enableTracing: false
connectTimeout: 3s
defaultServiceExportTo: []
defaultConfig:
  drainDuration: 1s
  proxyMetadata: {A: b}
`))
	if err != nil {
		t.Fatal(err)
	}
	if m.EnableTracing || m.ConnectTimeout.AsDuration() != 3*time.Second || len(m.DefaultServiceExportTo) != 0 {
		t.Errorf("values of the file are not used, or not its zero values: %v", m)
	}
	if m.ProxyListenPort != 15001 || m.OutboundTrafficPolicy.Mode != DefaultMeshConfig().OutboundTrafficPolicy.Mode {
		t.Errorf("unset fields do not have the defaults: %v", m)
	}
	if p := m.DefaultConfig; p.DrainDuration.AsDuration() != time.Second || p.ProxyMetadata["A"] != "b" || p.StatusPort != 15020 {
		t.Errorf("defaultConfig: %v", p)
	}
}

func TestEmptyMeshConfigIsTheDefault(t *testing.T) {
	m, err := ParseMeshConfig(nil)
	if err != nil || m.ProxyListenPort != 15001 || m.DefaultConfig.StatusPort != 15020 {
		t.Errorf("%v, %v", m, err)
	}
}

func TestBadMeshConfigIsNamed(t *testing.T) {
	for text, want := range map[string]string{
		"connectTimeout: soon":                 `mesh config: connectTimeout: "soon" is not a duration`,
		"defaultConfig: {statusPort: a}":       "mesh config: defaultConfig.statusPort: must be a whole number",
		"outboundTrafficPolicy: {mode: ALLOW}": `mesh config: outboundTrafficPolicy.mode: unknown value "ALLOW"`,
		"a: b: c":                              "mesh config: yaml: ",
		"- a":                                  "mesh config: must be an object, found a list",
	} {
		if _, err := ParseMeshConfig([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v", text, err)
		}
	}
}

// TestUnknownFields checks that unknown fields at any depth, repeated keys and null values do not
// prevent the use of a mesh configuration and of mesh networks, and that the first two are reported.
func TestUnknownFields(t *testing.T) {
	text := []byte(`
trustDomian: x
trustDomain: one.example
connectTimeout: null
defaultConfig: {statusPrt: 1, drainDuration: 1s}
outboundTrafficPolicy: {mod: REGISTRY_ONLY}
extensionProviders: [{name: a, zipkn: {}}]
trustDomain: two.example
`)
	m, err := ParseMeshConfig(text)
	if err != nil {
		t.Fatal(err)
	}
	if m.TrustDomain != "two.example" || m.ConnectTimeout.AsDuration() != 10*time.Second ||
		m.DefaultConfig.DrainDuration.AsDuration() != time.Second || len(m.ExtensionProviders) != 1 {
		t.Errorf("the rest is not used: %v", m)
	}
	var got []string
	for _, p := range MeshConfigWarnings(text) {
		if p.Severity != config.Warning {
			t.Errorf("%s is an Error", p)
		}
		got = append(got, p.Field+": "+p.Reason)
	}
	const unknown = "is not known to this version of meshpilot, and has no effect"
	want := []string{
		`: line 8: key "trustDomain" already set in map; the last value is used`,
		"defaultConfig.statusPrt: " + unknown + `; did you mean "statusPort"?`,
		"extensionProviders[0].zipkn: " + unknown + `; did you mean "zipkin"?`,
		"outboundTrafficPolicy.mod: " + unknown + `; did you mean "mode"?`,
		"trustDomian: " + unknown + `; did you mean "trustDomain"?`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("warnings, -want +got:\n%s", diff)
	}

	networks := []byte("networks: {a: {gateway: [], gateways: [{address: 1.2.3.4, port: 1}]}}")
	if n, err := ParseMeshNetworks(networks); err != nil || len(n.GetNetworks()["a"].GetGateways()) != 1 {
		t.Errorf("networks %v, %v", n, err)
	}
	if list := MeshNetworksWarnings(networks); len(list) != 1 || list[0].Field != "networks[a].gateway" {
		t.Errorf("warnings about networks: %v", list)
	}
}

func TestPortThatProxiesHandle(t *testing.T) {
	s := Service{Ports: []Port{{Name: "dns", Number: 53, Protocol: UDP}, {Name: "dns-tcp", Number: 53, Protocol: TCP}}}
	if p, ok := s.Port(53); !ok || p.Name != "dns-tcp" {
		t.Errorf("port 53 is %q", p.Name)
	}
	if _, ok := s.Port(54); ok {
		t.Error("a port that is not there was found")
	}
}
