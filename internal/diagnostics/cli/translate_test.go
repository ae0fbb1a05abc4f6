package cli

import (
	"os"
	"strings"
	"testing"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"sigs.k8s.io/yaml"

	"github.com/meshpilot/meshpilot/test/support/envoy"
)

// TestTranslate loads the configuration of a sidecar and of a gateway in Envoy.
func TestTranslate(t *testing.T) {
	const secure = `{kind: Gateway, apiVersion: networking.istio.io/v1, metadata: {name: secure}, spec: {selector: {app: edge}, servers: [
  {port: {number: 443, name: https, protocol: HTTPS}, hosts: ["*"], tls: {mode: SIMPLE, credentialName: cert}}]}}`
	path := t.TempDir() + "/gateway.yaml"
	if err := os.WriteFile(path, []byte(secure), 0o600); err != nil {
		t.Fatal(err)
	}
	mesh := append(bookinfoMesh(bookinfo), "-f", path)
	for args, want := range map[string][]string{
		"--proxy reviews-v1": {"0.0.0.0_9080", "inbound|9080||", "ns[default]-policy[reviews]-rule[0]", "address: 240.0.0."},
		"--proxy edge.default --type router --labels istio=ingressgateway -o json": {`"name": "0.0.0.0_80"`, `"path": "/productpage"`},
		"--proxy edge": {"kubernetes://cert", "sds-grpc"},
	} {
		out, err := runCommand(t, append(append([]string{"translate"}, mesh...), strings.Fields(args)...)...)
		if err != nil {
			t.Errorf("%s: %v", args, err)
			continue
		}
		for _, text := range want {
			if !strings.Contains(out, text) {
				t.Errorf("%s: no %s", args, text)
			}
		}
		for _, text := range []string{"eds_cluster_config", "rds:", "config_discovery", "ads:"} {
			if strings.Contains(out, text) {
				t.Errorf("%s: not static: %s", args, text)
			}
		}
		text, err := yaml.YAMLToJSON([]byte(out))
		if err != nil {
			t.Fatal(err)
		}
		b := new(bootstrapv3.Bootstrap)
		if err := protojson.Unmarshal(text, b); err != nil {
			t.Fatal(err)
		}
		t.Run(args, func(t *testing.T) { envoy.ValidateBootstrap(t, b) })
	}
	for args, want := range map[string]string{
		"":                                       "--filename and --proxy are required",
		"-f x --proxy a -o xml":                  "want yaml or json",
		"-f nowhere --proxy a":                   "no such file",
		"-f " + path + " --proxy a":              `there is no proxy "a", only `,
		"-f " + path + " --proxy a --labels a=b": "with --type only",
		"-f " + path + " --proxy a --type waypoint":              "want router or sidecar",
		"-f " + path + " --proxy a --type router --address here": "--address",
	} {
		if _, err := runCommand(t, append([]string{"translate"}, strings.Fields(args)...)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("translate %s: %v, want %s", args, err, want)
		}
	}
}
