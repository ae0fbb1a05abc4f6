package translate

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/test/support/fixture"
)

// TestAddressesMayCollide: services, entries, workloads, gateways and the proxy itself have the
// same addresses, of both families, twice, as ranges, and as ranges within ranges
// (GHSA-7p2q-4xvg-vxc6). Everything is generated, and no listener or cluster twice.
// T-CRASH-SE-ADDR.
func TestAddressesMayCollide(t *testing.T) {
	addresses := []string{
		"10.0.0.1", "10.0.0.1", "10.0.0.2", "10.96.0.1", "10.96.0.1", "10.0.0.0/8", "10.0.0.0/24", "10.0.0.1/32", "0.0.0.0/0", "0.0.0.0", "127.0.0.1", "255.255.255.255", "240.240.0.1",
		"2001:db8::1", "2001:db8::1/128", "2001:db8::/32", "::1", "::", "::/0", "::ffff:10.0.0.1", "2001:2::1", "169.254.169.254", "224.0.0.1",
	}
	r := rand.New(rand.NewPCG(34, 7)) //nolint:gosec // it is a test
	one := func() string { return addresses[r.IntN(len(addresses))] }
	some := func(n int) string {
		var list []string
		for range r.IntN(n + 1) {
			list = append(list, fmt.Sprintf("%q", one()))
		}
		return "[" + strings.Join(list, ", ") + "]"
	}
	protocols := []string{"HTTP", "TCP", "TLS", "HTTPS", "GRPC", "MONGO", ""}
	objects := func() string {
		var list []string
		for i := range 1 + r.IntN(4) {
			list = append(list, fmt.Sprintf("kind: Service\nmetadata: {name: s%d}\nspec: {clusterIP: %q, clusterIPs: %s, externalIPs: %s, selector: {app: p}, ports: [{name: http, port: %d}]}\n",
				i, one(), some(2), some(2), 80+r.IntN(2)))
		}
		for i := range 1 + r.IntN(5) {
			list = append(list, fmt.Sprintf("kind: ServiceEntry\nmetadata: {name: e%d}\nspec: {hosts: [e%d.example.com], addresses: %s, resolution: %s, ports: [{number: %d, name: x, protocol: %q}], endpoints: [{address: %q}]}\n",
				i, r.IntN(3), some(4), []string{"STATIC", "DNS", "NONE"}[r.IntN(3)], 80+r.IntN(2), protocols[r.IntN(len(protocols))], one()))
		}
		for i := range r.IntN(3) {
			list = append(
				list,
				fmt.Sprintf(
					"kind: WorkloadEntry\nmetadata: {name: w%d, labels: {app: p}}\nspec: {address: %q}\n",
					i, one()),
			)
			list = append(
				list,
				fmt.Sprintf(
					"kind: Pod\nmetadata: {name: p%d, labels: {app: p}}\nspec: {}\nstatus: {phase: Running, podIP: %q, podIPs: [{ip: %q}]}\n",
					i,
					one(),
					one(),
				),
			)
		}
		list = append(
			list,
			"kind: Gateway\nmetadata: {name: g}\nspec: {selector: {istio: edge}, servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: ['*'], bind: \""+strings.Split(one(), "/")[0]+"\"}]}\n",
		)
		return strings.Join(list, "---\n")
	}
	rounds := 150
	if testing.Short() {
		rounds = 40
	}
	for round := range rounds {
		text := objects()
		m := fixture.New(t, []byte(text), nil)
		table := NewTable(Options{})
		for _, proxy := range []string{
			fmt.Sprintf("{type: sidecar, name: p, namespace: default, addresses: [%q, %q], labels: {app: p}}",
				strings.Split(one(), "/")[0], strings.Split(one(), "/")[0]),
			fmt.Sprintf("{type: router, name: g, namespace: default, addresses: [%q], labels: {istio: edge}}",
				strings.Split(one(), "/")[0]),
		} {
			v := m.View(fixture.Proxy(t, []byte(proxy)))
			for _, g := range table.Generators {
				if g.All == nil {
					continue
				}
				seen := map[string]bool{}
				for _, x := range g.All(v) {
					if seen[x.Name] && (g.TypeURL == api.ListenerType || g.TypeURL == api.ClusterType) {
						t.Fatalf("round %d: %s is generated twice as %s\n%s", round, x.Name, g.TypeURL, text)
					}
					seen[x.Name] = true
				}
			}
		}
	}
}
