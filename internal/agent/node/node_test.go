package node

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/agent/environment"
	"github.com/meshpilot/meshpilot/internal/agent/proxyconfig"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// from returns an Input with variables "NAME=value".
func from(t *testing.T, vars ...string) Input {
	t.Helper()
	env, err := environment.Parse(environment.ParseList(append([]string{"POD_NAME=a-1", "POD_NAMESPACE=ns", "INSTANCE_IP=10.0.0.1"}, vars...)))
	if err != nil {
		t.Fatal(err)
	}
	return Input{Type: mesh.SidecarProxy, Environment: env, Config: proxyconfig.DefaultConfig(), IstioLevel: "1.2.3", Version: "0.1.2", HasIdentity: true}
}

func build(t *testing.T, in Input) Node {
	t.Helper()
	n, err := Build(in)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestID(t *testing.T) {
	tests := []struct {
		name   string
		vars   []string
		change func(*Input)
		want   string
	}{
		{"a sidecar", nil, func(*Input) {}, "sidecar~10.0.0.1~a-1.ns~ns.svc.cluster.local"},
		{"a router", nil, func(in *Input) { in.Type = mesh.RouterProxy }, "router~10.0.0.1~a-1.ns~ns.svc.cluster.local"},
		{"another domain", nil, func(in *Input) { in.Domain = "ns.svc.example.org" }, "sidecar~10.0.0.1~a-1.ns~ns.svc.example.org"},
		{"a name with dots", []string{"POD_NAME=vm.example.org"}, func(*Input) {}, "sidecar~10.0.0.1~vm.example.org.ns~ns.svc.cluster.local"},
		{"IPv6", []string{"INSTANCE_IP=fd00::1"}, func(*Input) {}, "sidecar~fd00::1~a-1.ns~ns.svc.cluster.local"},
		{"nothing known of addresses", []string{"INSTANCE_IP="}, func(*Input) {}, "sidecar~127.0.0.1~a-1.ns~ns.svc.cluster.local"},
	}
	for _, test := range tests {
		in := from(t, test.vars...)
		test.change(&in)
		n := build(t, in)
		if n.ID != test.want {
			t.Errorf("%s: id %s, want %s", test.name, n.ID, test.want)
		}
		if p, err := mesh.ParseNodeID(n.ID); err != nil || p.Type != in.Type || p.Namespace != "ns" {
			t.Errorf("%s: the control plane reads %+v, %v", test.name, p, err)
		}
	}
}

func TestBuildNamesMissingInput(t *testing.T) {
	_, err := Build(from(t, "POD_NAME= ", "POD_NAMESPACE="))
	for _, want := range []string{"environment variable POD_NAME: must be set", "environment variable POD_NAMESPACE: must be set"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want …%s…", err, want)
		}
	}
	if _, err = Build(from(t, "ISTIO_META_DNS_AUTO_ALLOCATE=maybe")); err == nil || !strings.Contains(err.Error(), "ISTIO_META_DNS_AUTO_ALLOCATE") {
		t.Errorf("error for an invalid value = %v", err)
	}
}

// TestMetadata tests that the control plane parses the metadata that the agent builds.
func TestMetadata(t *testing.T) {
	in := from(t,
		"SERVICE_ACCOUNT=sa", "MESHPILOT_SOCKET_MARK=1337", "ENVOY_STATUS_PORT=16021",
		"ISTIO_META_NAMESPACE=overruled", "ISTIO_META_CLUSTER_ID=c1", "ISTIO_META_NETWORK=n1", "ISTIO_META_FREE=text",
		`ISTIO_METAJSON_LABELS={"app":"old","pod-template-hash":"x"}`,
	)
	in.Labels = map[string]string{"app": "new"}
	in.Annotations = map[string]string{"kubectl.kubernetes.io/last-applied-configuration": "{}", "sidecar.istio.io/inject": "true", "proxy.istio.io/config": "{}"}
	in.Config.MeshId = "m1"
	in.Config.InterceptionMode = meshconfig.ProxyConfig_TPROXY
	n := build(t, in)

	raw, err := n.Struct.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	got, bad := mesh.ParseNodeMetadata(raw)
	if len(bad) > 0 {
		t.Errorf("unreadable: %v", bad)
	}
	if !strings.Contains(string(got.ProxyConfig), `"statusPort":15020`) {
		t.Errorf("PROXY_CONFIG is %s", got.ProxyConfig)
	}
	got.ProxyConfig, got.Strings = nil, nil // Strings repeats the text values
	want := mesh.NodeMetadata{
		ClusterID: "c1", Network: "n1", Namespace: "ns", Name: "a-1", ServiceAccount: "sa", MeshID: "m1", IstioVersion: "1.2.3", MeshpilotVersion: "0.1.2",
		InterceptionMode: "TPROXY", InstanceIPs: []string{"10.0.0.1"}, Labels: map[string]string{"app": "new"},
		Annotations: map[string]string{"sidecar.istio.io/inject": "true"}, EnvoyStatusPort: 16021, EnvoyPrometheusPort: 15090, SocketMark: 1337,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff(map[string]any{"app": "old"}, n.Struct.AsMap()["STATIC_LABELS"]); diff != "" {
		t.Errorf("labels of the variable (-want +got):\n%s", diff)
	}
	if free := n.Struct.GetFields()["FREE"].GetStringValue(); free != "text" {
		t.Errorf("FREE is %q", free)
	}
	if in.Environment.Labels["pod-template-hash"] != "x" || in.Environment.Metadata["NAMESPACE"] != "overruled" {
		t.Error("Build changed its input")
	}
}

func TestRouterIsNotIntercepted(t *testing.T) {
	in := from(t)
	in.Type = mesh.RouterProxy
	if got := build(t, in).Metadata.InterceptionMode; got != "NONE" {
		t.Errorf("interception mode %s, want NONE", got)
	}
}

func TestServiceCluster(t *testing.T) {
	canonical := map[string]string{"service.istio.io/canonical-name": "canon", "app": "app"}
	byName := func(mode meshconfig.ProxyConfig_TracingServiceName) func(*meshconfig.ProxyConfig) {
		return func(c *meshconfig.ProxyConfig) {
			c.ClusterName = &meshconfig.ProxyConfig_TracingServiceName_{TracingServiceName: mode}
		}
	}
	tests := []struct {
		name   string
		config func(*meshconfig.ProxyConfig)
		labels map[string]string
		vars   []string
		want   string
	}{
		{"by app", func(*meshconfig.ProxyConfig) {}, canonical, nil, "app.ns"},
		{"by workload", func(*meshconfig.ProxyConfig) {}, nil, []string{"ISTIO_META_WORKLOAD_NAME=w"}, "w.ns"},
		{"nothing known", func(*meshconfig.ProxyConfig) {}, nil, nil, "istio-proxy.ns"},
		{"chosen", func(c *meshconfig.ProxyConfig) {
			c.ClusterName = &meshconfig.ProxyConfig_ServiceCluster{ServiceCluster: "mine"}
		}, canonical, nil, "mine"},
		{"app label", byName(meshconfig.ProxyConfig_APP_LABEL_AND_NAMESPACE), canonical, nil, "app.ns"},
		{"canonical", byName(meshconfig.ProxyConfig_CANONICAL_NAME_ONLY), canonical, nil, "canon"},
		{"canonical and namespace", byName(meshconfig.ProxyConfig_CANONICAL_NAME_AND_NAMESPACE), canonical, nil, "canon.ns"},
		{"canonical by workload", byName(meshconfig.ProxyConfig_CANONICAL_NAME_ONLY), nil, []string{"ISTIO_META_WORKLOAD_NAME=w"}, "w"},
	}
	for _, test := range tests {
		in := from(t, test.vars...)
		in.Labels = test.labels
		test.config(in.Config)
		if got := build(t, in).Cluster; got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}

func TestLocality(t *testing.T) {
	tests := []struct {
		labels map[string]string
		want   mesh.Locality
	}{
		{nil, mesh.Locality{}},
		{map[string]string{"topology.istio.io/locality": "r.z.s"}, mesh.Locality{Region: "r", Zone: "z", SubZone: "s"}},
		{map[string]string{"istio-locality": "r/z.1"}, mesh.Locality{Region: "r", Zone: "z.1"}},
		{map[string]string{"istio-locality": "old", "topology.istio.io/locality": "new"}, mesh.Locality{Region: "new"}},
		{map[string]string{"topology.kubernetes.io/region": "r", "topology.kubernetes.io/zone": "z"}, mesh.Locality{Region: "r", Zone: "z"}},
		{map[string]string{"topology.kubernetes.io/region": "r", "istio-locality": "own"}, mesh.Locality{Region: "own"}},
	}
	for _, test := range tests {
		in := from(t)
		in.Labels = test.labels
		n := build(t, in)
		if n.Locality != test.want {
			t.Errorf("%v: %+v, want %+v", test.labels, n.Locality, test.want)
		}
		if set := n.Proto().GetLocality() != nil; set != (test.want != mesh.Locality{}) {
			t.Errorf("%v: locality in the node: %v", test.labels, set)
		}
	}
}

func TestAddresses(t *testing.T) {
	addr := netip.MustParseAddr
	interfaces := []Interface{
		{"lo", []netip.Addr{addr("127.0.0.1"), addr("::1")}},
		{"eth0", []netip.Addr{addr("10.0.0.1"), addr("fe80::1"), addr("fd00::1")}},
		{"eth1", []netip.Addr{addr("192.0.2.1"), addr("169.254.1.1")}},
	}
	tests := []struct {
		name     string
		vars     []string
		excluded []string
		want     []netip.Addr
	}{
		{"of the interfaces, the instance's first", []string{"INSTANCE_IP=192.0.2.1"}, nil, []netip.Addr{addr("192.0.2.1"), addr("10.0.0.1"), addr("fd00::1")}},
		{"interfaces can be left out", nil, []string{"eth1"}, []netip.Addr{addr("10.0.0.1"), addr("fd00::1")}},
		{"given ones displace those of the interfaces", []string{"INSTANCE_IPS=10.9.9.9"}, nil, []netip.Addr{addr("10.9.9.9")}},
		{"each once", []string{"INSTANCE_IP=10.9.9.9", "INSTANCE_IPS=fd00::9,10.9.9.9"}, nil, []netip.Addr{addr("10.9.9.9"), addr("fd00::9")}},
	}
	for _, test := range tests {
		env, err := environment.Parse(environment.ParseList(test.vars))
		if err != nil {
			t.Fatal(err)
		}
		got := ProxyAddresses(env, interfaces, test.excluded)
		if diff := cmp.Diff(test.want, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
	if got := ExcludedInterfaces(map[string]string{"traffic.sidecar.istio.io/excludeInterfaces": "eth1, ,docker0"}); !cmp.Equal(got, []string{"eth1", "docker0"}) {
		t.Errorf("excluded interfaces %v", got)
	}
}

func TestHostInterfacesHasLoopback(t *testing.T) {
	list, err := HostInterfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range list {
		for _, a := range i.Addresses {
			if a.IsLoopback() {
				return
			}
		}
	}
	t.Errorf("no loopback address in %v", list)
}

func TestParseDownward(t *testing.T) {
	got, err := ParseDownward("app=\"a\"\n\nlong=\"line\\nbreak \\\"quoted\\\" = \\u00e9\"\n")
	want := map[string]string{"app": "a", "long": "line\nbreak \"quoted\" = é"}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for text, want := range map[string]string{
		"app=\"a\"\nbroken": `line 2: expected key="value"`,
		`app=a`:             `line 1: value of "app" is not a quoted string`,
	} {
		if _, err := ParseDownward(text); err == nil || err.Error() != want {
			t.Errorf("%q: error %v, want %s", text, err, want)
		}
	}
	if values, err := ReadDownwardFile("/nowhere"); values != nil || err != nil {
		t.Errorf("a missing file: %v, %v; want nothing", values, err)
	}
	if _, err := ReadDownwardFile("/"); err == nil {
		t.Error("no error for a directory")
	}
}

func TestWarnings(t *testing.T) {
	in := from(t)
	in.Environment.EnvoySecureMetricsPort, in.HasIdentity = 15091, false
	if got := Warnings(build(t, in)); len(got) != 1 || !strings.Contains(got[0], "ENVOY_SECURE_METRICS_PORT has no effect") {
		t.Errorf("without a certificate: got %v", got)
	}
	in.HasIdentity = true
	if got := Warnings(build(t, in)); got != nil {
		t.Errorf("with a certificate: got %v, want none", got)
	}
	if got := Warnings(build(t, from(t))); got != nil {
		t.Errorf("got %v, want none", got)
	}
}

// TestMetadataNamesSDSServers tests the metadata by which the control plane sends the clusters of SDS
// servers beside the proxy: of certificates in files, and of credentials.
func TestMetadataNamesSDSServers(t *testing.T) {
	for _, set := range []bool{false, true} {
		in := from(t)
		in.SeparateFileServer = set
		checkFlag(t, in, "file-credential", set)
		in = from(t)
		in.HasCredentialServer = set
		checkFlag(t, in, "credential", set)
	}
}

// checkFlag checks whether the metadata of in has "true" under key.
func checkFlag(t *testing.T, in Input, key string, want bool) {
	t.Helper()
	if got := build(t, in).Struct.AsMap()[key] == "true"; got != want {
		t.Errorf("%s is true: %v, want %v", key, got, want)
	}
}
