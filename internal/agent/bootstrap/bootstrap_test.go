package bootstrap

import (
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/agent/node"
	"github.com/meshpilot/meshpilot/internal/agent/proxyconfig"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

func input(t *testing.T) Input {
	t.Helper()
	config, err := proxyconfig.MergeLayers(proxyconfig.Layer{Name: "test", YAML: "{discoveryAddress: 'x:15010', controlPlaneAuthPolicy: NONE}"})
	if err != nil {
		t.Fatal(err)
	}
	metadata, err := structpb.NewStruct(map[string]any{"LABELS": map[string]any{"a": "1", "b": "2", "c": "3"}})
	if err != nil {
		t.Fatal(err)
	}
	return Input{
		Node:   node.Node{ID: "sidecar~10.0.0.1~a.ns~ns.svc.cluster.local", Type: mesh.SidecarProxy, Struct: metadata},
		Config: config, StatusPort: 15021, PrometheusPort: 15090,
	}
}

func TestSameInputSameBytes(t *testing.T) {
	in := input(t)
	var first []byte
	for range 5 {
		b, _, err := Build(in)
		if err != nil {
			t.Fatal(err)
		}
		body, err := EncodeJSON(b)
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = body
		}
		if diff := cmp.Diff(string(first), string(body)); diff != "" {
			t.Fatalf("not the same bytes:\n%s", diff)
		}
	}
}

func TestWrite(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "etc", "istio", "proxy")
	for _, body := range []string{"first", "second"} {
		path, err := WriteBootstrap(dir, FileName, []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != body {
			t.Errorf("%s has %q, %v; want %q", path, got, err, body)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 || entries[0].Name() != FileName {
		t.Errorf("directory has %v, %v; want %s alone", entries, err, FileName)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("directory's mode %v, %v; want 0700: the file may name secrets", info.Mode(), err)
	}
	if _, err := WriteBootstrap(filepath.Join(dir, FileName), FileName, nil); err == nil {
		t.Error("no error for a file in place of the directory")
	}
}

// TestWriteFileMode tests that other users can read the gRPC bootstrap, because applications run as
// other users than the agent.
func TestWriteFileMode(t *testing.T) {
	defer unix.Umask(unix.Umask(0o077))
	path := filepath.Join(t.TempDir(), "grpc-bootstrap.json")
	for _, mode := range []fs.FileMode{OwnerOnly, WorldReadable, OwnerOnly} {
		if err := WriteFile(path, []byte("{}"), mode); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode() != mode {
			t.Errorf("mode %v, %v; want %v", info.Mode(), err, mode)
		}
	}
}

func TestFamilyOf(t *testing.T) {
	v4, v6 := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")
	tests := []struct {
		name      string
		addresses []netip.Addr
		want      family
	}{
		{"nothing known", nil, family{"127.0.0.1", []string{"0.0.0.0"}, clusterv3.Cluster_V4_ONLY}},
		{"IPv4", []netip.Addr{v4}, family{"127.0.0.1", []string{"0.0.0.0"}, clusterv3.Cluster_V4_ONLY}},
		{"IPv6", []netip.Addr{v6}, family{"::1", []string{"::"}, clusterv3.Cluster_V6_ONLY}},
		{"IPv4 first", []netip.Addr{v4, v6}, family{"127.0.0.1", []string{"0.0.0.0", "::"}, clusterv3.Cluster_ALL}},
		{"IPv6 first", []netip.Addr{v6, v4}, family{"::1", []string{"::", "0.0.0.0"}, clusterv3.Cluster_ALL}},
	}
	for _, test := range tests {
		if diff := cmp.Diff(test.want, newFamily(test.addresses), cmp.AllowUnexported(family{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

func TestWithHostIP(t *testing.T) {
	tests := []struct{ address, hostIP, want string }{
		{"zipkin:9411", "", "zipkin:9411"},
		{"$(HOST_IP):9411", "10.0.0.1", "10.0.0.1:9411"},
		{"$(HOST_IP):9411", "fd00::1", "[fd00::1]:9411"},
		{"[$(HOST_IP)]:9411", "fd00::1", "[fd00::1]:9411"},
	}
	for _, test := range tests {
		if got, err := SubstituteHostIP(test.address, test.hostIP); err != nil || got != test.want {
			t.Errorf("%s with %q: %q, %v; want %q", test.address, test.hostIP, got, err, test.want)
		}
	}
	if _, err := SubstituteHostIP("$(HOST_IP):9411", ""); err == nil {
		t.Error("no error without HOST_IP")
	}
}

func TestKeepaliveIsInWholeSeconds(t *testing.T) {
	got := tcpKeepalive(&networking.ConnectionPoolSettings_TCPSettings_TcpKeepalive{Probes: 3, Time: durationpb.New(1500 * time.Millisecond)})
	if got.GetKeepaliveTime().GetValue() != 1 || got.GetKeepaliveProbes().GetValue() != 3 || got.GetKeepaliveInterval() != nil {
		t.Errorf("got %v", got)
	}
}
