package mesh

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestPodPorts: ports may be a list or its JSON text. Other values affect only this field.
func TestPodPorts(t *testing.T) {
	for text, want := range map[string]PortList{
		`{"POD_PORTS": [{"containerPort": 8080, "name": "grpc", "protocol": "TCP"}, {"containerPort": 9090}]}`: {8080, 9090},
		`{"POD_PORTS": "[{\"containerPort\": 8080}]"}`:                                                         {8080},
		`{"POD_PORTS": "[{\"containerPort\": 0}, {\"containerPort\": 65536}, {}]"}`:                            nil,
		`{"POD_PORTS": "8080"}`: nil,
		`{"POD_PORTS": 8080}`:   nil,
		`{"POD_PORTS": ""}`:     nil,
		`{}`:                    nil,
	} {
		m, bad := ParseNodeMetadata([]byte(text))
		if diff := cmp.Diff(want, m.PodPorts); diff != "" || bad != nil {
			t.Errorf("%s: fields %v are bad; -want +got:\n%s", text, bad, diff)
		}
	}
}
