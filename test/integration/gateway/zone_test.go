package gateway

import (
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/test/support/gatewayenv"
	"github.com/meshpilot/meshpilot/test/support/longtest"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// zoneText is a Gateway at port %[1]d, the service of gateways with endpoints %[2]s, and a service behind them with endpoints %[3]s,
// whose DestinationRule has the setting %[4]s.
const zoneText = `
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: public, namespace: istio-system}
spec:
  selector: {istio: ingressgateway}
  servers: [{port: {number: %[1]d, name: http, protocol: HTTP}, hosts: ["*"]}]
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: gateways, namespace: istio-system}
spec: {hosts: [gateways.example.com], location: MESH_INTERNAL, resolution: STATIC, ports: [{name: http, number: 80, protocol: HTTP}], endpoints: [%[2]s]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: web, namespace: default}
spec: {hosts: ["*"], gateways: [istio-system/public], http: [{route: [{destination: {host: web.example.com}}]}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: web, namespace: default}
spec: {hosts: [web.example.com], location: MESH_INTERNAL, resolution: STATIC, ports: [{name: http, number: 80, protocol: HTTP}], endpoints: [%[3]s]}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: web, namespace: default}
spec: {host: web.example.com, trafficPolicy: {loadBalancer: {simple: ROUND_ROBIN, zoneAwareLbSetting: %[4]s}}}
`

// TestZoneAwareRouting: a proxy that discovers the proxies of its own workload keeps calls in its
// zone, except the share for which the zone lacks endpoints relative to its share of the proxies.
// Other proxies use all zones equally.
func TestZoneAwareRouting(t *testing.T) {
	longtest.Test(t)
	t.Parallel()
	const on, off, large = "{enabled: true, minClusterSize: 1}", "{enabled: false}", "{enabled: true, minClusterSize: 20}"
	zones := func(list ...string) []string { return list }
	cases := []struct {
		name    string
		setting string
		proxies []string // zones of the gateways, the first one is that of the test's
		servers []string // zones of the endpoints behind them
		near    float64  // share of the calls that stay in the zone
	}{
		{"as many proxies as endpoints", on, zones("z1", "z2"), zones("z1", "z1", "z2", "z2"), 1},
		{"fewer endpoints than proxies: half spills over", on, zones("z1", "z2"), zones("z1", "z2", "z2", "z2"), 0.5},
		{"all proxies in one zone", on, zones("z1"), zones("z1", "z1", "z1", "z2"), 0.75},
		{"another region is used only if this one has none", on, zones("z1"), zones("z1", "elsewhere", "elsewhere"), 1},
		{"switched off", off, zones("z1", "z2"), zones("z1", "z1", "z2", "z2"), 0.5},
		{"fewer endpoints than minClusterSize", large, zones("z1", "z2"), zones("z1", "z1", "z2", "z2"), 0.5},
	}
	for _, discovers := range []bool{true, false} {
		t.Run(fmt.Sprintf("self-discovery %t", discovers), func(t *testing.T) {
			z := startZones(t, discovers)
			for _, c := range cases {
				near := c.near
				if !discovers && c.servers[1] != "elsewhere" {
					near = float64(strings.Count(strings.Join(c.servers, " "), "z1")) / float64(len(c.servers))
				}
				z.serve(c.setting, c.proxies, c.servers)
				gatewayenv.Eventually(t, c.name, func() error { return z.share(near) })
			}
		})
	}
}

// zoned is a gateway in zone r/z1 and servers whose answers have their zone.
type zoned struct {
	*testing.T
	edge    *gatewayenv.Edge
	port    int
	servers map[string][]int // ports by zone
}

func startZones(t *testing.T, discovers bool) *zoned {
	z := &zoned{T: t, port: serving.FreePort(t), servers: map[string][]int{}}
	z.edge = gatewayenv.Start(t, gatewayenv.Options{AgentEnv: []string{
		`ISTIO_METAJSON_LABELS={"istio":"ingressgateway","topology.istio.io/locality":"r/z1"}`,
		fmt.Sprintf("ISTIO_META_ENABLE_SELF_DISCOVERY=%t", discovers),
	}})
	for _, zone := range []string{"z1", "z2", "elsewhere"} {
		for range 3 {
			z.servers[zone] = append(z.servers[zone], httpBackend(t, zone))
		}
	}
	return z
}

// serve configures where proxies and endpoints are.
func (z *zoned) serve(setting string, proxies, servers []string) {
	var gateways, endpoints []string
	for i, zone := range proxies {
		gateways = append(gateways, fmt.Sprintf("{address: 127.0.0.%d, ports: {http: %d}, locality: r/%s}", i+1, z.port, zone))
	}
	used := map[string]int{}
	for _, zone := range servers {
		locality := "r/" + zone
		if zone == "elsewhere" {
			locality = "other/z1"
		}
		port := z.servers[zone][used[zone]]
		used[zone]++
		endpoints = append(endpoints, fmt.Sprintf("{address: 127.0.0.1, ports: {http: %d}, locality: %s}", port, locality))
	}
	z.edge.Write("mesh.yaml", fmt.Sprintf(zoneText, z.port, strings.Join(gateways, ", "), strings.Join(endpoints, ", "), setting))
}

// share calls and returns an error unless a share of the answers is of the proxy's own zone. Routing to zones is random: of 200 calls
// four standard deviations are 0.14.
func (z *zoned) share(want float64) error {
	const calls = 200
	near := 0
	client := http.Client{Timeout: 5 * time.Second}
	for range calls {
		body, err := serving.Ask(z.Context(), &client, fmt.Sprintf("http://127.0.0.1:%d/", z.port))
		if err != nil {
			return err
		}
		if strings.HasPrefix(body, "z1 ") {
			near++
		}
	}
	got := float64(near) / calls
	tolerance := 0.14
	if want == 1 {
		tolerance = 0
	}
	if math.Abs(got-want) > tolerance {
		return fmt.Errorf("%.2f of the calls stay in the zone, want %.2f", got, want)
	}
	return nil
}
