package mesh

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"
)

// TestNodeMetadata checks that metadata as a Struct and in JSON form are the same, and that an
// invalid value affects only its own field.
func TestNodeMetadata(t *testing.T) {
	for text, want := range map[string]struct {
		metadata NodeMetadata
		invalid  []string
	}{
		`{"CLUSTER_ID": "c", "INSTANCE_IPS": "10.0.0.1,fd00::1", "DNS_CAPTURE": "true", "ENVOY_STATUS_PORT": 15021,
		  "MESHPILOT_SOCKET_MARK": "1337", "LABELS": {"app": "web"}, "OWNER": "kubernetes://web", "PILOT_SAN": ["a"]}`: {
			metadata: NodeMetadata{
				ClusterID: "c", InstanceIPs: StringList{"10.0.0.1", "fd00::1"}, DNSCapture: true, EnvoyStatusPort: 15021,
				SocketMark: 1337, Labels: map[string]string{"app": "web"},
				Strings: map[string]string{
					"CLUSTER_ID": "c", "INSTANCE_IPS": "10.0.0.1,fd00::1", "DNS_CAPTURE": "true",
					"MESHPILOT_SOCKET_MARK": "1337", "OWNER": "kubernetes://web",
				},
			},
		},
		`{"CLUSTER_ID": 1, "LABELS": {"app": "web", "x": 1}, "DNS_CAPTURE": "maybe", "NAMESPACE": "shop"}`: {
			metadata: NodeMetadata{
				Namespace: "shop",
				Strings:   map[string]string{"DNS_CAPTURE": "maybe", "NAMESPACE": "shop"},
			},
			invalid: []string{"CLUSTER_ID", "DNS_CAPTURE", "LABELS"},
		},
		`{"DNS_CAPTURE": null, "PROXY_CONFIG": null, "LABELS": null}`: {},
		`{"namespace": "a", "NAMESPACE": "b", "Cluster_Id": "c"}`: {
			metadata: NodeMetadata{
				Namespace: "a", ClusterID: "c",
				Strings: map[string]string{"namespace": "a", "NAMESPACE": "b", "Cluster_Id": "c"},
			},
		},
		`{}`: {},
	} {
		m, invalid := ParseNodeMetadata([]byte(text))
		if diff := cmp.Diff(want.metadata, m) + cmp.Diff(want.invalid, invalid); diff != "" {
			t.Errorf("%s: -want +got:\n%s", text, diff)
		}
		s := new(structpb.Struct)
		if err := protojson.Unmarshal([]byte(text), s); err != nil {
			t.Fatal(err)
		}
		m, invalid = NodeMetadataOf(s)
		if diff := cmp.Diff(want.metadata, m) + cmp.Diff(want.invalid, invalid); diff != "" {
			t.Errorf("%s as a Struct: -want +got:\n%s", text, diff)
		}
	}
}

// TestNodeMetadataNotInJSON checks that a value that JSON cannot express is invalid, and that a node
// without metadata has none.
func TestNodeMetadataNotInJSON(t *testing.T) {
	s := &structpb.Struct{Fields: map[string]*structpb.Value{
		"ENVOY_STATUS_PORT": structpb.NewNumberValue(math.NaN()),
		"OTHER":             structpb.NewNumberValue(math.Inf(1)),
		"CLUSTER_ID":        structpb.NewStringValue("c"),
		"NAME":              {},
	}}
	m, invalid := NodeMetadataOf(s)
	if m.ClusterID != "c" || !cmp.Equal(invalid, []string{"ENVOY_STATUS_PORT"}) {
		t.Errorf("cluster %q, invalid %v; want c, ENVOY_STATUS_PORT", m.ClusterID, invalid)
	}
	if m, invalid := NodeMetadataOf(nil); !cmp.Equal(m, NodeMetadata{}) || invalid != nil {
		t.Errorf("metadata of no Struct: %+v, invalid %v", m, invalid)
	}
}

// TestProxyConfigOfMetadata checks that the ProxyConfig stays the same JSON document.
func TestProxyConfigOfMetadata(t *testing.T) {
	s := new(structpb.Struct)
	if err := protojson.Unmarshal([]byte(`{"PROXY_CONFIG": {"concurrency": 2, "tracing": {}}}`), s); err != nil {
		t.Fatal(err)
	}
	m, _ := NodeMetadataOf(s)
	var got any
	if err := json.Unmarshal(m.ProxyConfig, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]any{"concurrency": 2.0, "tracing": map[string]any{}}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestPodPorts: ports may be a list or its JSON text. Other values affect only this field, and
// invalid entries no others.
func TestPodPorts(t *testing.T) {
	for text, want := range map[string]PortList{
		`{"POD_PORTS": [{"containerPort": 8080, "name": "grpc", "protocol": "TCP"}, {"containerPort": 9090}]}`: {8080, 9090},
		`{"POD_PORTS": "[{\"containerPort\": 8080}]"}`:                                                         {8080},
		`{"POD_PORTS": "[{\"containerPort\": 0}, {\"containerPort\": 65536}, {}]"}`:                            nil,
		`{"POD_PORTS": "8080"}`: nil,
		`{"POD_PORTS": 8080}`:   nil,
		`{"POD_PORTS": ""}`:     nil,
		`{}`:                    nil,
		`{"POD_PORTS": "[{\"containerPort\": \"http\"}, 80, {\"containerPort\": 8080}]"}`: {8080},
	} {
		m, bad := ParseNodeMetadata([]byte(text))
		if diff := cmp.Diff(want, m.PodPorts); diff != "" || bad != nil {
			t.Errorf("%s: fields %v are bad; -want +got:\n%s", text, bad, diff)
		}
	}
}

func TestPortListFault(t *testing.T) {
	for text, want := range map[string]string{
		`[{"containerPort": 8080}]`:              "",
		`"[{\"containerPort\": 8080}]"`:          "",
		`""`:                                     "",
		`[]`:                                     "",
		`"8080"`:                                 `"8080" is not a list such as [{"containerPort": 8080}]`,
		`{"containerPort": 1}`:                   `"{\"containerPort\": 1}" is not a list such as [{"containerPort": 8080}]`,
		`[{"containerPort": 1}, {"port": 8080}]`: `entry 1, "{\"port\": 8080}", has no containerPort from 1 to 65535`,
		`[{"containerPort": 70000}]`:             `entry 0, "{\"containerPort\": 70000}", has no containerPort from 1 to 65535`,
	} {
		got := ""
		if err := PortListFault([]byte(text)); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s:\n got %s\nwant %s", text, got, want)
		}
	}
}
