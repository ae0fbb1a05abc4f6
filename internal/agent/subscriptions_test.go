package agent

import (
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/meshpilot/meshpilot/internal/agent/controlplane"
	"github.com/meshpilot/meshpilot/internal/agent/environment"
	"github.com/meshpilot/meshpilot/internal/agent/proxyconfig"
	"github.com/meshpilot/meshpilot/internal/agent/secret"
	"github.com/meshpilot/meshpilot/internal/agent/status"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/test/support/pki"
)

// TestSettings tests that the roots of ProxyConfig reach the renewer, at startup and when they
// change, and that invalid ones are rejected.
func TestSettings(t *testing.T) {
	a := &agent{Options: Options{Log: slog.New(slog.DiscardHandler)}, metrics: status.NewMetrics()}
	a.renewer = a.newRenewer(controlplane.Target{}, secret.NewStore())
	for _, test := range []struct{ pem, want string }{
		{string(pki.Authority("a").CertificatePEM()), ""},
		{"no PEM", ""},
		{"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "ProxyConfig.caCertificatesPem: certificate 1"},
	} {
		text, err := json.Marshal(map[string]any{"caCertificatesPem": []string{test.pem}})
		if err != nil {
			t.Fatal(err)
		}
		config, err := proxyconfig.MergeLayers(proxyconfig.Layer{Name: "test", YAML: string(text)})
		if err != nil {
			t.Fatal(err)
		}
		body, err := proto.Marshal(config)
		if err != nil {
			t.Fatal(err)
		}
		if err := a.applyProxyConfig(body); (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%.20q: %v, want %q", test.pem, err, test.want)
		}
	}
	if err := a.applyProxyConfig([]byte{0xff}); err == nil {
		t.Error("no error for another message than ProxyConfig")
	}
}

// TestHasIdentity tests the sources of a workload's certificate. Tokens are not sent in plain text.
func TestHasIdentity(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, test := range map[string]struct {
		config, env string
		want        bool
	}{
		"a mesh":                       {"", "", true},
		"in plain text":                {"controlPlaneAuthPolicy: NONE", "", false},
		"an authority by itself":       {"controlPlaneAuthPolicy: NONE", "CA_ADDR=ca:15012", true},
		"a control plane in the clear": {"{controlPlaneAuthPolicy: NONE, discoveryAddress: 'istiod:15010'}", "", false},
	} {
		config, err := proxyconfig.MergeLayers(proxyconfig.Layer{Name: "test", YAML: test.config})
		if err != nil {
			t.Fatal(err)
		}
		env, err := environment.Parse(environment.ParseList([]string{test.env}))
		if err != nil {
			t.Fatal(err)
		}
		if got := HasIdentity(config, env); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestByDomain tests that roots are grouped by the trust domains named with them.
func TestByDomain(t *testing.T) {
	got := rootsByDomain([]mesh.TrustAnchor{{Domains: []string{"b", "a"}, PEM: "1"}, {PEM: "2"}, {Domains: []string{"a"}, PEM: "3"}})
	want := []secret.TrustDomain{{Name: "a", Roots: []byte("1\n3\n")}, {Name: "b", Roots: []byte("1\n")}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
