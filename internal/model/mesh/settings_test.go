package mesh

import (
	"strings"
	"testing"
	"time"
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
		"conectTimeout: 1s":             "conectTimeout",
		"connectTimeout: soon":          "connectTimeout",
		"defaultConfig: {statusPrt: 1}": "statusPrt",
		"a: b: c":                       "mesh config",
	} {
		if _, err := ParseMeshConfig([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v", text, err)
		}
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
