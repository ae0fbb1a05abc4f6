package server

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
)

// withoutExtensions returns a copy of the node without its extensions, or nil if node is nil.
func withoutExtensions(node *corev3.Node) *corev3.Node {
	if node == nil {
		return nil
	}
	rest := proto.CloneOf(node)
	rest.Extensions = nil
	return rest
}

// compareNode checks that decodeNode returns what generated code decodes, also when the extensions
// are known. It returns the decoded node, or nil if raw is malformed or has too many elements.
func compareNode(t *testing.T, table *extensionTable, raw []byte) *corev3.Node {
	t.Helper()
	want := new(corev3.Node)
	if checkElements(want.ProtoReflect().Descriptor(), raw) != nil {
		return nil // refused before it is decoded
	}
	if proto.Unmarshal(raw, want) != nil {
		if _, _, err := table.decodeNode(raw); err == nil {
			t.Errorf("decodeNode accepts the malformed %q", raw)
		}
		return nil
	}
	var node *corev3.Node
	for _, when := range []string{"first", "again"} {
		var extensions []string
		var err error
		if node, extensions, err = table.decodeNode(raw); err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		if d := cmp.Diff(withoutExtensions(want), node, protocmp.Transform()); d != "" {
			t.Errorf("%s: node (-want +got):\n%s", when, d)
		}
		if names := extensionNames(want.Extensions); !slices.Equal(names, extensions) {
			t.Errorf("%s: extensions %q, want %q", when, extensions, names)
		}
	}
	return node
}

func TestDecodeNode(t *testing.T) {
	extension := marshal(t, &corev3.Node{Extensions: []*corev3.Extension{{Name: "x"}}})
	rest := marshal(t, &corev3.Node{Id: "a", UserAgentName: "envoy"})
	for name, raw := range map[string][]byte{
		"nothing":                         nil,
		"real":                            marshal(t, realNode(t, 1)),
		"no extensions":                   rest,
		"extensions alone":                extension,
		"extensions first":                slices.Concat(extension, extension, rest),
		"extensions in two places":        slices.Concat(extension, rest, extension),
		"extensions that are not UTF-8":   slices.Concat(rest, marshal(t, &corev3.Node{Id: "b"}), []byte{9<<3 | 2, 3, 10, 1, 0xff}),
		"a number in place of extensions": slices.Concat(rest, []byte{9 << 3, 1}),
		"truncated extensions":            slices.Concat(rest, extension[:len(extension)-1]),
	} {
		t.Run(name, func(t *testing.T) { compareNode(t, new(extensionTable), raw) })
	}
}

func TestExtensionNamesAreShared(t *testing.T) {
	var table extensionTable
	decode := func(id string, extensions ...string) []string {
		node := &corev3.Node{Id: id}
		for _, x := range extensions {
			node.Extensions = append(node.Extensions, &corev3.Extension{Name: x})
		}
		_, names, err := table.decodeNode(marshal(t, node))
		if err != nil {
			t.Fatal(err)
		}
		return names
	}
	if a, b := decode("a", "x", "y"), decode("b", "x", "y"); &a[0] != &b[0] {
		t.Error("the names of equal lists are stored twice")
	}
	if decode("a", strings.Repeat("x", maxExtensionBytes)); len(table.names) != 1 {
		t.Error("a long list is stored")
	}
	for i := range 2 * maxExtensionLists {
		name := fmt.Sprint("x", i)
		if a, b := decode("a", name), decode("b", name); &a[0] != &b[0] {
			t.Fatalf("list %d is not stored", i)
		}
	}
	if n := len(table.names); n != maxExtensionLists {
		t.Errorf("%d lists are stored, want %d", n, maxExtensionLists)
	}
}

// sidecarMetadata is the metadata of a Kubernetes sidecar.
const sidecarMetadata = `{"APP_CONTAINERS":"app","CLUSTER_ID":"Kubernetes","ENVOY_PROMETHEUS_PORT":15090,
	"ENVOY_STATUS_PORT":15021,"INSTANCE_IPS":"10.0.0.1","INTERCEPTION_MODE":"REDIRECT","ISTIO_VERSION":"1.31.0",
	"LABELS":{"app":"web","version":"v1","pod-template-hash":"6f8d9c7b5"},"MESH_ID":"cluster.local","NAME":"web-1",
	"NAMESPACE":"shop","NODE_NAME":"node-1","OWNER":"kubernetes://apis/apps/v1/namespaces/shop/deployments/web",
	"PILOT_SAN":["istiod.istio-system.svc"],
	"POD_PORTS":"[{\"name\":\"http\",\"containerPort\":8080,\"protocol\":\"TCP\"}]",
	"PROXY_CONFIG":{"binaryPath":"/usr/local/bin/envoy","concurrency":2,"configPath":"./etc/istio/proxy",
	"controlPlaneAuthPolicy":"MUTUAL_TLS","discoveryAddress":"istiod.istio-system.svc:15012","drainDuration":"45s",
	"proxyAdminPort":15000,"serviceCluster":"istio-proxy","statNameLength":189,"statusPort":15020},
	"SERVICE_ACCOUNT":"web","WORKLOAD_NAME":"web"}`

// BenchmarkNode measures what a proxy's node costs: to decode it, and to make a proxy of it.
func BenchmarkNode(b *testing.B) {
	sidecar := realNode(b, 1)
	sidecar.Metadata = metadata(b, sidecarMetadata)
	raw := marshal(b, sidecar)
	s := New(Options{})
	node, extensions, err := s.extensions.decodeNode(raw)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, _, err := s.extensions.decodeNode(raw); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("decode unknown extensions", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, _, err := new(extensionTable).decodeNode(raw); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("parse", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := s.parseNode(node, extensions); err != nil {
				b.Fatal(err)
			}
		}
	})
}
