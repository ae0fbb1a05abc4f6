package cloudfoundry

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshpilot/meshpilot/pkg/adapter"
)

// emitted is a registration as Diego's route emitter publishes it.
const emitted = `{
  "host": "10.0.16.5", "port": 61012, "tls_port": 61014, "uris": ["Dora.apps.example.com"], "protocol": "http1",
  "app": "b1f8e1c6-9a0c-4b4e-8f0a-0c7f7ad6f5d7", "private_instance_id": "guid-0", "private_instance_index": "0",
  "server_cert_domain_san": "guid-0", "isolation_segment": "gold", "endpoint_updated_at_ns": 1500000000000000000,
  "availability_zone": "z1", "route_service_url": "",
  "tags": {"app_name": "dora", "space_name": "my space", "component": "route-emitter", "security.istio.io/tlsMode": "istio"}
}`

// serviceOf returns the service of the first route of the payloads.
func serviceOf(t *testing.T, s Settings, payloads ...string) (adapter.Service, error) {
	t.Helper()
	x := newTestTable(t)
	var first route
	for i, payload := range payloads {
		m, err := parseMessage([]byte(payload))
		if err != nil {
			t.Fatal(err)
		}
		registered, err := s.newRegistration(m)
		if err != nil {
			return adapter.Service{}, err
		}
		r, err := parseRoute(m.URIs[0])
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			first = r
		}
		x.mustRegister(r, registered)
	}
	return s.newService(first, x.routes[first])
}

func TestService(t *testing.T) {
	s := DefaultSettings()
	s.Region = "eu"
	want := adapter.Service{
		ServiceKey: adapter.ServiceKey{Namespace: "default", Name: "dora.apps.example.com"},
		Hosts:      []string{"dora.apps.example.com"},
		Ports:      []adapter.Port{{Name: "http", Number: 80, Protocol: "HTTP"}},
		Instances: []adapter.Instance{{
			ID: "10.0.16.5:61012", Address: "10.0.16.5", Ports: map[string]uint32{"http": 61012}, Locality: "eu/z1",
			Labels: map[string]string{
				"app": "dora", "app_name": "dora", "component": "route-emitter", "app_id": "b1f8e1c6-9a0c-4b4e-8f0a-0c7f7ad6f5d7",
				"instance_id": "guid-0", "instance_index": "0", "isolation_segment": "gold", "availability_zone": "z1",
			},
		}},
	}
	got, err := serviceOf(t, s, emitted)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if _, problems := adapter.NewEntries(Name, got); len(problems) > 0 {
		t.Error(problems)
	}
	s.BackendTLS = true
	want.SubjectAltNames = []string{"guid-0"}
	want.Instances[0].ID, want.Instances[0].Ports = "10.0.16.5:61014", map[string]uint32{"http": 61014}
	got, err = serviceOf(t, s, emitted)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

func TestServiceProblems(t *testing.T) {
	tls := DefaultSettings()
	tls.BackendTLS = true
	for _, c := range []struct {
		name      string
		settings  Settings
		payloads  []string
		want      string
		instances int // -1: no service
	}{
		{"only tls_port", DefaultSettings(), []string{`{"host": "10.0.0.1", "tls_port": 2, "uris": ["a.com"]}`}, "tls_port: is the only port", -1},
		{"no port", DefaultSettings(), []string{`{"host": "10.0.0.1", "uris": ["a.com"]}`}, "port: is missing", -1},
		{"no name to verify", tls, []string{`{"host": "10.0.0.1", "tls_port": 2, "uris": ["a.com"]}`}, "server_cert_domain_san", -1},
		{"route service", DefaultSettings(), []string{
			`{"host": "10.0.0.1", "port": 2, "uris": ["a.com"]}`,
			`{"host": "10.0.0.2", "port": 2, "uris": ["a.com"], "route_service_url": "https://waf.example.com"}`,
		}, "route_service_url", -1},
		{"both with and without TLS", tls, []string{
			`{"host": "10.0.0.1", "port": 2, "uris": ["a.com"]}`,
			`{"host": "10.0.0.2", "tls_port": 3, "uris": ["a.com"], "server_cert_domain_san": "x"}`,
		}, "1 instances have none and are left out", 1},
		{"wildcard with a path", DefaultSettings(), []string{`{"host": "10.0.0.1", "port": 2, "uris": ["*.a.com/x"]}`}, "wildcard and a path", -1},
		{"path that is too long", DefaultSettings(), []string{
			`{"host": "10.0.0.1", "port": 2, "uris": ["a.com` + strings.Repeat("/abcdefg", 40) + `"]}`,
		}, "path is too long", -1},
	} {
		got, err := serviceOf(t, c.settings, c.payloads...)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", c.name, err, c.want)
		}
		if c.instances < 0 && len(got.Hosts) > 0 || c.instances >= 0 && len(got.Instances) != c.instances {
			t.Errorf("%s: service %+v", c.name, got)
		}
	}
	if _, err := serviceOf(t, DefaultSettings(), `{"host": "10.0.0.1", "port": 2, "uris": ["a.com"], "route_service_url": "https://x"}`); !errors.Is(err, errRouteService) {
		t.Error(err)
	}
}

func TestServiceHosts(t *testing.T) {
	for uri, want := range map[string]string{
		"a.com": "a.com", "*.a.com": "*.a.com", "a.com/api": "api.cf-path.a.com", "a.com/API/v1/": "v1.api.cf-path.a.com",
		"a.com/a_b": "x-648fa9b31bc7ff7e.cf-path.a.com",
	} {
		r, err := parseRoute(uri)
		if err != nil {
			t.Fatal(err)
		}
		got, err := serviceHost(r)
		if err != nil || got != want {
			t.Errorf("%s: %s, %v; want %s", uri, got, err, want)
		}
	}
	if r, err := parseRoute("api.cf-path.a.com"); err == nil {
		t.Errorf("a route can have the host of another one with a path: %v", r)
	}
}

func TestProtocolOfMixedInstances(t *testing.T) {
	h1 := `{"host": "10.0.0.1", "port": 1, "uris": ["a.com"]}`
	h2 := `{"host": "10.0.0.2", "port": 1, "uris": ["a.com"], "protocol": "http2"}`
	for want, payloads := range map[string][]string{"HTTP2": {h2}, "HTTP": {h2, h1}} {
		if got, err := serviceOf(t, DefaultSettings(), payloads...); err != nil || got.Ports[0].Protocol != want {
			t.Errorf("%v, %v; want %s", got.Ports, err, want)
		}
	}
}

func TestSegments(t *testing.T) {
	for _, c := range []struct {
		segments      []string
		gold, without bool
	}{{nil, true, true}, {[]string{"gold"}, true, false}, {[]string{"shared"}, false, true}, {[]string{"gold", "shared"}, true, true}} {
		s := Settings{Segments: c.segments}
		if s.selects("gold") != c.gold || s.selects("") != c.without {
			t.Errorf("%v: gold %t, without %t", c.segments, s.selects("gold"), s.selects(""))
		}
	}
}

func TestSettings(t *testing.T) {
	valid := DefaultSettings()
	valid.Servers = []string{"nats://10.0.0.1:4222", "tls://nats.example.com:4224"}
	if err := valid.Validate(); err != nil {
		t.Fatal(err)
	}
	for want, edit := range map[string]func(*Settings){
		"--cloudFoundryNATS: is required":       func(s *Settings) { s.Servers = nil },
		"want nats://host:port":                 func(s *Settings) { s.Servers = []string{"http://a"} },
		"belong into":                           func(s *Settings) { s.Servers = []string{"nats://me:secret@host:1"} },
		"--cloudFoundryNamespace":               func(s *Settings) { s.Namespace = "a.b" },
		"one needs the other":                   func(s *Settings) { s.KeyFile = "x" },
		"--cloudFoundryRegion":                  func(s *Settings) { s.Region = "a/b" },
		"--cloudFoundryRegisterInterval":        func(s *Settings) { s.RegisterInterval = 1 },
		"at least twice --cloudFoundryRegister": func(s *Settings) { s.StaleThreshold = s.RegisterInterval },
	} {
		s := valid
		edit(&s)
		if err := s.Validate(); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}
