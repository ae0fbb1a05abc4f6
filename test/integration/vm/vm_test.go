package vm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/meshpilot/meshpilot/internal/base/netns"
	"github.com/meshpilot/meshpilot/test/support/longtest"
	"github.com/meshpilot/meshpilot/test/support/scorecard"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// The shop is a workload that is listed in a file; machines of the group vms register themselves.
const services = `
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: shop, namespace: shop}
spec:
  hosts: [shop.example.com]
  addresses: [10.97.0.1]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{name: http, number: 80, targetPort: 8080, protocol: HTTP}]
  workloadSelector: {labels: {app: shop}}
---
apiVersion: networking.istio.io/v1
kind: WorkloadEntry
metadata: {name: shop, namespace: shop}
spec: {address: 10.66.1.1, labels: {app: shop}, serviceAccount: shop}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: vms, namespace: vms}
spec:
  hosts: [vms.example.com]
  addresses: [10.97.0.2]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{name: http, number: 80, targetPort: 8080, protocol: HTTP}]
  workloadSelector: {labels: {app: vms}}
---
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: default, namespace: istio-system}
spec: {mtls: {mode: STRICT}}
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: shop, namespace: shop}
spec: {rules: [{from: [{source: {principals: [cluster.local/ns/vms/sa/vm]}}]}]}
---
`

const group = `
apiVersion: networking.istio.io/v1
kind: WorkloadGroup
metadata:
  name: NAME
  namespace: NAME
  annotations: ANNOTATIONS
spec:
  metadata: {labels: {app: NAME}}
  template: {serviceAccount: ACCOUNT, ports: {http: 8080}}
`

// groupOf returns the WorkloadGroup of a name, in a namespace of the same name.
func groupOf(name, account, annotations string) string {
	return strings.NewReplacer("NAME", name, "ACCOUNT", account, "ANNOTATIONS", annotations).Replace(group)
}

const (
	shopAddress, shopHost = "10.97.0.1", "shop.example.com"
	vmsAddress, vmsHost   = "10.97.0.2", "vms.example.com"
	ofMachine             = "URI=spiffe://cluster.local/ns/vms/sa/vm"
	ofShop                = "URI=spiffe://cluster.local/ns/shop/sa/shop"
)

func TestWithoutKubernetes(t *testing.T) {
	scorecard.Check(t, 12, scorecard.Size("restarts", "machines that are rebooted"))
	story(t, filePlane)
}

func TestWithKubernetes(t *testing.T) {
	longtest.Test(t)
	story(t, kubernetesPlane)
}

func story(t *testing.T, newPlane func(*testing.T, *netns.Network) *plane) {
	netns.Require(t)
	t.Parallel()
	netns.RequireUID(t, proxyUID)
	network := newNetwork(t)
	annotations := withEnvoy(t)
	p := newPlane(t, network)
	shops := groupOf("shop", "shop", annotations)
	machines := groupOf("vms", "vm", annotations) + "  probe: {httpGet: {path: /health, port: 8080}, periodSeconds: 1, failureThreshold: 1, timeoutSeconds: 1}\n"
	p.apply("mesh", services+machines)
	p.start()

	shop, vm := newMachine(t, network, "shop", "10.66.1.1"), newMachine(t, network, "machine", "10.66.2.1")
	shop.join(p, shops)
	if err := shop.call(vmsAddress, vmsHost, 503, ""); err != nil {
		t.Errorf("before there is a machine: %v", err)
	}
	vm.join(p, machines, "--autoregister")

	t.Log("It registers itself, and is called, and calls, with certificates.")
	serving.Eventually(t, patience, "the machine is called", func() error { return shop.call(vmsAddress, vmsHost, 200, ofShop) })
	serving.Eventually(t, patience, "the machine calls", func() error { return vm.call(shopAddress, shopHost, 200, ofMachine) })
	// The shop does not allow itself, nor a client without a certificate.
	if err := shop.call("10.66.1.1:8080", shopHost, 200, "shop called by"); err != nil {
		t.Errorf("a call of the shop to itself: %v", err)
	}
	if err := outsider(t, network, "http://10.66.2.1:8080/"); err == nil {
		t.Error("a client without a certificate is answered")
	}
	if address, err := vm.resolve(shopHost); err != nil || address != shopAddress {
		t.Errorf("the machine finds %s at %q, %v", shopHost, address, err)
	}

	t.Log("It is removed from the endpoints while it is unhealthy.")
	vm.ill.Store(true)
	serving.Eventually(t, patience, "it is called no more", func() error { return shop.call(vmsAddress, vmsHost, 503, "") })
	vm.ill.Store(false)
	serving.Eventually(t, patience, "it is called again", func() error { return shop.call(vmsAddress, vmsHost, 200, "machine called") })

	t.Run("restarts", func(t *testing.T) {
		longtest.Test(t)
		t.Log("The control plane is restarted.")
		load := startLoad(func() error {
			return errors.Join(shop.call(vmsAddress, vmsHost, 200, ofShop), vm.call(shopAddress, shopHost, 200, ofMachine))
		})
		p.stop()
		p.start()
		for _, m := range []*machine{shop, vm} {
			serving.Eventually(t, patience, "it is connected", func() error { return m.connected(2) })
		}
		if made, failed, first := load(); failed > 0 || made < 10 {
			t.Errorf("of %d rounds %d failed: %v", made, failed, first)
		}

		t.Log("The machine is rebooted after its token has expired.")
		if err := os.Remove(filepath.Join(vm.dir, "var/run/secrets/tokens/istio-token")); err != nil {
			t.Fatal(err)
		}
		vm.stop()
		vm.start()
		serving.Eventually(t, patience, "the machine is called", func() error { return shop.call(vmsAddress, vmsHost, 200, ofShop) })
		serving.Eventually(t, patience, "the machine calls", func() error { return vm.call(shopAddress, shopHost, 200, ofMachine) })

		t.Log("It is switched off.")
		vm.stop()
		serving.Eventually(t, patience, "it is called no more", func() error { return shop.call(vmsAddress, vmsHost, 503, "no healthy upstream") })
	})
}

// newNetwork returns a network that is closed when the test ends.
func newNetwork(t *testing.T) *netns.Network {
	t.Helper()
	network, err := netns.New(netns.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := network.Close(); err != nil {
			t.Error(err)
		}
	})
	return network
}

// outsider calls from a node that has no part in the mesh.
func outsider(t *testing.T, network *netns.Network, url string) error {
	t.Helper()
	node := network.Node("istiod")
	client := node.Client(5 * time.Second)
	defer client.CloseIdleConnections()
	answer, err := client.Get(url)
	if err != nil {
		return err
	}
	return answer.Body.Close()
}

// resolve resolves a name with the agent's DNS server.
func (m *machine) resolve(name string) (address string, err error) {
	err = m.node.Do(func() error {
		q := new(dns.Msg)
		q.SetQuestion(dns.Fqdn(name), dns.TypeA)
		a, _, err := (&dns.Client{Timeout: 5 * time.Second}).Exchange(q, "127.0.0.1:15053")
		if err != nil {
			return err
		}
		for _, r := range a.Answer {
			if r, ok := r.(*dns.A); ok {
				address = r.A.String()
			}
		}
		return nil
	})
	return address, err
}

// connected reports whether Envoy has had that many streams to the control plane.
func (m *machine) connected(times int) error {
	answer, err := m.caller.Get("http://127.0.0.1:15000/stats?filter=control_plane|xds-grpc.upstream_rq_total")
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	var text strings.Builder
	var streams, state int
	buffer := make([]byte, 64<<10)
	for {
		n, err := answer.Body.Read(buffer)
		text.Write(buffer[:n])
		if err != nil {
			break
		}
	}
	for line := range strings.Lines(text.String()) {
		_, _ = fmt.Sscanf(line, "cluster.xds-grpc.upstream_rq_total: %d", &streams)
		_, _ = fmt.Sscanf(line, "control_plane.connected_state: %d", &state)
	}
	if streams < times || state != 1 {
		return fmt.Errorf("%d streams, connected %d", streams, state)
	}
	return nil
}

// startLoad makes calls until the returned function is called, which returns the number of rounds,
// the number of failed ones, and the first error.
func startLoad(call func() error) func() (made, failed int64, first error) {
	ctx, cancel := context.WithCancel(context.Background())
	var made, failed atomic.Int64
	var first error
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			if err := call(); err != nil {
				if failed.Add(1) == 1 {
					first = err
				}
			}
			made.Add(1)
			time.Sleep(5 * time.Millisecond) // not a wait: 100 rounds a second are enough
		}
	}()
	return func() (int64, int64, error) {
		cancel()
		<-done
		return made.Load(), failed.Load(), first
	}
}
