package proxyconfig

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	meshconfig "istio.io/api/mesh/v1alpha1"
)

func TestEffective(t *testing.T) {
	tests := []struct {
		name   string
		layers []Layer
		want   func(*meshconfig.ProxyConfig)
	}{
		{"documented defaults without layers", nil, func(*meshconfig.ProxyConfig) {}},
		{"an empty layer changes nothing", []Layer{{Name: "a", YAML: ""}, {Name: "b", YAML: "{}"}}, func(*meshconfig.ProxyConfig) {}},
		{"the last layer wins", []Layer{
			{Name: "a", YAML: "drainDuration: 10s\nproxyAdminPort: 1\n"},
			{Name: "b", YAML: `{"drainDuration":"20s"}`},
		}, func(c *meshconfig.ProxyConfig) {
			c.DrainDuration = durationpb.New(20 * time.Second)
			c.ProxyAdminPort = 1
		}},
		{"a field replaces the whole field", []Layer{
			{Name: "a", YAML: "tracing: {zipkin: {address: 'z:9411'}}"},
			{Name: "b", YAML: "tracing: {sampling: 5}"},
		}, func(c *meshconfig.ProxyConfig) { c.Tracing = &meshconfig.Tracing{Sampling: 5} }},
		{"lists are replaced", []Layer{
			{Name: "a", YAML: "extraStatTags: [a, b]"},
			{Name: "b", YAML: "extraStatTags: [c]"},
		}, func(c *meshconfig.ProxyConfig) { c.ExtraStatTags = []string{"c"} }},
		{"proxyMetadata is joined by key", []Layer{
			{Name: "a", YAML: "proxyMetadata: {A: '1', B: '1'}"},
			{Name: "b", YAML: "proxyMetadata: {B: '2', C: '2'}"},
		}, func(c *meshconfig.ProxyConfig) { c.ProxyMetadata = map[string]string{"A": "1", "B": "2", "C": "2"} }},
		{"an explicit zero is a value, null is none", []Layer{
			{Name: "a", YAML: "concurrency: 0\nstatNameLength: 0\nterminationDrainDuration: 0s\nstatusPort: null\n"},
		}, func(c *meshconfig.ProxyConfig) {
			c.Concurrency = wrapperspb.Int32(0)
			c.StatNameLength = 0
			c.TerminationDrainDuration = durationpb.New(0)
		}},
		{"one member of a oneof displaces the other", []Layer{
			{Name: "a", YAML: "tracingServiceName: CANONICAL_NAME_ONLY"},
		}, func(c *meshconfig.ProxyConfig) {
			c.ClusterName = &meshconfig.ProxyConfig_TracingServiceName_{TracingServiceName: meshconfig.ProxyConfig_CANONICAL_NAME_ONLY}
		}},
		{"deprecated fields move to their successors", []Layer{
			{Name: "a", YAML: "zipkinAddress: z:9411\nenvoyMetricsServiceAddress: m:1\n"},
		}, func(c *meshconfig.ProxyConfig) {
			c.Tracing = &meshconfig.Tracing{Tracer: &meshconfig.Tracing_Zipkin_{Zipkin: &meshconfig.Tracing_Zipkin{Address: "z:9411"}}}
			c.EnvoyMetricsService = &meshconfig.RemoteService{Address: "m:1"}
		}},
		{"successors override deprecated fields", []Layer{
			{Name: "a", YAML: "zipkinAddress: z:9411\nenvoyMetricsServiceAddress: m:1\ntracing: {sampling: 5}\nenvoyMetricsService: {address: 'n:1'}"},
		}, func(c *meshconfig.ProxyConfig) {
			c.Tracing = &meshconfig.Tracing{Sampling: 5}
			c.EnvoyMetricsService = &meshconfig.RemoteService{Address: "n:1"}
		}},
		{"durations have the units of the API", []Layer{{Name: "a", YAML: "drainDuration: 1m30s"}}, func(c *meshconfig.ProxyConfig) {
			c.DrainDuration = durationpb.New(90 * time.Second)
		}},
		{"proxyHeaders are merged", []Layer{
			{Name: "a", YAML: "proxyHeaders: {server: {value: a}}"},
			{Name: "b", YAML: "proxyHeaders: {requestId: {disabled: true}}"},
		}, func(c *meshconfig.ProxyConfig) {
			c.ProxyHeaders = &meshconfig.ProxyConfig_ProxyHeaders{
				Server:    &meshconfig.ProxyConfig_ProxyHeaders_Server{Value: "a"},
				RequestId: &meshconfig.ProxyConfig_ProxyHeaders_RequestId{Disabled: wrapperspb.Bool(true)},
			}
		}},
		{"unknown fields are skipped, and the last of repeated keys is used", []Layer{
			{Name: "a", YAML: "discoveryAdress: x\ntracing: {zipkin: {host: x, address: 'z:1'}}\nstatusPort: 1\nstatusPort: 2\n"},
		}, func(c *meshconfig.ProxyConfig) {
			c.Tracing = &meshconfig.Tracing{Tracer: &meshconfig.Tracing_Zipkin_{Zipkin: &meshconfig.Tracing_Zipkin{Address: "z:1"}}}
			c.StatusPort = 2
		}},
		{"snake case is accepted as the API accepts it", []Layer{
			{Name: "a", YAML: "control_plane_auth_policy: NONE"},
		}, func(c *meshconfig.ProxyConfig) { c.ControlPlaneAuthPolicy = meshconfig.AuthenticationPolicy_NONE }},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := MergeLayers(test.layers...)
			if err != nil {
				t.Fatal(err)
			}
			want := DefaultConfig()
			test.want(want)
			if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if err := Validate(got); err != nil {
				t.Errorf("not valid: %v", err)
			}
		})
	}
}

func TestEffectiveNamesLayerAndField(t *testing.T) {
	tests := []struct{ yaml, want string }{
		{"drainDuration: soon", `proxy configuration from PROXY_CONFIG: drainDuration: "soon" is not a duration`},
		{"concurrency: many", `concurrency: must be a whole number, found the string "many"`},
		{"controlPlaneAuthPolicy: MAYBE", `controlPlaneAuthPolicy: unknown value "MAYBE", must be one of `},
		{"tracing: {zipkin: {address: 1}}", `tracing.zipkin.address: must be a string, found the number 1`},
		{"- a\n- b\n", "proxy configuration from PROXY_CONFIG: must be an object, found a list"},
		{"statusPort: a\ndrainDuration: 1\n", `statusPort: must be a whole number`},
		{"a: b: c", "proxy configuration from PROXY_CONFIG: "},
	}
	for _, test := range tests {
		_, err := MergeLayers(Layer{Name: "PROXY_CONFIG", YAML: test.yaml})
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s:\n got %v\nwant …%s…", test.yaml, err, test.want)
		}
	}
}

func TestMeshDefault(t *testing.T) {
	layer, err := MeshConfigLayer("mesh.yaml", "accessLogFile: /dev/stdout\nsomethingNew: 1\ndefaultConfig:\n  meshId: m\n")
	if err != nil {
		t.Fatal(err)
	}
	got, err := MergeLayers(layer)
	if err != nil || got.GetMeshId() != "m" {
		t.Errorf("meshId %q, error %v; want m", got.GetMeshId(), err)
	}
	if layer, err = MeshConfigLayer("mesh.yaml", "trustDomain: td"); err != nil || layer.YAML != "" {
		t.Errorf("no defaultConfig: layer %q, error %v; want an empty layer", layer.YAML, err)
	}
	if _, err := MeshConfigLayer("mesh.yaml", "a: [b"); err == nil || !strings.Contains(err.Error(), "parse mesh.yaml") {
		t.Errorf("broken YAML: error %v, want one that names the file", err)
	}
}

func TestValidate(t *testing.T) {
	tests := []struct {
		yaml string
		want []string
	}{
		{"proxyAdminPort: 70000", []string{`field "proxyAdminPort": 70000 is not a port`}},
		{"discoveryAddress: istiod", []string{`field "discoveryAddress": "istiod" is not host:port`}},
		{"discoveryAddress: 'istiod:xds'", []string{`"xds" is not a port`}},
		{"discoveryAddress: ':15010'", []string{`":15010" has no host`}},
		{"configPath: ''\nbinaryPath: ''", []string{`field "configPath": must not be empty`, `field "binaryPath": must not be empty`}},
		{"drainDuration: 0.1s", []string{`field "drainDuration": 100ms is less than 1s`}},
		{"terminationDrainDuration: -1s", []string{`field "terminationDrainDuration": -1s is less than 0s`}},
		{"concurrency: -1", []string{`field "concurrency": -1 is negative`}},
		{"serviceCluster: ''", []string{`field "serviceCluster": must not be empty`}},
		{"tracing: {zipkin: {address: zipkin}}", []string{`field "tracing.zipkin.address": "zipkin" is not host:port`}},
	}
	for _, test := range tests {
		config, err := MergeLayers(Layer{Name: "t", YAML: test.yaml})
		if err != nil {
			t.Fatalf("%s: %v", test.yaml, err)
		}
		err = Validate(config)
		for _, want := range test.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s:\n got %v\nwant …%s…", test.yaml, err, want)
			}
		}
	}
}

func TestWarnings(t *testing.T) {
	config, err := MergeLayers(Layer{Name: "t", YAML: "privateKeyProvider: {qat: {pollDelay: 1s}}\navailabilityZone: z\nmeshId: m\n"})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`proxy configuration field "availabilityZone" has no effect: set the label topology.istio.io/locality instead`,
		`proxy configuration field "privateKeyProvider" has no effect: the released Envoy has no such extension`,
	}
	if diff := cmp.Diff(want, Warnings(config)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got := Warnings(DefaultConfig()); got != nil {
		t.Errorf("warnings for the defaults: %v", got)
	}
}

func TestYAML(t *testing.T) {
	got, err := EncodeYAML(&meshconfig.ProxyConfig{StatusPort: 15020, DrainDuration: durationpb.New(time.Second)})
	if want := "drainDuration: 1s\nstatusPort: 15020\n"; err != nil || got != want {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
}

// TestIgnoredFields tests that the unknown and retired fields and the repeated keys of a layer are
// reported.
func TestIgnoredFields(t *testing.T) {
	layer := Layer{Name: "PROXY_CONFIG", YAML: `parentShutdownDuration: 60s
connect_timeout: 1s
discoveryAdress: x
tracing: {zipkin: {host: x}}
statusPort: 1
statusPort: 2
`}
	want := []string{
		`proxy configuration from PROXY_CONFIG: line 6: key "statusPort" already set in map; the last value is used`,
		`proxy configuration from PROXY_CONFIG: field "connect_timeout" is retired and has no effect: use MeshConfig.connectTimeout`,
		`proxy configuration from PROXY_CONFIG: field "discoveryAdress" is not known to this version of meshpilot, and has no effect; did you mean "discoveryAddress"?`,
		`proxy configuration from PROXY_CONFIG: field "parentShutdownDuration" is retired and has no effect: Envoy is not restarted hot; use terminationDrainDuration`,
		`proxy configuration from PROXY_CONFIG: field "tracing.zipkin.host" is not known to this version of meshpilot, and has no effect`,
	}
	if diff := cmp.Diff(want, layer.IgnoredFields()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if list := (Layer{Name: "a", YAML: "statusPort: 1"}).IgnoredFields(); list != nil {
		t.Errorf("nothing is ignored: %v", list)
	}
}
