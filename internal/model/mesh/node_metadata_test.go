package mesh

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

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
