package kube_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"

	"github.com/meshpilot/meshpilot/internal/ingest/registry/kube"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// kubernetesGateway reads a Gateway of the Gateway API.
func kubernetesGateway(t *testing.T, labels, spec string) mesh.Event {
	t.Helper()
	g := new(gatewayv1.Gateway)
	if err := yaml.UnmarshalStrict([]byte("metadata: {name: eastwest, namespace: istio-system, labels: {"+labels+"}}\nspec: {"+spec+"}"), g); err != nil {
		t.Fatal(err)
	}
	c, err := config.New(config.Meta{Key: config.Key{Kind: api.KubernetesGateway, Namespace: g.Namespace, Name: g.Name}, Labels: g.Labels}, g)
	if err != nil {
		t.Fatal(err)
	}
	return mesh.Event{Config: c}
}

// TestGatewaysOfGatewayAPI checks which gateways of networks a Gateway declares, and its Problems.
func TestGatewaysOfGatewayAPI(t *testing.T) {
	const (
		far       = "topology.istio.io/network: far"
		class     = "gatewayClassName: istio, "
		usual     = "listeners: [{name: tls, port: 15443, protocol: TLS, tls: {mode: Passthrough}}]"
		one       = `addresses: [{type: IPAddress, value: 198.51.100.1}], `
		named     = `addresses: [{type: Hostname, value: elb.example.com}, {value: 198.51.100.1}], `
		useless   = `addresses: [{type: IPAddress, value: "198.51"}, {type: NamedAddress, value: x}], `
		notAnIP   = `spec.addresses[0].value: "198.51" is not an IP address; it is left out`
		notUsed   = `spec.addresses[1].type: "NamedAddress" is neither IPAddress nor Hostname; the address is left out`
		elsewhere = "gatewayClassName: istio-remote, "
	)
	none := func(port, network string) string {
		return "spec.listeners: none has TLS and port " + port + ", or the option gateway.istio.io/listener-protocol: auto-passthrough, so this is not a gateway of network \"" + network + "\""
	}
	for name, test := range map[string]struct {
		options      kube.Options
		disabled     bool
		labels, spec string
		want         string
		wrong        []string
	}{
		"no network":               {labels: "a: b", spec: class + one + usual},
		"an address":               {labels: far, spec: class + one + usual, want: "far 198.51.100.1 15443"},
		"a name, and an address":   {labels: far, spec: class + named + usual, want: "far 198.51.100.1 15443, far elb.example.com 15443"},
		"no address":               {labels: far, spec: class + usual},
		"addresses of other types": {labels: far, spec: class + useless + usual, wrong: []string{notAnIP, notUsed}},
		"another port":             {labels: far + `, networking.istio.io/gatewayPort: "443"`, spec: class + one + strings.ReplaceAll(usual, "15443", "443"), want: "far 198.51.100.1 443"},
		"no listener on the port":  {labels: far + `, networking.istio.io/gatewayPort: "443"`, spec: class + one + usual, wrong: []string{none("443", "far")}},
		"no port":                  {labels: far + `, networking.istio.io/gatewayPort: many`, spec: class + one + usual, wrong: []string{`metadata.labels[networking.istio.io/gatewayPort]: "many" is not a port number: no listener is created`, none("0", "far")}},
		"port out of range": {
			labels: far + `, networking.istio.io/gatewayPort: "65536"`, spec: class + one + strings.ReplaceAll(usual, "15443", "65535"),
			wrong: []string{`metadata.labels[networking.istio.io/gatewayPort]: "65536" is not a port number: no listener is created`, none("0", "far")},
		},
		"listeners by their mode": {
			labels: far, spec: class + one + "listeners: [{name: a, port: 1443, protocol: TLS, tls: {options: {gateway.istio.io/listener-protocol: auto-passthrough}}}, {name: b, port: 15008, protocol: HBONE, tls: {}}, {name: c, port: 15443, protocol: TLS, tls: {}}]",
			want: "far 198.51.100.1 1443, far 198.51.100.1 15443",
		},
		"no TLS":                        {labels: far, spec: class + one + "listeners: [{name: a, port: 15443, protocol: TCP}]", wrong: []string{none("15443", "far")}},
		"elsewhere, where config is":    {labels: far, spec: elsewhere + one + usual, want: "far 198.51.100.1 15443"},
		"elsewhere, in another cluster": {options: kube.Options{Remote: true}, labels: far, spec: elsewhere + one + usual},
		"another cluster's own":         {options: kube.Options{Remote: true}, labels: far, spec: class + one + usual, want: "far 198.51.100.1 15443"},
		"not followed":                  {disabled: true, labels: far, spec: class + one + usual},
	} {
		t.Run(name, func(t *testing.T) {
			test.options.Cluster, test.options.DiscoverGateways = "c1", !test.disabled
			object := kubernetesGateway(t, test.labels, test.spec)
			var got, wrong []string
			passed := false
			c := kube.New(test.options)
			for _, e := range c.Convert(mesh.Batch{object}) {
				switch {
				case e.Gateways != nil:
					for _, g := range e.Gateways.Gateways {
						if e.Op != mesh.Upsert || g.Cluster != "c1" || e.Gateways.Cluster != "c1" || e.Gateways.From != object.Config.Key || e.Source == "" {
							t.Errorf("%+v in %+v", g, e)
						}
						got = append(got, fmt.Sprint(g.Network, " ", g.Address, " ", g.Port))
					}
				case e.Problems != nil:
					for _, p := range e.Problems.List {
						wrong = append(wrong, p.Field+": "+p.Reason)
					}
				default:
					passed = passed || e.Config == object.Config
				}
			}
			if strings.Join(got, ", ") != test.want || !passed {
				t.Errorf("gateways %q, want %q; passed on: %t", got, test.want, passed)
			}
			if diff := cmp.Diff(test.wrong, wrong); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if again := c.Convert(mesh.Batch{object}); len(again) != 1 {
				t.Errorf("emitted again unchanged: %v", again)
			}
			ends := 0
			for _, e := range c.Convert(mesh.Batch{gone(object.Config)}) {
				if e.Gateways != nil && e.Op == mesh.Delete && e.Gateways.From == object.Config.Key {
					ends++
				}
			}
			if want := min(1, len(got)); ends != want {
				t.Errorf("it ends %d times, want %d", ends, want)
			}
		})
	}
}
