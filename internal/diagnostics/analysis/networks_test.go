package analysis

import (
	"testing"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/google/go-cmp/cmp"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/test/support/fixture"
)

const gatewayServices = `
kind: Service
metadata: {name: good, namespace: istio-system}
spec: {clusterIP: 10.96.0.1, externalIPs: [203.0.113.1], ports: [{name: tls, port: 15443}]}
---
kind: Service
metadata: {name: pending, namespace: istio-system}
spec: {clusterIP: 10.96.0.2, ports: [{name: tls, port: 15443}]}
---
kind: Service
metadata: {name: labelled, namespace: istio-system, labels: {topology.istio.io/network: n9}}
spec: {clusterIP: 10.96.0.3, externalIPs: [203.0.113.3], ports: [{name: tls, port: 15443}]}
---
`

func TestNetworks(t *testing.T) {
	const good = "good.istio-system.svc.cluster.local"
	for name, tt := range map[string]struct {
		networks, object string
		want             []string // field: reason
	}{
		"all is well": {networks: `
networks:
  n1: {endpoints: [{fromRegistry: Kubernetes}], gateways: [{registryServiceName: ` + good + `, port: 15443}]}
  n2: {endpoints: [{fromCidr: 10.2.0.0/16}], gateways: [{address: 203.0.113.2, port: 15443}]}`},
		"no range": {networks: `networks: {n1: {endpoints: [{fromCidr: "10.2"}]}}`,
			want: []string{`networks[n1].endpoints[0].fromCidr: "10.2" is not a range of addresses: want one such as 192.168.0.0/16`}},
		"ranges overlap": {networks: `networks: {n1: {endpoints: [{fromCidr: 10.2.0.0/16}]}, n2: {endpoints: [{fromCidr: 10.2.3.0/24}]}}`,
			want: []string{`networks[n2].endpoints[0].fromCidr: overlaps with 10.2.0.0/16 of network "n1", which has the addresses of both`}},
		"a registry twice": {networks: `networks: {n1: {endpoints: [{fromRegistry: a}]}, n2: {endpoints: [{fromRegistry: a}]}}`,
			want: []string{`networks[n2].endpoints[0].fromRegistry: registry "a" is in network "n1" already, and stays there`}},
		"a gateway of nothing": {networks: `networks: {n1: {gateways: [{port: 15443}]}}`,
			want: []string{"networks[n1].gateways[0]: says neither an address nor the name of a service: the gateway is not used"}},
		"a name, no port, and a locality": {networks: `networks: {n1: {gateways: [{address: gw.example.com, locality: r/z}, {address: "no name", port: 1}]}}`,
			want: []string{
				"networks[n1].gateways[0].locality: has no effect, as in Istio: a gateway is in the locality of what is reached through it",
				"networks[n1].gateways[0].port: 0 is not a port number: the gateway is not used",
				`networks[n1].gateways[1].address: "no name" is neither an IP address nor a name: the gateway is not used`,
			}},
		"an unknown service": {networks: `networks: {n1: {gateways: [{registryServiceName: nobody.example.com, port: 1}]}}`,
			want: []string{`networks[n1].gateways[0].registryServiceName: there is no service "nobody.example.com": the gateway is not used`}},
		"a service without addresses": {networks: `networks: {n1: {gateways: [{registryServiceName: pending.istio-system.svc.cluster.local, port: 1}]}}`,
			want: []string{`networks[n1].gateways[0].registryServiceName: service "pending.istio-system.svc.cluster.local" has no addresses outside its cluster yet: the gateway is not used`}},
		"a service with a label": {networks: `networks: {n1: {gateways: [{registryServiceName: labelled.istio-system.svc.cluster.local, port: 1}]}}`,
			want: []string{`networks[n1].gateways[0].registryServiceName: service "labelled.istio-system.svc.cluster.local" has the label topology.istio.io/network, which goes before`}},
		"a service of another registry": {networks: `networks: {n1: {endpoints: [{fromRegistry: other}], gateways: [{registryServiceName: ` + good + `, port: 1}]}}`,
			want: []string{`networks[n1].gateways[0].registryServiceName: none of the network's endpoints are from registry "Kubernetes", where the service is: the gateway is not used`}},
		"labels": {object: `
kind: Service
metadata: {name: x, namespace: istio-system, labels: {topology.istio.io/network: n1, networking.istio.io/gatewayPort: many}}
spec: {clusterIP: 10.96.0.9, ports: [{name: tls, port: 443}]}
status: {loadBalancer: {ingress: [{hostname: gw.example.com}]}}`,
			want: []string{
				`metadata.labels[networking.istio.io/gatewayPort]: "many" is not a port number: 15443 is taken`,
				`metadata.labels[topology.istio.io/network]: the service has no port 15443, so it is no gateway of network "n1"`,
			}},
		"a name that was not resolved": {object: `
kind: Service
metadata: {name: x, namespace: istio-system, labels: {topology.istio.io/network: n8}}
spec: {clusterIP: 10.96.0.9, ports: [{name: tls, port: 15443}]}
status: {loadBalancer: {ingress: [{hostname: gw.example.com}]}}`,
			want: []string{`status.loadBalancer: no address of a gateway of network "n8" is known, so the network is unreachable: gw.example.com was not resolved`}},
	} {
		t.Run(name, func(t *testing.T) {
			m := fixture.New(t, []byte(gatewayServices+tt.object), nil)
			networks, err := mesh.ParseMeshNetworks([]byte(tt.networks))
			if err != nil {
				t.Fatal(err)
			}
			m.Send(mesh.Event{Settings: &mesh.Settings{Networks: networks}})
			none := Unhonoured{
				Object: func(*config.Config) []config.Problem { return nil },
				Mesh:   func(*meshconfig.MeshConfig) []config.Problem { return nil },
			}
			var got []string
			for _, p := range New(none).Analyze(m.Snapshot()) {
				got = append(got, p.Field+": "+p.Reason)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
